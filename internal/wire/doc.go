// Package wire owns JSON-RPC bytes: it scans a message once, tells where its
// parts are, and frames messages for pipes and event streams.
//
// Two strictnesses. From clients every level is strict: names are compared
// after unescaping, duplicate names, lone surrogates and invalid UTF-8 are
// refused. From upstreams the envelope is strict, but inside result and error
// duplicate names and lone surrogates are let through, since those bytes are
// handed on and never interpreted. Nesting is bounded in both.
//
// Nothing here allocates in proportion to a message; parts are subslices of
// the input and live as long as it does. The package knows JSON and JSON-RPC,
// no MCP.
package wire
