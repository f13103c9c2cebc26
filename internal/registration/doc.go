// Package registration owns which agents have registered themselves, where they
// are, and until when their leases last.
//
// # Promises
//
//   - What Add has returned without error is registered until its lease ends or
//     Remove is called; of those who register a name at the same time, one
//     succeeds.
//   - A lease lasts for Registration.Life at least after it was begun or renewed.
//   - Where hubs share a store and a key, a registration is one at all of them:
//     any hub can renew or end it, all count the same, and it outlives each of
//     them. Nothing of it can be read in the store.
//   - Settle is called with what counts after each change, here or elsewhere, one
//     call at a time. What Add and Remove have returned from is settled.
//
// Leases end by the clocks of the hubs, which are assumed to differ by Skew at
// most. Who looks at a lease after its end waits that much longer, so that none
// ends early; it may end late by half of its time and twice Skew.
//
// # What it does not do
//
// It connects to no agent, and does not decide who may register one, nor where
// an agent may be.
//
// Without a store that others share, and without a key, registrations are in
// memory and end with the process.
package registration
