package chat

import (
	"fmt"
	"slices"
	"time"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/policy"
)

// State is what the log of a conversation comes to. It changes by Apply alone.
type State struct {
	Seq       uint64    `json:"seq"` // of the last event
	Updated   time.Time `json:"updated"`
	Principal string    `json:"principal,omitempty"`
	Session   string    `json:"session,omitempty"`
	Messages  []Message `json:"messages,omitempty"` // all that was said
	Cut       int       `json:"cut,omitempty"`      // how many of them the model is not shown any more
	Summary   string    `json:"summary,omitempty"`  // what stands for these
	Turn      *Turn     `json:"turn,omitempty"`     // the one that runs
	Queue     []Input   `json:"queue,omitempty"`    // inputs that wait
	Last      *End      `json:"last,omitempty"`     // how the last turn ended
	Context   *Context  `json:"context,omitempty"`
	Usage     llm.Usage `json:"usage,omitzero"`
	Cost      float64   `json:"cost,omitempty"`

	answer llm.Answer // what the model is saying
	saying time.Time  // since when
	keys   []Event    // the last inputs that had a key
	notes  []Note     // what was told, so that it is not told again
}

// Message is one message of a conversation.
type Message struct {
	ID   string    `json:"id"` // m and the number of the event that made it
	Turn string    `json:"turn,omitempty"`
	Time time.Time `json:"ts"`
	llm.Message
	Calls []string `json:"calls,omitempty"` // our ids of the calls, or of what the results answer
}

// Turn is a turn that runs.
type Turn struct {
	ID      string     `json:"id"`
	Input   Input      `json:"input"`
	Agent   string     `json:"agent,omitempty"`
	Model   string     `json:"model,omitempty"`
	Started time.Time  `json:"started"`
	Steps   int        `json:"steps"` // answers so far
	Calls   []TurnCall `json:"calls,omitempty"`
	Usage   llm.Usage  `json:"usage,omitzero"`
	Cost    float64    `json:"cost,omitempty"`
}

// TurnCall is a call of the turn that runs.
type TurnCall struct {
	Call
	Status   string           `json:"status"` // made, asked, decided, started, done
	Approval *policy.Approval `json:"approval,omitempty"`
}

// Stages of a call.
const (
	CallIsMade    = "made"
	CallIsAsked   = "asked"
	CallIsDecided = "decided"
	CallIsStarted = "started"
	CallIsDone    = "done"
)

const (
	keptKeys  = 64
	keptNotes = 256
)

// Apply takes the next event in. It fails on one that is not the next.
func (s *State) Apply(ev *Event) error {
	if ev.Seq != s.Seq+1 {
		return fmt.Errorf("event %d (%s) cannot follow event %d", ev.Seq, ev.Type, s.Seq)
	}
	s.Seq, s.Updated = ev.Seq, ev.Time
	switch ev.Type {
	case InputAdded:
		s.input(ev)
	case InputDropped:
		s.Queue = slices.DeleteFunc(slices.Clone(s.Queue), func(in Input) bool { return in.ID == ev.Input.ID })
	case TurnStarted:
		s.start(ev)
	case TextPart:
		s.say(ev, llm.Delta{Kind: llm.Text, Text: ev.Text, Opaque: ev.Opaque})
	case ReasoningPart:
		if ev.Text != "" {
			s.say(ev, llm.Delta{Kind: llm.Reason, Text: ev.Text})
		}
		if ev.Opaque != nil {
			s.say(ev, llm.Delta{Kind: llm.ReasonEnd, Opaque: ev.Opaque})
		}
	case CallMade:
		s.say(ev, llm.Delta{Kind: llm.CallEnd, Call: ev.Call.tool(), Opaque: ev.Opaque})
		if s.Turn != nil {
			s.Turn.Calls = append(s.Turn.Calls, TurnCall{Call: *ev.Call, Status: CallIsMade})
		}
	case AnswerDone:
		s.said(ev)
		s.spend(ev.Answer.Usage, ev.Answer.Cost)
		if s.Turn != nil {
			s.Turn.Steps++
		}
	case ApprovalAsked:
		s.mark(ev.Approval.Call, CallIsAsked, ev.Approval)
	case ApprovalDecided:
		s.mark(ev.Approval.Call, CallIsDecided, nil)
	case CallStarted:
		s.mark(ev.Call.ID, CallIsStarted, nil)
	case CallDone:
		s.result(ev)
	case ModelRetry:
		if ev.Retry.Discard {
			s.discard()
		}
	case Noted:
		if len(s.notes) < keptNotes {
			s.notes = append(s.notes, *ev.Note)
		}
	case ContextUsed:
		s.Context = ev.Context
	case Compacted:
		s.compact(ev.Compaction)
	case TurnEnded:
		s.said(ev)
		if t := s.Turn; t != nil { // with what was spent on answers that never came
			s.Usage, s.Cost = s.Usage.Plus(ev.End.Usage.Minus(t.Usage)), s.Cost+ev.End.Cost-t.Cost
		}
		s.Turn, s.Last = nil, ev.End
	}
	return nil
}

