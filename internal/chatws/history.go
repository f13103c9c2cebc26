package chatws

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/llm"
)

// The bounds of a history in a frame; GET /api/chat/{session} has all of it.
const (
	historyMessages = 500
	historyBytes    = 4 << 20
)

// Message is one message of a history, in the form of the source (ChatMessage).
type Message struct {
	ID        string          `json:"id"`
	Role      string          `json:"role"` // user, assistant, tool or system
	Content   string          `json:"content,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"` // arguments of a call; its result if that is JSON, which else is Content
	CreatedAt int64           `json:"createdAt"`      // milliseconds since 1970
	ToolName  string          `json:"toolName,omitempty"`
	Kind      string          `json:"kind,omitempty"` // start for a call, complete for its result
	Metadata  *Metadata       `json:"metadata,omitempty"`
}

// Metadata is what else is known of a message.
type Metadata struct {
	Turn      string `json:"turn,omitempty"`
	Call      string `json:"call,omitempty"`
	Agent     string `json:"agent,omitempty"`
	Key       string `json:"key,omitempty"`
	Reasoning string `json:"reasoning,omitempty"`
	Reason    string `json:"reason,omitempty"`  // why a turn ended
	IsError   bool   `json:"isError,omitempty"` // of a result
	Queued    bool   `json:"queued,omitempty"`  // it waits for its turn
	Partial   bool   `json:"partial,omitempty"` // more of it follows
}

// history is what was said, as far as it is durable: what follows has a seq
// above that of the state.
func history(s *chat.State) []Message {
	out := []Message{}
	for i := range s.Messages {
		m := &s.Messages[i]
		out = append(out, messages(m.Message, m.ID, m.Turn, m.Time, m.Calls)...)
	}
	if s.Turn != nil {
		var calls []string
		said := s.Said()
		for _, c := range s.Turn.Calls[len(s.Turn.Calls)-min(len(said.Calls()), len(s.Turn.Calls)):] {
			calls = append(calls, c.ID)
		}
		part := messages(said, "m"+strconv.FormatUint(s.Seq, 10), s.Turn.ID, s.Updated, calls)
		for i := range part {
			part[i].Metadata.Partial = true
		}
		out = append(out, part...)
	} else if s.Last != nil && s.Last.Text != "" {
		out = append(out, Message{ID: "m" + strconv.FormatUint(s.Seq, 10) + ".end", Role: "system", Content: s.Last.Text,
			CreatedAt: s.Updated.UnixMilli(), Metadata: &Metadata{Reason: s.Last.Reason}})
	}
	for _, in := range s.Queue {
		out = append(out, Message{ID: in.ID, Role: "user", Content: in.Text, CreatedAt: s.Updated.UnixMilli(),
			Metadata: &Metadata{Agent: in.Agent, Key: in.Key, Queued: true}})
	}
	return out
}

// messages splits a message of a model, which can hold words and calls, into
// those of the source, which are one or the other.
func messages(m llm.Message, id, turn string, at time.Time, calls []string) []Message {
	var out []Message
	reasoning := ""
	add := func(msg Message) *Message {
		msg.ID, msg.CreatedAt = id, at.UnixMilli()
		if len(out) > 0 {
			msg.ID += "." + strconv.Itoa(len(out))
		}
		msg.Metadata.Turn = turn
		out = append(out, msg)
		return &out[len(out)-1]
	}
	call := func(n int) string {
		if n < len(calls) {
			return calls[n]
		}
		return ""
	}
	n := 0
	for _, p := range m.Parts {
		switch {
		case p.Call != nil:
			args := append(append(json.RawMessage(`{"arguments":`), p.Call.Args...), '}')
			add(Message{Role: string(llm.Assistant), ToolName: p.Call.Name, Data: args, Kind: "start", Metadata: &Metadata{Call: call(n), Reasoning: reasoning}})
			n, reasoning = n+1, ""
		case p.Result != nil:
			msg := add(Message{Role: string(llm.FromTool), ToolName: p.Result.Name, Data: structured(p.Result.Content), Kind: "complete", Metadata: &Metadata{Call: call(n), IsError: p.Result.IsError}})
			if msg.Data == nil {
				msg.Content = p.Result.Content
			}
			n++
		case p.Reasoning != "":
			reasoning += p.Reasoning
		case p.Text != "":
			if last := len(out) - 1; last >= 0 && out[last].Kind == "" {
				out[last].Content += p.Text // one text in several parts
				continue
			}
			add(Message{Role: string(m.Role), Content: p.Text, Metadata: &Metadata{Reasoning: reasoning}})
			reasoning = ""
		}
	}
	if reasoning != "" { // it has only thought so far
		add(Message{Role: string(m.Role), Metadata: &Metadata{Reasoning: reasoning}})
	}
	return out
}

// bounded is the end of a history that fits into a frame.
func bounded(all []Message) (some []Message, cut bool) {
	size, from := 0, len(all)
	for from > 0 && len(all)-from < historyMessages {
		m := &all[from-1]
		if size += len(m.Content) + len(m.Data) + 200; size > historyBytes && from < len(all) {
			break
		}
		from--
	}
	return all[from:], from > 0
}
