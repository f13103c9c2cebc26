package chat

import (
	"slices"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/spell"
)

// Settings are what the config says of conversations. They can be changed while
// the engine runs; turns that run keep those they began with. Zero values have
// the defaults named.
type Settings struct {
	Agents       []Agent
	Model        string // empty: the default one
	SystemPrompt string // empty: the model's own, or DefaultPrompt
	Temperature  *float64

	MaxHistory    int           // messages that the model is shown; 0: all
	RetryAttempts int           // after the first, for one answer; 0: 3, below 0: none
	RetryDelay    time.Duration // 0: 1 s
	MaxTokenCount int           // 0: the model's own
	// Summarize is from how many tokens on old messages are summed up by the
	// model; up to 1, it is a part of the limit. 0: they are left out when
	// there is no room.
	Summarize    float64
	RetainNewest int // messages that are never touched; 0: 10
	MaxSteps     int // answers in a turn; 0: 25
	Parallel     int // calls at once; 0: 5
	Queue        int // inputs that may wait; 0: 8
	ResultBytes  int // of a result that the model is shown; 0: 128 KiB
	InputBytes   int // of what a user may say at once; 0: 1 MiB
	Texts        Texts
}

// Texts are the fixed texts that users are told. Empty ones are the default.
type Texts struct {
	Welcome     string
	ToolError   string // with {tool} and {error}
	RateLimited string
	Maintenance string
	LLMError    string // with {error}; where that is missing it is said after the text
}

// DefaultTexts are used where nothing else is said.
var DefaultTexts = Texts{
	Welcome:     "Hello! I'm an AI assistant that can help answer questions and use tools to get information.",
	ToolError:   "I encountered an error when using the {tool} tool: {error}. Let me try a different approach.",
	RateLimited: "I'm currently processing too many requests. Please try again in a moment.",
	Maintenance: "The system is currently undergoing maintenance. Some features may be unavailable.",
	LLMError:    "I could not get an answer from the language model: {error}.",
}

// ModelFailed is what a user is told when a model gave no answer.
func (t Texts) ModelFailed(err string) string {
	err = strings.TrimRight(err, ". \n")
	if !strings.Contains(t.LLMError, "{error}") {
		return t.LLMError + " (" + err + ")"
	}
	return strings.ReplaceAll(t.LLMError, "{error}", err)
}

// ToolFailed is what a user is told of a tool that failed.
func (t Texts) ToolFailed(tool, err string) string {
	return strings.NewReplacer("{tool}", tool, "{error}", strings.TrimRight(err, ". \n")).Replace(t.ToolError)
}

// Agent is a configured agent: a model with a purpose of its own.
type Agent struct {
	Name         string   `json:"name"`
	Description  string   `json:"description,omitempty"`
	Model        string   `json:"model,omitempty"`
	SystemPrompt string   `json:"systemPrompt,omitempty"`
	Tools        []string `json:"tools,omitempty"` // globs; none means all
	Temperature  *float64 `json:"temperature,omitempty"`
	MaxSteps     int      `json:"maxSteps,omitempty"`
	MaxTokens    int      `json:"maxTokens,omitempty"` // of an answer
	Listed       bool     `json:"listed"`
}

func (s *Settings) defaults() {
	for _, d := range []struct {
		field *int
		value int
	}{{&s.RetryAttempts, 3}, {&s.RetainNewest, 10}, {&s.MaxSteps, 25}, {&s.Parallel, 5}, {&s.Queue, 8}, {&s.ResultBytes, 128 << 10}, {&s.InputBytes, 1 << 20}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if s.RetryDelay == 0 {
		s.RetryDelay = time.Second
	}
	for _, d := range []struct {
		field *string
		value string
	}{
		{&s.Texts.Welcome, DefaultTexts.Welcome}, {&s.Texts.ToolError, DefaultTexts.ToolError}, {&s.Texts.RateLimited, DefaultTexts.RateLimited},
		{&s.Texts.Maintenance, DefaultTexts.Maintenance}, {&s.Texts.LLMError, DefaultTexts.LLMError},
	} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
}

// Configure changes the settings.
func (e *Engine) Configure(s Settings) {
	s.defaults()
	e.settings.Store(&s)
}

// Texts are the texts that users are told.
func (e *Engine) Texts() Texts { return e.settings.Load().Texts }

// Agents are those that are configured.
func (e *Engine) Agents() []Agent {
	s := e.settings.Load()
	return append([]Agent(nil), s.Agents...)
}

// Agent returns the agent of a name; "" is the chat host itself. Names are
// found whatever their case.
func (e *Engine) Agent(name string) (Agent, error) {
	s := e.settings.Load()
	if name == "" {
		return Agent{}, nil
	}
	var names []string
	for _, a := range s.Agents {
		if strings.EqualFold(a.Name, name) {
			return a, nil
		}
		names = append(names, a.Name)
	}
	return Agent{}, noAgent(name, names)
}

// Sees reports whether somebody may talk to an agent, by its name here. Whoever
// cannot see its tool among those of the servers does not find it by another way.
func (e *Engine) Sees(by actor.Actor, session, agent string) bool {
	if e.opts.Sees != nil {
		return e.opts.Sees(by, session, agent)
	}
	return by.InScope(agent) || by.InScope(strings.ToLower(agent))
}

// AgentsFor are those that somebody may talk to.
func (e *Engine) AgentsFor(by actor.Actor, session string) []Agent {
	return slices.DeleteFunc(e.Agents(), func(a Agent) bool { return !e.Sees(by, session, a.Name) })
}

// agentFor returns the agent of a name, if somebody may talk to it. One that they
// may not talk to is as one that does not exist.
func (e *Engine) agentFor(by actor.Actor, session, name string) (Agent, error) {
	a, err := e.Agent(name)
	if err == nil && (a.Name == "" || e.Sees(by, session, a.Name)) {
		return a, nil
	}
	var names []string
	for _, one := range e.AgentsFor(by, session) {
		names = append(names, one.Name)
	}
	return Agent{}, noAgent(name, names)
}

func noAgent(name string, names []string) error {
	f := fault.New(fault.UnknownAgent, name, "there is no agent of that name")
	if f.Hint = "Leave the agent out, or configure it."; len(names) > 0 {
		f.Hint = "Use one of: " + strings.Join(names, ", ") + "."
		if near := spell.Nearest(name, names); near != "" {
			f.Msg += "; did you mean " + near + "?"
		}
	}
	return f
}