func (s *State) input(ev *Event) {
	if s.Principal == "" {
		s.Principal, s.Session = ev.Input.Principal, ev.Input.Session
	}
	s.Queue = append(slices.Clip(s.Queue), *ev.Input)
	if ev.Input.Key != "" {
		s.keys = append(s.keys, *ev)
		if len(s.keys) > keptKeys {
			s.keys = slices.Clone(s.keys[1:])
		}
	}
}

func (s *State) start(ev *Event) {
	var in Input
	rest := make([]Input, 0, len(s.Queue))
	for _, q := range s.Queue {
		if q.ID == ev.Start.Input {
			in = q
		} else {
			rest = append(rest, q)
		}
	}
	if s.Queue = rest; len(rest) == 0 {
		s.Queue = nil
	}
	s.Turn = &Turn{ID: ev.Turn, Input: in, Agent: ev.Start.Agent, Model: ev.Start.Model, Started: ev.Time}
	s.add(ev, llm.Say(llm.User, in.words()), nil)
}

// words are what the model is told.
func (in *Input) words() string {
	switch {
	case in.File == "":
		return in.Text
	case in.Text == "":
		return in.File
	}
	return in.Text + "\n\n" + in.File
}

func (s *State) add(ev *Event, m llm.Message, calls []string) {
	s.Messages = append(s.Messages, Message{ID: fmt.Sprintf("m%d", ev.Seq), Turn: ev.Turn, Time: ev.Time, Message: m, Calls: calls})
}

func (s *State) say(ev *Event, d llm.Delta) {
	if len(s.answer.Message.Parts) == 0 {
		s.saying = ev.Time
	}
	s.answer.Add(d)
}

// said makes a message of what the model has said so far.
func (s *State) said(ev *Event) {
	if len(s.answer.Message.Parts) == 0 {
		return
	}
	var calls []string
	if s.Turn != nil {
		n := len(s.answer.Message.Calls())
		for _, c := range s.Turn.Calls[len(s.Turn.Calls)-n:] {
			calls = append(calls, c.ID)
		}
	}
	s.add(ev, s.answer.Message, calls)
	s.Messages[len(s.Messages)-1].Time = s.saying
	s.answer = llm.Answer{}
}

// discard forgets what the model has said in this answer, and the calls in it.
func (s *State) discard() {
	if n := len(s.answer.Message.Calls()); n > 0 && s.Turn != nil {
		s.Turn.Calls = slices.Clone(s.Turn.Calls[:len(s.Turn.Calls)-n])
	}
	s.answer = llm.Answer{}
}

func (s *State) spend(u llm.Usage, cost float64) {
	s.Usage, s.Cost = s.Usage.Plus(u), s.Cost+cost
	if s.Turn != nil {
		s.Turn.Usage, s.Turn.Cost = s.Turn.Usage.Plus(u), s.Turn.Cost+cost
	}
}

func (s *State) mark(call, status string, a *policy.Approval) {
	if s.Turn == nil {
		return
	}
	for i := range s.Turn.Calls {
		if c := &s.Turn.Calls[i]; c.ID == call {
			c.Status, c.Approval = status, a
		}
	}
}

