// Package task owns work for agents: the Queue before an upstream, which bounds
// how many calls it runs at once and says who is next, and Tasks, which are
// calls that outlive the request that began them.
//
// A Queue is in memory: who waits in it waits on an open request. It never runs
// more than it may, keeps the order of one client's calls, serves clients in
// turn, and lets no priority starve.
//
// A Task is on disk: one log per Task, whose events a pure function makes into
// its state. What is told to a client has been written before; a Task has one
// end, whoever comes to it first. After a restart Resume takes up what was not
// finished: what the upstream cannot have had yet, and what bears repetition.
// The rest ends failed, with the reason outcome_unknown.
//
// It knows no upstreams: what a Task does is the affair of its Runner.
package task
