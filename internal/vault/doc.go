// Package vault owns the encryption of what hubs keep together in a store that
// others can read: its servers, their operators and their back-ups.
//
// All is encrypted under one key, the cluster key, which every hub is given from
// outside of the store. A record is bound to its name: what was written under
// one cannot be passed off as another, and what was changed is not read. What
// others can still see is which records there are, their sizes and when they were
// written; and who can write to the store can put an older version of a record
// in its place, or remove it.
//
// The package keeps nothing. It does not know where a key comes from, nor what
// is in a record.
package vault