// result puts a result where it belongs: into the message after that of its
// call, in the order of the calls.
func (s *State) result(ev *Event) {
	r := ev.Result
	s.mark(r.Call, CallIsDone, nil)
	s.said(ev) // an answer that broke off
	at := len(s.Messages) - 1
	if at >= 0 && s.Messages[at].Role == llm.FromTool {
		at--
	}
	if at < 0 || !slices.Contains(s.Messages[at].Calls, r.Call) {
		return
	}
	calls := s.Messages[at].Message.Calls()
	place := slices.Index(s.Messages[at].Calls, r.Call)
	part := llm.Part{Result: &llm.ToolResult{ID: calls[place].ID, Name: calls[place].Name, Content: r.Content, IsError: r.IsError}}
	if at == len(s.Messages)-1 {
		s.add(ev, llm.Message{Role: llm.FromTool}, nil)
	}
	m := &s.Messages[at+1]
	i := 0
	for i < len(m.Calls) && slices.Index(s.Messages[at].Calls, m.Calls[i]) < place {
		i++
	}
	m.Parts = slices.Insert(slices.Clone(m.Parts), i, part)
	m.Calls = slices.Insert(slices.Clone(m.Calls), i, r.Call)
}

// pruned stands for a result that was taken out.
func pruned(n int) string {
	return fmt.Sprintf("[This result of %d bytes was taken out to save room. Call the tool again if it is needed.]", n)
}

func (s *State) compact(c *Compaction) {
	s.spend(c.Usage, c.Cost)
	if c.Kind != Prune {
		s.Cut, s.Summary = c.Cut, c.Text
		return
	}
	for i := range s.Messages {
		m := &s.Messages[i]
		if m.Role != llm.FromTool || !slices.ContainsFunc(m.Calls, func(id string) bool { return slices.Contains(c.Calls, id) }) {
			continue
		}
		m.Parts = slices.Clone(m.Parts)
		for j, id := range m.Calls {
			if slices.Contains(c.Calls, id) {
				r := *m.Parts[j].Result
				r.Content = pruned(len(r.Content))
				m.Parts[j].Result = &r
			}
		}
	}
}

// History is what the model is shown: what stands for messages that are left
// out, and the others.
func (s *State) History() []llm.Message {
	out := make([]llm.Message, 0, len(s.Messages)-s.Cut+1)
	if s.Summary != "" {
		out = append(out, llm.Say(llm.User, s.Summary))
	}
	for i := s.Cut; i < len(s.Messages); i++ {
		out = append(out, s.Messages[i].Message)
	}
	return out
}

// Said is what the model has said in the answer that is not whole yet, as far
// as it is durable.
func (s *State) Said() llm.Message {
	return llm.Message{Role: llm.Assistant, Parts: slices.Clone(s.answer.Message.Parts)}
}

// Pending are the approvals that the turn waits for.
func (s *State) Pending() []policy.Approval {
	var out []policy.Approval
	if s.Turn != nil {
		for _, c := range s.Turn.Calls {
			if c.Approval != nil {
				out = append(out, *c.Approval)
			}
		}
	}
	return out
}

// open are the calls of the turn that have no result yet.
func (s *State) open() []TurnCall {
	if s.Turn == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.Turn.Calls), func(c TurnCall) bool { return c.Status == CallIsDone })
}

// calls reports whether a call of the turn has no result yet.
func (s *State) calls(id string) bool {
	return slices.ContainsFunc(s.open(), func(c TurnCall) bool { return c.ID == id })
}

// waits reports whether an input waits for its turn.
func (s *State) waits(id string) bool {
	return slices.ContainsFunc(s.Queue, func(in Input) bool { return in.ID == id })
}

// keyed returns the input that came with a key.
func (s *State) keyed(key string) *Event {
	for i := range s.keys {
		if s.keys[i].Input.Key == key {
			return &s.keys[i]
		}
	}
	return nil
}

func (s *State) toldOf(kind, tool, text string) bool {
	return slices.Contains(s.notes, Note{kind, tool, text})
}

// clone returns a State that further events do not change.
func (s *State) clone() State {
	c := *s
	c.Messages = slices.Clone(s.Messages)
	c.answer.Message.Parts = slices.Clone(s.answer.Message.Parts)
	if s.Turn != nil {
		t := *s.Turn
		t.Calls = slices.Clone(t.Calls)
		c.Turn = &t
	}
	c.keys, c.notes = slices.Clip(s.keys), slices.Clip(s.notes)
	return c
}

func (c *Call) tool() llm.ToolCall {
	return llm.ToolCall{ID: c.Model, Name: c.Name, Args: c.Args, Malformed: c.Malformed}
}
