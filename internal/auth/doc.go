// Package auth owns the question who may ask: principals and their scopes,
// bearer tokens at rest, how browsers get in (codes, sign-ins and tickets, see
// docs/adr/0011-sign-in.md), and the checks of Host, Origin and token that stand
// before every HTTP face.
//
// Tokens and sign-ins are in files, or, where several hubs are on one store and
// have a cluster key, in that store (docs/adr/0015-cluster-key.md).
//
// It promises that a token is stored only as a hash, that the token file is
// replaced whole or not at all, that a token made or revoked by another
// process counts from the next request on (a revocation within 10 ms), and that
// a file which cannot be understood lets nobody in and is never taken for an
// empty one. The same holds for sign-ins. In a store the same holds between hubs;
// while it does not answer, what was known last goes on to count for 30 s. What lasts, such as a stream or a
// socket, is ended about a second after its token was revoked or has expired. Before
// a token is first used, OnFirstUse removes what an earlier token of the same
// name has left. A request that presents a token
// which is not valid is refused even where none is needed.
//
// A principal is handed on as an argument, never in a context. What a
// principal may do beyond the names of upstreams is not decided here.
package auth
