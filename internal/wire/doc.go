// Package wire owns JSON-RPC bytes: it scans a message once, tells where its
// parts are, and frames messages for pipes and event streams.
//
// Two strictnesses. From clients every level is strict: names are compared
// after unescaping, duplicate names, lone surrogates and invalid UTF-8 are
// refused. From upstreams the envelope is strict, but inside result and error
// duplicate names and lone surrogates are let through, since those bytes are
// handed on and never interpreted. Nesting is bounded in both.
//
// Parts are subslices of the input and live as long as it does. A scan with a
// reused Message allocates nothing but escaped names and, for an object of
// many names from a client, the set that tells them apart. Time and memory are
// linear in the input whatever it holds. The package knows JSON and JSON-RPC,
// no MCP.
package wire
