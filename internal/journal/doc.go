// Package journal keeps entities by what happened to them: each is a sequence
// of events in a log, and what is known of it is made of these events alone.
// Sessions, tasks and the like are kinds of entities; a Kind says how an event
// is written and what an entity is after it, and knows nothing of logs.
//
// # Promises
//
//   - What Commit has returned without error is in the log and will be there
//     after a crash. A decision is made on what is known at that moment, and
//     made anew if somebody else was quicker: nothing is overwritten.
//   - An append that was not acknowledged is looked up before anything else is
//     decided, so that it counts exactly once, whether it was stored or not.
//   - Whoever shares the log (Follow) is followed: what they write is applied
//     in the order of the log, and told like what is written here. What was
//     written here is known when Commit returns; what others wrote is known a
//     moment later, and at once to whoever asks for the Latest. Current says how
//     old what is known may be.
//   - What is removed stays so: Remove is an entry like any other, everything
//     before it is removed behind it, and it goes itself when everybody who
//     follows had time to read it.
//     A follower that was cut off for longer than half of that compares all that
//     it knows with the log before it goes on.
//   - A refusal, and a removal of what is not there, are decided on the latest.
//   - The last entry of an entity stays in the log as long as the entity does.
//   - Data that is too large for an entry is a blob, which is removed with the
//     entry that needs it.
//   - Changes of one entity are told in their order, each once.
//   - An entry that cannot be read or cannot follow is told to the log of the
//     program, and skipped: the rest of the entity is worth having. So is one of a
//     type that this release does not know, of which the log is told once.
//
// # What it does not do
//
// It does not know who may do what, nor when an entity is over. It keeps what
// is known of every entity in memory, but not their data.
//
// A Log is a log of package store, over NATS, or a Memory, which ends with the
// process and needs nothing.
package journal
