// Package upstream owns the MCP servers that the hub connects to: their
// processes and connections, what era they speak, what they offer, and calls
// to them.
//
// Promises: one upstream never waits for another; a connection that is lost is
// made again, with back-off, and what was subscribed to is subscribed to
// again; a call is repeated only if the server cannot have begun it or if
// repeating it does no harm; no process outlives its upstream, nor do the
// processes it started in its group. The client's own credentials are not
// known here and so cannot leave.
package upstream
