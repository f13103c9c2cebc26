// Package bridge is an MCP server in front of WebSocket agents: its tool
// ailumina_chat puts a question to one of them and returns its answer. Its
// resources tell which agents there are.
//
// It promises that the tool is defined and answers as the agents' clients know
// it: one text that is the JSON {success, data} or {success, error}, where
// every error begins with "Ailumina chat failed: "; that each call has a
// connection of its own, which is closed when the call ends or is cancelled;
// that a question is sent at most once; and that a caller can have the bridge
// connect only to hosts that were allowed. What the agent says on the way is
// passed on as progress to callers that ask for it.
//
// An Agent is one such agent as an MCP server by itself, with the tool chat.
//
// It keeps nothing between calls and never logs what is said.
package bridge
