package llm

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"net/http"
	"time"

	"github.com/stoahub/stoa/internal/secret"
)

// Model answers requests. It may be used by several goroutines.
type Model interface {
	// Stream asks the model and yields its answer as it comes. The last thing
	// yielded is either a Stopped delta or an error, which is an *Error; there
	// is one of them and nothing after it. Nothing runs before the sequence is
	// ranged over, and nothing is left running after; it can be ranged over
	// once. When ctx ends, so does the sequence, at once.
	Stream(ctx context.Context, req Request) iter.Seq2[Delta, error]
}

// Role says whose words a message holds.
type Role string

// The roles. What a system prompt says is Request.System, never a message.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	FromTool  Role = "tool" // results of the calls in the assistant message before
)

// Message is one entry of a conversation.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// Part is a piece of a message: of Text, Call, Result and Reasoning one is set.
type Part struct {
	Text      string      `json:"text,omitempty"`
	Call      *ToolCall   `json:"call,omitempty"`
	Result    *ToolResult `json:"result,omitempty"`
	Reasoning string      `json:"reasoning,omitempty"`
	Opaque    *Opaque     `json:"opaque,omitempty"` // also alone: reasoning that cannot be read
}

// Opaque is what a provider wants back with the part that it came with.
type Opaque struct {
	Provider string          `json:"provider"`
	Data     json.RawMessage `json:"data"`
}

// For returns what provider left with the part, or nil.
func (o *Opaque) For(provider string) json.RawMessage {
	if o == nil || o.Provider != provider {
		return nil
	}
	return o.Data
}

// ToolCall is what a model wants to have called. Args is a JSON object always.
type ToolCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"` // empty if the model named none
	Args json.RawMessage `json:"args"`

	// Malformed is what the model wrote if that was no JSON object or lacked a
	// name; Args is then {}. Such a call is answered with an error, not made.
	Malformed string `json:"malformed,omitempty"`
}

// ToolResult is what came of a call.
type ToolResult struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Content string `json:"content"`
	IsError bool   `json:"isError,omitempty"`
}

// Say makes a message of one text.
func Say(role Role, text string) Message { return Message{Role: role, Parts: []Part{{Text: text}}} }

// Text joins the texts of a message.
func (m Message) Text() string {
	var s string
	for _, p := range m.Parts {
		s += p.Text
	}
	return s
}

// Calls returns the calls of a message in their order.
func (m Message) Calls() []ToolCall {
	var calls []ToolCall
	for _, p := range m.Parts {
		if p.Call != nil {
			calls = append(calls, *p.Call)
		}
	}
	return calls
}

// Tool is what a model may call. Schema is the JSON Schema of its arguments;
// nil means an object of anything.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage
}

// Choice says whether the model has to call a tool.
type Choice int

// The choices.
const (
	Auto   Choice = iota // as the model sees fit
	None                 // no tool, though the model sees them
	Always               // some tool
)

// Request is everything a model is asked with.
type Request struct {
	Model       string // empty: Options.Model
	System      string // empty: Options.SystemPrompt
	Messages    []Message
	Tools       []Tool
	ToolChoice  Choice
	ToolName    string   // with Always: this tool
	Temperature *float64 // nil: Options.Temperature
	MaxTokens   int      // of the answer; 0: Options.MaxTokens
	Tried       int      // attempts that were made before for the same answer; they count
}

// Options configure a model of any provider. The zero value of each field is
// usable; a key is needed where the provider wants one.
type Options struct {
	APIKey  secret.String
	BaseURL string // empty: the provider's own address

	Model        string   // empty: the provider's default
	SystemPrompt string   // used where a request has none
	Temperature  *float64 // nil: the provider's default
	MaxTokens    int      // of an answer; 0: the provider's default

	// MaxTokenCount is how much the model may have before it, in tokens. Ollama
	// is told so; 0 means 8192 there. Elsewhere it is for the caller to heed.
	MaxTokenCount int

	// Thinking is how many tokens the model may reason with, where that can be
	// asked for; 0 leaves it to the provider.
	Thinking int

	MaxRetries int           // after the first attempt; 0: 3, below 0: none
	RetryDelay time.Duration // where the provider names none; 0: 1 s
	MaxWait    time.Duration // the longest wait a provider can ask for; 0: 60 s
	Timeout    time.Duration // the longest silence; 0: 60 s
	MaxTime    time.Duration // for one attempt as a whole; 0: 10 min

	// Hold is shared by models that ask with the same key; nil: one of its own.
	Hold *Hold

	Header http.Header  // sent along with each request
	HTTP   *http.Client // nil: one over http.DefaultTransport
	Logger *slog.Logger // nil: discard
}

// Defaults returns o with its defaults filled in.
func (o Options) Defaults() Options {
	switch {
	case o.MaxRetries == 0:
		o.MaxRetries = 3
	case o.MaxRetries < 0:
		o.MaxRetries = 0
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&o.RetryDelay, time.Second}, {&o.MaxWait, time.Minute}, {&o.Timeout, time.Minute}, {&o.MaxTime, 10 * time.Minute}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if o.Hold == nil {
		o.Hold = &Hold{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Header = o.Header.Clone()
	return o
}

// Fill returns req with what it leaves open taken from o.
func (o Options) Fill(req Request) Request {
	if req.Model == "" {
		req.Model = o.Model
	}
	if req.System == "" {
		req.System = o.SystemPrompt
	}
	if req.Temperature == nil {
		req.Temperature = o.Temperature
	}
	if req.MaxTokens == 0 {
		req.MaxTokens = o.MaxTokens
	}
	return req
}
