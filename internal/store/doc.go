// Package store keeps what must outlive the process: logs, buckets and
// blobs, on NATS JetStream. The engine runs inside the process over a folder,
// or is a server or cluster elsewhere, named by a nats:// URL; the code above
// cannot tell the difference. Only this package knows NATS.
//
// # What is kept
//
//   - A Log is an ordered sequence of entries, each with a subject. Sequences
//     are those of the whole log, grow by one with each append and are never
//     reused. An append can say what the last sequence of its subject must be;
//     if it is another, nothing is written and the caller gets a *Conflict.
//   - A Bucket holds the latest value of keys, for leases and small state.
//   - Blobs are large values, by the hash of their content.
//
// One fact is one append. State in memory is a projection of a log, built by
// Scan at the start and kept current by the appends of its owner, or by Tail
// where several processes write.
//
// # Promises
//
//   - When an append returns without error, the entry is on disk (embedded) or
//     with the majority of its replicas (cluster). Only a Log with Async gives
//     that up, and only with one replica.
//   - When it returns an error, the entry is not there, unless the error is
//     ErrUncertain: then no answer came, and the caller looks (Last) before it
//     decides again.
//   - Nothing takes longer than Options.Timeout, unless it waits by its nature
//     (Tail, Watch). A store that cannot write says so by a fault of
//     kind storage, which may be retried, and by State; it recovers by itself
//     when the disk has room or the cluster a majority again.
//   - Entries are read back byte for byte or not at all. The embedded engine's
//     files are checked when the store is opened, before the engine may
//     rewrite them. A damaged file is copied to the folder "damaged" first;
//     every intact entry stays readable, and what is lost is told by Damage,
//     at each start, until a person removes that folder.
//   - All methods can be called from many goroutines. Close ends all of them
//     and leaves no goroutine behind.
//
// # What it does not do
//
// It knows nothing of what the entries mean, encodes nothing, caches nothing
// and encrypts nothing. No entry or value may be larger than MaxEntry; larger
// ones are blobs. Subjects cost memory, about 100 bytes each: use one per
// aggregate and kind of event, never one per call. It makes no claim about
// power loss beyond having asked the system to sync.
package store
