// Package viewer owns the sockets of those who watch: each is sent the records
// of the event bus that it wants, as they happen, one JSON object a frame, or
// several for who wants that.
//
// A viewer reads the bus at its own pace and buffers nothing but the frames of
// one look, so that one who does not take what it is sent costs a connection
// and loses detail, and is told how much by a frame of type gap; after a time
// it is cut off. Nothing that happens waits for a viewer. There is a bound of
// viewers.
//
// Who may watch is decided by the caller, and what is told by the bus.
package viewer
