package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// A server may ask its user something while it works on a request. The hub
// answers the request with the questions then, and the request is made again
// with the answers.

// asksUsers are the capabilities of a client that can be asked.
const asksUsers = `{"elicitation":{"form":{},"url":{}}}`

const (
	maxAskedRounds = 100
	maxEmptyRounds = 5 // in which the server asks nothing
)

// questioner puts a server's questions to the person at the terminal. Where
// there is none, they are declined.
type questioner struct {
	s        std
	to       io.Writer // the terminal; nil: nobody can be asked
	in       *prompter
	before   func() // is called before something is asked
	declined []string
}

func newQuestioner(s std) *questioner {
	q := &questioner{s: s, before: func() {}}
	if terminal(s.in) == nil {
		return q
	}
	switch {
	case isTerminal(s.err):
		q.to = s.err
	case isTerminal(s.out):
		q.to = s.out
	}
	return q
}

// refusal is the error of a command during which something was declined because
// nobody could be asked; nil if nothing was.
func (q *questioner) refusal() error {
	if len(q.declined) == 0 {
		return nil
	}
	return failed(exitDenied, "Run the command at a terminal to answer.", "the server asked %s, and nobody could be asked, so that was declined", strings.Join(q.declined, " and "))
}

// settled is what became of a command: a question that was declined explains
// what its result does not.
func (q *questioner) settled(err error) error {
	no := q.refusal()
	if no == nil || err != nil && describe(err).code != exitToolSaidNo {
		return err
	}
	return no
}

// asked sends a request and answers what the server asks meanwhile.
func (f *face) asked(ctx context.Context, o *mcp.Outgoing, q *questioner) ([]byte, error) {
	// It has no version, so that the _meta that the era demands is written.
	o.Client = &mcp.Client{Era: mcp.Modern, Capabilities: []byte(asksUsers)}
	empty := 0
	for range maxAskedRounds {
		result, err := f.ask(ctx, o)
		if err != nil || !mcp.NeedsInput(result) {
			return result, err
		}
		requests := wire.Members(wire.Get(result, "inputRequests"))
		if len(requests) == 0 {
			if empty++; empty > maxEmptyRounds {
				return nil, failed(exitFailed, "Ask whoever runs the server.", "the server wants input again and again, and does not say which")
			}
		}
		answers, err := q.answer(ctx, requests)
		if err != nil {
			f.leave(ctx, o, result)
			return nil, err
		}
		next(o, answers, result)
	}
	return nil, failed(exitFailed, "Ask whoever runs the server.", "the server asked for input %d times during one call", maxAskedRounds)
}

// next makes o the request that brings answers to what result asks for.
func next(o *mcp.Outgoing, answers, result []byte) {
	o.Replace("inputResponses", answers)
	if state := wire.Get(result, "requestState"); state != nil {
		o.Replace("requestState", state)
	} else {
		o.Drop("requestState")
	}
}

// leaveTime is how long the server may take to end a call that is left.
const leaveTime = 2 * time.Second

// leave cancels the questions of a request that is given up, also because ctx
// has ended: else the server waits minutes for answers that will not come, and
// the hub with it. What the server makes of that interests nobody any more; if it
// does not end the call in time, the call is cancelled.
func (f *face) leave(ctx context.Context, o *mcp.Outgoing, result []byte) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	for range maxAskedRounds {
		requests := wire.Members(wire.Get(result, "inputRequests"))
		if len(requests) == 0 {
			return
		}
		var answers []wire.Change
		for _, r := range requests {
			answers = append(answers, wire.Change{Name: string(r.Name), Value: cancelled})
		}
		next(o, wire.Edit(nil, []byte("{}"), answers...), result)
		var err error
		if result, err = f.ask(ctx, o); err != nil || !mcp.NeedsInput(result) {
			return
		}
	}
}

