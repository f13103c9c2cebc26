// Package incident owns the faults that the hub has met: each becomes one
// Error, in the form in which errors are broadcast, and is counted in the Group
// of those that have its code, upstream and tool.
//
// A Book holds the last Errors whole, tells each to those who watch, and, once
// it has a store, keeps them across restarts. Counting never blocks on the
// store, never fails and is bounded: of a flood each Group keeps a few Errors a
// second whole and the number of all. What is written may lag behind by
// seconds, and the last of it may be lost to a crash.
//
// Hubs on one store share what is kept: each writes what it has counted itself,
// under its own id, and shows the sum of all, so that nothing is counted twice.
// What another meets is shown seconds later, counts that come without a whole
// Error within half a minute.
//
// It holds no arguments and no results: whoever tells of a fault leaves them
// out (Mask helps), and Options.Hide takes out secrets. What is a fault is
// decided by the callers.
package incident
