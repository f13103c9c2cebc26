package ailumina

import (
	"fmt"

	"github.com/stoahub/stoa/internal/wire"
)

// An agent that is offered as an MCP server has one tool, whoever offers it:
// its name, the schema of its arguments and the text that it has for an agent
// that says nothing of itself.
const (
	ToolName        = "chat"
	ToolDescription = "Say something to this agent and get its answer."
	ToolInput       = `{"type":"object","properties":{` +
		`"user_input":{"type":"string","description":"What to say to the agent."},` +
		`"chat_messages":{"type":"array","description":"The conversation so far, oldest first. The agent remembers nothing else.","items":{"type":"object","properties":{` +
		`"role":{"type":"string","description":"user or assistant"},"content":{"type":"string"}},"required":["role","content"]}},` +
		`"fileId":{"type":"string","description":"A file that the agent's server has."}},"required":["user_input"]}`
)

// HeaderChain is the header of the handshake by which a hub tells an agent of
// which calls its questions come, so that agents which ask each other in a
// circle come to an end.
const HeaderChain = "Stoa-Chain"

// What is known of an agent: of one elsewhere nothing, and of one whose tools
// are each decided upon by themselves that to ask it destroys nothing.
const (
	Foreign  = `{"openWorldHint":true}`
	Governed = `{"destructiveHint":false,"openWorldHint":true}`
)

// Tools is the list of that one tool, with a description, empty meaning
// ToolDescription, and with annotations.
func Tools(description, annotations string) []byte {
	if description == "" {
		description = ToolDescription
	}
	out := wire.AppendString([]byte(`{"tools":[{"name":"`+ToolName+`","title":"Chat","description":`), description)
	return append(out, `,"inputSchema":`+ToolInput+`,"annotations":`+annotations+`}]}`...)
}

// DecodeArguments makes a question of the arguments of the tool, which fit its
// schema. The question keeps parts of them.
func DecodeArguments(args []byte) (q Question, err error) {
	q.Input, _ = wire.String(wire.Get(args, "user_input"))
	q.FileID, _ = wire.String(wire.Get(args, "fileId"))
	if raw := wire.Get(args, "chat_messages"); raw != nil {
		q.History, err = DecodeHistory(raw)
	}
	return q, err
}

// ToolText is the result of a call of the tool: a text.
func ToolText(text string, isError bool) []byte {
	out := wire.AppendString([]byte(`{"content":[{"type":"text","text":`), text)
	return fmt.Appendf(out, `}],"isError":%t}`, isError)
}
