// Package relay owns the connections between the hubs on one store, by which a
// hub passes a request on to the hub that has what the request is about: a
// client's connection, a call that waits for an answer, an approval.
//
// A connection is a net.Conn whose bytes travel as messages of the store's
// engine, so that hubs need not reach each other's addresses. What is said over
// it is HTTP; the only thing of our own is a header in which the hub that took a
// request says who sent it.
//
// # Promises
//
//   - Bytes arrive in order and once, or the connection ends with an error.
//     Messages that the engine loses are noticed within a few seconds.
//   - Only hubs that have the key can open connections, read what passes and say
//     who sent a request, whoever else uses the store.
//   - A writer that is not read from waits: no more than Window bytes are under
//     way in each direction.
//   - When a process ends, also by kill -9, connections to it end within a few
//     seconds, and dialling it fails at once with ErrGone.
//   - Close leaves no goroutine behind.
//
// # What it does not do
//
// It keeps nothing, repeats nothing, and does not know what a request is about.
package relay
