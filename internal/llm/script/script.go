// Package script owns the model that needs no network: it says what a script
// says, and without one does what it is told in plain commands, so that all of
// the product can be shown and tested with no key at all.
//
// A script is a sequence of turns, each begun by a line "-- name --" (the form
// of txtar), and a turn is what a model would say: text, and calls as ```tool
// blocks. Which turn is next follows from the history alone (one for each
// answer so far), so a session that is taken up again goes on where it was. A
// turn named "error CAUSE" fails with that cause. After the last turn, and
// without a script, the model answers commands: "list tools", "find WORD",
// "describe NAME", "call NAME {json}" or "call NAME argument=value" (several
// lines are several calls), "echo TEXT" and "help". It then says in words what
// came of its calls.
//
// The model is deterministic and keeps nothing.
package script

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/llm"
)

const provider = "script"

// Model plays a script.
type Model struct {
	o     llm.Options
	pace  time.Duration
	turns []turn
	meter llm.Meter
}

type turn struct {
	name string
	text string
	fail llm.Cause
}

// Options configure the model. The zero value has no script and does not wait.
type Options struct {
	llm.Options
	Script string        // the script itself
	Pace   time.Duration // between two pieces of an answer
}

// New makes a model. It fails on a script that cannot be read.
func New(o Options) (*Model, error) {
	o.Options = o.Defaults()
	if o.Model == "" {
		o.Model = provider
	}
	turns, err := parse(o.Script)
	if err != nil {
		return nil, err
	}
	return &Model{o: o.Options, pace: o.Pace, turns: turns}, nil
}

// parse splits a script at its marker lines. What stands before the first is a
// comment.
func parse(script string) ([]turn, error) {
	var turns []turn
	for n, line := range strings.SplitAfter(script, "\n") {
		bare := strings.TrimRight(line, "\r\n")
		name, ok := strings.CutPrefix(bare, "-- ")
		if ok {
			name, ok = strings.CutSuffix(name, " --")
		}
		switch {
		case ok:
			t := turn{name: strings.TrimSpace(name)}
			if c, isError := strings.CutPrefix(t.name, "error "); isError {
				t.fail = llm.Cause(strings.TrimSpace(c))
				if !t.fail.Known() {
					return nil, fmt.Errorf("script: line %d: there is no cause %q", n+1, t.fail)
				}
			}
			turns = append(turns, t)
		case len(turns) > 0:
			turns[len(turns)-1].text += line
		}
	}
	if strings.TrimSpace(script) != "" && len(turns) == 0 {
		return nil, fmt.Errorf("script: no turn: begin one with a line like %q", "-- turn --")
	}
	return turns, nil
}

// Stream implements llm.Model.
func (m *Model) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	req = m.o.Fill(req)
	return llm.Fenced(speaker{m, req}).Stream(ctx, req)
}

// speaker says an answer as a model without function calling does. It knows
// the request as it was before tools and calls became text.
type speaker struct {
	m   *Model
	req llm.Request
}

func (s speaker) Stream(ctx context.Context, _ llm.Request) iter.Seq2[llm.Delta, error] {
	return func(yield func(llm.Delta, error) bool) {
		text, fail := s.m.answer(s.req)
		for _, piece := range strings.SplitAfter(text, " ") {
			if err := s.m.wait(ctx); err != nil {
				yield(llm.Delta{}, &llm.Error{Cause: llm.Cancelled, Provider: provider, Model: s.req.Model, Attempts: 1, Err: err})
				return
			}
			if piece != "" && !yield(llm.Delta{Kind: llm.Text, Text: piece}, nil) {
				return
			}
		}
		if fail != "" {
			yield(llm.Delta{}, &llm.Error{Cause: fail, Provider: provider, Model: s.req.Model, Attempts: 1, Detail: "the script says so"})
			return
		}
		usage := llm.Usage{Input: s.m.meter.Estimate(s.req), Output: s.m.meter.EstimateText(s.req.Model, text)}
		if yield(llm.Delta{Kind: llm.Used, Usage: usage}, nil) {
			yield(llm.Delta{Kind: llm.Stopped, Stop: llm.Done}, nil)
		}
	}
}

func (m *Model) wait(ctx context.Context) error {
	if m.pace <= 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	t := time.NewTimer(m.pace)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answer is what the model says to req: the next turn of the script, or what
// the last message asks for.
func (m *Model) answer(req llm.Request) (text string, fail llm.Cause) {
	said := 0
	for _, msg := range req.Messages {
		if msg.Role == llm.Assistant {
			said++
		}
	}
	if said < len(m.turns) {
		t := m.turns[said]
		return t.text, t.fail
	}
	if len(req.Messages) == 0 {
		return help(req.Tools), ""
	}
	last := req.Messages[len(req.Messages)-1]
	if last.Role == llm.FromTool {
		return report(last), ""
	}
	return obey(strings.TrimSpace(last.Text()), req.Tools), ""
}

const maxQuote = 2000 // bytes of a result that are said again

func report(m llm.Message) string {
	var b strings.Builder
	if n, failed := count(m); n > 1 {
		fmt.Fprintf(&b, "%d of %d calls answered.\n", n-failed, n)
	}
	for _, p := range m.Parts {
		if p.Result == nil {
			continue
		}
		word := "answered"
		if p.Result.IsError {
			word = "failed"
		}
		content := p.Result.Content
		if len(content) > maxQuote {
			content = strings.ToValidUTF8(content[:maxQuote], "") + fmt.Sprintf("… (%d bytes in all)", len(content))
		}
		// Indented, so that nothing in a result can be taken for a call.
		content = strings.ReplaceAll(content, "\n", "\n| ")
		fmt.Fprintf(&b, "%s %s:\n| %s\n", p.Result.Name, word, content)
	}
	return b.String()
}

func count(m llm.Message) (n, failed int) {
	for _, p := range m.Parts {
		if p.Result != nil {
			n++
			if p.Result.IsError {
				failed++
			}
		}
	}
	return n, failed
}

var _ llm.Model = (*Model)(nil)
