package bridge

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/schema"
)

// toolName is the one tool.
const toolName = "ailumina_chat"

const description = "Send a message to the Ailumina agent system and get a response. IMPORTANT: To maintain conversation context, you MUST include the complete conversation history in chat_messages for each call after the first one."

// input is the schema of the arguments; %s stands for the agent types.
const input = `{"type":"object","properties":{` +
	`"agent_type":{"type":"string","description":"Type of Ailumina agent to communicate with","enum":%s},` +
	`"user_input":{"type":"string","description":"The message to send to the agent"},` +
	`"chat_messages":{"type":"array","description":"CRITICAL: Complete conversation history to maintain context between calls. For first message, use empty array []. ` +
	`For subsequent messages, include ALL previous exchanges in chronological order with exact format: ` +
	`[{\"role\": \"user\", \"content\": \"user message\"}, {\"role\": \"assistant\", \"content\": \"ai response\"}, ...]. ` +
	`This enables the agent to remember previous context and provide coherent responses.","items":{"type":"object","properties":{` +
	`"role":{"type":"string","description":"Message role: \"user\" for human messages, \"assistant\" for AI responses"},` +
	`"content":{"type":"string","description":"The actual message content"}},"required":["role","content"]}},` +
	`"fileId":{"type":"string","description":"Optional file ID for file upload context"},` +
	`"server_url":{"type":"string","description":"Ailumina server WebSocket URL (optional, defaults to ws://localhost:8000)"}},` +
	`"required":["agent_type","user_input"]}`

// types are the agent types that always exist, with the names that the agents
// have at the server.
var types = []struct{ name, agent string }{{"crud", "crud"}, {"news", "news"}, {"collaborator", "collaborator"}, {"ailumina", "AIlumina"}}

// tool is the tool with its agent types.
type tool struct {
	listed []byte // the answer to tools/list
	input  *schema.Schema
	names  []string          // the agent types
	agents map[string]string // names at the server by agent type
}

// newTool defines the tool with more agent types.
func newTool(more []string) (*tool, error) {
	t := &tool{agents: map[string]string{}}
	var names []string
	for _, known := range types {
		names = append(names, known.name)
		t.agents[known.name] = known.agent
	}
	for _, name := range more {
		if !CanName(name) {
			return nil, fmt.Errorf("%q cannot be the name of an agent: letters, digits, ., _ and - are allowed, 64 at most", name)
		}
		if slices.Contains(names, name) || slices.ContainsFunc(types, func(k struct{ name, agent string }) bool { return k.agent == name }) {
			continue // it can be asked already
		}
		names = append(names, name)
		t.agents[name] = name
	}
	t.names = names
	enum, err := json.Marshal(names)
	if err != nil {
		return nil, fmt.Errorf("encode the agent types: %w", err)
	}
	text := fmt.Sprintf(input, enum)
	if t.input, err = schema.Compile([]byte(text)); err != nil {
		return nil, fmt.Errorf("compile the tool's schema: %w", err)
	}
	quoted, err := json.Marshal(description)
	if err != nil {
		return nil, fmt.Errorf("encode the tool's description: %w", err)
	}
	t.listed = []byte(fmt.Sprintf(`{"tools":[{"name":%q,"description":%s,"inputSchema":%s}]}`, toolName, quoted, text))
	return t, nil
}

// CanName reports whether an agent can have that name: it becomes a part of a
// path.
func CanName(name string) bool {
	if name == "" || len(name) > 64 || strings.Trim(name, ".") == "" {
		return false
	}
	return strings.IndexFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
	}) < 0
}
