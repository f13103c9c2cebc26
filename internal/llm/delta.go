package llm

import (
	"iter"
	"slices"
	"time"
)

// Kind of a delta.
type Kind int

// What a delta can be. Zero is none.
const (
	Text      Kind = iota + 1 // Text, a piece; with Opaque, its last piece
	Reason                    // Text, a piece of reasoning
	ReasonEnd                 // Opaque, if the provider wants the reasoning back
	CallStart                 // Index, and ID and Name of Call as far as known
	CallArgs                  // Index, and Text, a piece of JSON
	CallEnd                   // Index, and Call, whole; Opaque
	Used                      // Usage, of the whole answer so far
	Stopped                   // Stop; the last delta
	LeftOut                   // Tool, which the model was not told of, and Text, why
	Retrying                  // Attempt, Wait, Usage of the attempt that failed, and Text, why; before everything the model says
	Warned                    // Text, for whoever runs the hub
)

// Delta is a piece of an answer. Pieces of several calls may be interleaved;
// Index tells them apart, counts from 0 within the answer, and each call
// starts and ends once.
type Delta struct {
	Kind    Kind
	Text    string
	Index   int
	Call    ToolCall
	Opaque  *Opaque
	Usage   Usage
	Stop    Stop
	Tool    string
	Attempt int
	Wait    time.Duration
}

// Stop says why an answer ended.
type Stop string

// The reasons. An answer that was withheld is an error of kind Blocked.
const (
	Done   Stop = "done"
	Calls  Stop = "calls"   // the model waits for results
	CutOff Stop = "cut_off" // MaxTokens was reached: the answer is cut off
)

// Answer is an answer put together from its deltas. The zero value is ready.
type Answer struct {
	Message  Message
	Usage    Usage
	Lost     Usage // of attempts that came to nothing: to be paid, and not in the context
	Stop     Stop  // empty until the answer is whole
	LeftOut  []Missing
	Warnings []string
	Retries  int
}

// Missing is a tool that the model was not told of.
type Missing struct{ Tool, Reason string }

// Add takes in the next delta. A call is part of the message once it is whole,
// so that an answer that breaks off leaves none half said.
func (a *Answer) Add(d Delta) {
	a.Message.Role = Assistant
	parts := &a.Message.Parts
	last := func() *Part {
		if n := len(*parts); n > 0 {
			return &(*parts)[n-1]
		}
		return &Part{}
	}
	switch d.Kind {
	case Text:
		if p := last(); p.Text != "" && p.Opaque == nil {
			p.Text += d.Text
			p.Opaque = d.Opaque
		} else if d.Text != "" || d.Opaque != nil {
			*parts = append(*parts, Part{Text: d.Text, Opaque: d.Opaque})
		}
	case Reason:
		if p := last(); p.Reasoning != "" && p.Opaque == nil {
			p.Reasoning += d.Text
		} else if d.Text != "" {
			*parts = append(*parts, Part{Reasoning: d.Text})
		}
	case ReasonEnd:
		if p := last(); p.Reasoning != "" && p.Opaque == nil {
			p.Opaque = d.Opaque
		} else if d.Opaque != nil {
			*parts = append(*parts, Part{Opaque: d.Opaque})
		}
	case CallEnd:
		call := d.Call
		*parts = append(*parts, Part{Call: &call, Opaque: d.Opaque})
	case Used:
		a.Usage = d.Usage
	case Stopped:
		a.Stop = d.Stop
	case LeftOut:
		a.LeftOut = append(a.LeftOut, Missing{d.Tool, d.Text})
	case Warned:
		a.Warnings = append(a.Warnings, d.Text)
	case Retrying:
		a.Retries++
		a.Lost = a.Lost.Plus(d.Usage)
	}
}

// Collect reads a stream to its end. With an error it returns what came before.
func Collect(seq iter.Seq2[Delta, error]) (Answer, error) {
	var a Answer
	for d, err := range seq {
		if err != nil {
			return a, err
		}
		a.Add(d)
	}
	return a, nil
}

// Usage is what an answer took, in tokens, as the provider counts them.
type Usage struct {
	Input      int `json:"input"`                // all of the prompt, cached or not
	Output     int `json:"output"`               // all that was made, reasoning included
	CacheRead  int `json:"cacheRead,omitempty"`  // part of Input
	CacheWrite int `json:"cacheWrite,omitempty"` // part of Input
	Reasoning  int `json:"reasoning,omitempty"`  // part of Output
}

// Total is what counts against a context window.
func (u Usage) Total() int { return u.Input + u.Output }

// Plus adds up the usage of several answers.
func (u Usage) Plus(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Output + v.Output, u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite, u.Reasoning + v.Reasoning}
}

// Minus takes the usage of some answers away again.
func (u Usage) Minus(v Usage) Usage {
	return Usage{u.Input - v.Input, u.Output - v.Output, u.CacheRead - v.CacheRead, u.CacheWrite - v.CacheWrite, u.Reasoning - v.Reasoning}
}

// Price is what a million tokens cost, in one currency.
type Price struct {
	Input, Output float64
	CacheRead     float64 // 0: as Input
	CacheWrite    float64 // 0: as Input
}

// Cost is what u costs.
func (p Price) Cost(u Usage) float64 {
	read, write := p.CacheRead, p.CacheWrite
	if read == 0 {
		read = p.Input
	}
	if write == 0 {
		write = p.Input
	}
	plain := max(0, u.Input-u.CacheRead-u.CacheWrite)
	return (float64(plain)*p.Input + float64(u.CacheRead)*read + float64(u.CacheWrite)*write + float64(u.Output)*p.Output) / 1e6
}

// Repair returns the messages as every provider takes them: each call has one
// result, in the message right after it, in the order of the calls and by their
// names. A call
// without one gets an error result that says missing; results that answer no
// call of the message before them are dropped, and so is what only a model can
// say where it stands with the user, and messages that say nothing. Calls are paired within their own turn, since some providers use
// their ids again. The given messages are not changed.
func Repair(messages []Message, missing string) []Message {
	var out []Message
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		if m.Role == FromTool {
			continue // those that belong to a call were taken with it
		}
		if m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p Part) bool { return p == Part{} || p.Result != nil || m.Role != Assistant && p.Text == "" }); len(m.Parts) == 0 {
			continue
		}
		out = append(out, m)
		calls := m.Calls()
		if m.Role != Assistant || len(calls) == 0 {
			continue
		}
		given := map[string][]*ToolResult{}
		for ; i+1 < len(messages) && messages[i+1].Role == FromTool; i++ {
			for _, p := range messages[i+1].Parts {
				if p.Result != nil {
					given[p.Result.ID] = append(given[p.Result.ID], p.Result)
				}
			}
		}
		results := Message{Role: FromTool}
		for _, c := range calls {
			r := &ToolResult{ID: c.ID, Name: c.Name, Content: missing, IsError: true}
			if list := given[c.ID]; len(list) > 0 {
				r, given[c.ID] = new(*list[0]), list[1:]
				r.Name = c.Name
			}
			results.Parts = append(results.Parts, Part{Result: r})
		}
		out = append(out, results)
	}
	return out
}
