// Package ailumina owns the protocol of WebSocket agents: one question goes to
// an agent at /ws/{agent}, and what it says comes back as a stream of small
// messages that ends with complete or error.
//
// It has the codec of both directions and both ends, and the client: Dial opens
// a socket, Chat puts one question and gathers the answer. It promises that
// what comes from the other end is checked before it is used and bounded in
// size and time, that a question is sent at most once, that an answer is
// returned only if the agent said that it is complete, and that nothing of a
// call is left when it returns. It keeps no history: a conversation is what the
// caller sends with each question.
//
// It knows neither how MCP is spoken nor what an agent is made of; but the tool
// by which MCP servers offer an agent is defined here, so that it is the same
// wherever the agent is.
package ailumina

// Bounds of what is taken from the other end.
const (
	MessageBytes = 10 << 20 // one message
	AnswerBytes  = 8 << 20  // the text of one answer
	Turns        = 10_000   // earlier messages that come with a question
)
