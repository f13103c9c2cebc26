// Package task owns work for agents: the Queue before an upstream, which bounds
// how many calls it runs at once and says who is next, and Tasks, which are
// calls that outlive the request that began them.
//
// A Queue is in memory: who waits in it waits on an open request. It never runs
// more than it may, keeps the order of one client's calls, serves clients in
// turn, and lets no priority starve.
package task
