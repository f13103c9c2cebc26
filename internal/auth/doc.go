// Package auth owns the question who may ask: principals and their scopes,
// bearer tokens at rest, how browsers get in (codes, sign-ins and tickets, see
// docs/adr/0011-sign-in.md), and the checks of Host, Origin and token that stand
// before every HTTP face.
//
// It promises that a token is stored only as a hash, that the token file is
// replaced whole or not at all, that a token made or revoked by another
// process counts from the next request on (a revocation within 10 ms), and that
// a file which cannot be understood lets nobody in and is never taken for an
// empty one. The same holds for sign-ins. What lasts, such as a stream or a
// socket, is ended about a second after its token was revoked or has expired. Before
// a token is first used, OnFirstUse removes what an earlier token of the same
// name has left. A request that presents a token
// which is not valid is refused even where none is needed.
//
// A principal is handed on as an argument, never in a context. What a
// principal may do beyond the names of upstreams is not decided here.
package auth
