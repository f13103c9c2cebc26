// Package lease lets one hub at a time own a piece of work: a run that is
// driven, a turn that is answered.
//
// # Promises
//
//   - At most one holder has the lease of a key, in this process and among all
//     hubs that share the store.
//   - A holder that loses its lease learns of it (Lost) before the store gives
//     the lease to another hub, as long as its process runs. One whose process
//     was stopped, or whose machine slept, learns of it when the process goes on.
//     So what a holder writes needs a fence of its own, such as the sequence that
//     a journal expects.
//   - The lease of a hub that died ends by itself after Options.Life, by the clock
//     of the store: those of the hubs do not matter.
//   - A store that does not answer for half of that costs nobody a lease.
//
// # What it does not do
//
// It does not queue: Try says who holds a lease, and Do tries until it has it. It
// does not know what the work is.
//
// Without a store, and where no other hub can use it, leases are kept in memory.
package lease
