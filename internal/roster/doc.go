// Package roster knows the hubs that share a store: which are running, which
// release each is, and whether they are configured alike.
//
// Each hub writes down what it is, and writes it again while it runs. A hub that
// died is gone after Options.Life. What is known of the others comes from the
// store and may be a moment old; while the store is away, a hub that was not
// heard of for twice that time no longer counts as running.
//
// The package decides nothing: hubs that differ are a reason to say so, not to
// refuse anything.
package roster
