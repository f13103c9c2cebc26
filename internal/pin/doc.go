// Package pin owns what is known of servers' definitions: which were there when
// a server was first read, which came later, and what the hub's owner said to
// those.
//
// A Book keeps them for all servers, in the store, and one Server judges the
// definitions of one. What is new is durable before anybody is shown it. A list
// that is read by the hub itself counts for everybody; one that a server gives
// to a client of its own kind is that client's Viewer's, whose definitions are
// pinned apart, since servers list other tools to other clients. What somebody
// accepted counts for all of them.
//
// Whatever cannot be looked up is not accepted: its annotations do not count,
// and under quarantine it cannot be called.
//
// Hubs on one store share a Book: what one pins, accepts or rejects the others
// know a moment later, and each writes only what it has decided on the latest.
//
// The package decides about no call. All methods may be called from many goroutines.
package pin
