// Package llm owns how we speak of language models: messages, tools, the deltas
// of an answer, what an answer cost, and why there is none.
//
// A Model streams one answer to one Request; it keeps nothing between two of
// them but what it learned of its provider's limits. Each provider is a
// package below this one and speaks its own protocol over net/http; script
// needs no network. What a provider wants back untouched (signatures, signed
// reasoning) travels as Opaque beside the part it belongs to, and is sent to
// that provider only.
//
// The package runs no tools, keeps no history and knows no session: whoever
// asks decides what to do with a call, and gives the whole history each time.
package llm
