// Package peer owns a configurable MCP server for tests. It speaks real bytes
// over stdio (the test binary runs itself again as a child process) and over
// streamable HTTP, in the legacy era, the modern one or both, and it can
// misbehave in the ways real servers do.
//
// It is an independent implementation on the standard library alone, so that
// a mistake in the hub's own protocol packages cannot be repeated here and
// cancel itself out. It is strict where the protocol lets a server be strict
// (headers, sessions, capabilities, versions): what it accepts, a careful
// server accepts.
//
// Promises: the notifications and server requests of a call are written before
// its response, results and errors given as Raw go out byte for byte, and an
// HTTPServer leaves no goroutine behind once it is killed. A notification that
// belongs to no call goes to the streams open at that moment and to nobody
// later: wait for OpenStreams before provoking one.
//
// It does not serve HTTP+SSE, resumption (Last-Event-ID), batches or the core
// tasks of 2025-11-25, and it does not validate arguments against schemas.
//
// A test package that uses stdio peers starts its TestMain with Main:
//
//	func TestMain(m *testing.M) {
//		peer.Main()
//		goleak.VerifyTestMain(m)
//	}
package peer
