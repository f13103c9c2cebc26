// Package sample owns how a server's request for the answer of a model
// (sampling/createMessage) is answered by the hub's own models: what the
// request means to a model, who has to allow it, and what the server is told.
//
// Nothing is asked of a model before policy allows it: by a rule for the
// server, by a decision that was remembered, or by a person who sees the whole
// request and may change it. Where nobody is there to ask, the request is
// rejected. What a request may cost is bounded before that: its bytes, the
// length of the answer, and the time. An answer ends with the call that it is
// for.
//
// The package runs no tools: a model's wish to use those of the request goes
// back to the server, which asks again with their results. It keeps no history
// and knows no connection.
package sample