// answer returns the inputResponses object.
func (q *questioner) answer(ctx context.Context, requests []wire.Field) ([]byte, error) {
	var answers []wire.Change
	for _, f := range requests {
		method, _ := wire.String(wire.Get(f.Value, "method"))
		if method != "elicitation/create" {
			return nil, failed(exitFailed, "Call it from a client that offers it.", "the server asks for %s, which cannot be given here", method)
		}
		value, err := q.elicit(ctx, wire.Get(f.Value, "params"))
		if err != nil {
			return nil, err
		}
		answers = append(answers, wire.Change{Name: string(f.Name), Value: value})
	}
	return wire.Edit(nil, []byte("{}"), answers...), nil
}

// elicitation is what a server asks its user.
type elicitation struct {
	Mode    string          `json:"mode"`
	Message string          `json:"message"`
	URL     string          `json:"url"`
	Schema  json.RawMessage `json:"requestedSchema"`
}

// Answers to a question, besides those with content.
var (
	accepted  = []byte(`{"action":"accept"}`)
	declined  = []byte(`{"action":"decline"}`)
	cancelled = []byte(`{"action":"cancel"}`)
)

// elicit asks one thing.
func (q *questioner) elicit(ctx context.Context, params []byte) ([]byte, error) {
	var e elicitation
	if err := json.Unmarshal(params, &e); err != nil {
		return nil, failed(exitFailed, "Ask whoever runs the server.", "the server asks something that cannot be read: %w", err)
	}
	if q.to == nil {
		text := fmt.Sprintf("%q", e.Message)
		if e.Mode == "url" {
			text += " (at " + e.URL + ")"
		}
		q.declined = append(q.declined, text)
		return declined, nil
	}
	if q.in == nil {
		q.in = newPrompter(q.s.in)
	}
	q.before()
	q.say(q.s.paint(q.to, amber, "?")+" the server asks: "+q.s.paint(q.to, bold, exactLine(firstLine(e.Message))), "")
	if _, more, ok := strings.Cut(strings.TrimSpace(e.Message), "\n"); ok {
		q.say("", more)
	}
	switch e.Mode {
	case "", "form":
		return q.form(ctx, e.Schema)
	case "url":
		q.say("  It wants you to open this address, which is not the hub's. Look at it before you do:", "")
		q.say("  "+q.s.paint(q.to, bold, exactLine(e.URL)), "")
		return q.choose(ctx, "done there, or agreed? [y]es, [n]o, [c]ancel > ", func() ([]byte, error) { return accepted, nil })
	}
	q.say("", fmt.Sprintf("It asks in a way that is not known here (%s), so that is declined.", exactLine(e.Mode)))
	return declined, nil
}

// say shows a line of ours, or lines of the server's, in which nothing hides.
func (q *questioner) say(line, foreign string) {
	if line != "" {
		fmt.Fprintln(q.to, line)
	}
	if foreign != "" {
		for text := range strings.Lines(exact(foreign)) {
			fmt.Fprintln(q.to, "  "+strings.TrimSuffix(text, "\n"))
		}
	}
}

// read reads a line. ok is false at the end of the input, which is Ctrl-D.
func (q *questioner) read(ctx context.Context, prompt string) (line string, ok bool, err error) {
	fmt.Fprint(q.to, prompt)
	q.in.next()
	select {
	case line, ok = <-q.in.lines:
		if q.in.asked = false; !ok {
			fmt.Fprintln(q.to)
		}
		return strings.TrimSpace(line), ok, nil
	case <-ctx.Done():
		fmt.Fprintln(q.to)
		return "", false, lost(ctx, context.Cause(ctx))
	}
}

// errEdit says that the person wants to write it once more.
var errEdit = errors.New("once more")

// choose lets the person go on, decline or cancel.
func (q *questioner) choose(ctx context.Context, prompt string, yes func() ([]byte, error)) ([]byte, error) {
	for {
		line, ok, err := q.read(ctx, prompt)
		if err != nil {
			return nil, err
		}
		switch word := strings.ToLower(line); {
		case !ok || word == "c" || word == "cancel":
			return cancelled, nil
		case word == "n" || word == "no":
			return declined, nil
		case word == "y" || word == "yes":
			return yes()
		case (word == "e" || word == "edit") && strings.Contains(prompt, "[e]dit"):
			return nil, errEdit
		}
		q.say("  That is no answer.", "")
	}
}
