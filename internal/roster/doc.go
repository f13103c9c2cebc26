// Package roster knows the hubs that share a store: which are running, which
// release each is, and whether they are configured alike.
//
// Each hub writes down what it is, and writes it again while it runs. A hub that
// died is gone after Options.Life. What is known of the others comes from the
// store and may be a moment old; while the store is away, a hub that was not
// heard of for twice that time no longer counts as running.
//
// A hub has a key of its own there. What another process writes to it after this
// one did comes of a data folder that was copied with its id, and is a Twin: what
// was there before may be of the process before this one.
//
// The package decides nothing: hubs that differ are a reason to say so, not to
// refuse anything.
package roster
