// Package mcp owns the protocol in both eras: it serves a Handler, and
// dials servers, over HTTP, WebSocket, HTTP+SSE and pipes.
//
// Inside, a request is stateless: a method, raw params, the client that asks,
// and a Stream for what belongs to the request while it runs. What a peer says
// stays bytes. Promises: the notifications of a request are delivered in the
// order in which the server sent them and before the response, or not at all;
// a response answers exactly one request; a client that goes away cancels its
// requests. The package keeps no catalogue and decides nothing about who may
// call what.
package mcp
