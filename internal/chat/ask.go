package chat

import (
	"context"
	"fmt"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/obs"
)

// lost is what the model is told of a call whose result is not known.
const lost = "the result of this call was lost"

// Kinds of notes.
const (
	NoteLeftOut  = "left_out" // the model was not told of a tool
	NoteWarning  = "warning"
	NoteDegraded = "degraded" // an upstream is not there
	NoteCutOff   = "cut_off"  // the answer reached its longest length
	NoteLost     = "lost"     // words that were live only may be gone
)

// ask asks the model until it has answered. ok says that the turn goes on with
// the calls; else end is how it ends.
func (t *turn) ask(ctx context.Context) (calls []TurnCall, end End, ok bool) {
	t.hitch = hitch{}
	for {
		stop, err := t.attempt(ctx)
		switch {
		case t.hitch.over:
			return nil, t.hitch.end, false
		case err == nil:
			return t.answered(ctx, stop)
		case !t.retried(ctx, err):
			return nil, t.hitch.end, false
		}
	}
}

// hitch is what has gone wrong with one answer so far.
type hitch struct {
	req        llm.Request
	said       bool // something of the answer came
	overflowed bool
	tries      int    // how often the model was asked
	echo       string // what was said before it broke off, which the model may say again
	echoed     int    // how much of that it has
	over       bool   // the turn ends, by
	end        End
}

// attempt asks the model once. What is on the stack here, above and below, is so
// for as long as the model speaks, in each of many turns: it should be little.
func (t *turn) attempt(ctx context.Context) (stop llm.Stop, err error) {
	if !t.prepared(ctx) {
		return "", nil
	}
	t.hitch.req.Tried = t.hitch.tries
	stop, t.hitch.said, err = t.listen(ctx, &t.hitch.req)
	return stop, err
}

// prepared puts the request together, unless the turn ends before.
func (t *turn) prepared(ctx context.Context) bool {
	h := &t.hitch
	var ok bool
	if ctx.Err() != nil {
		h.end = t.stopped(ctx)
	} else {
		h.req, h.end, ok = t.request(ctx)
	}
	h.over = !ok
	return ok
}

func (t *turn) note(ctx context.Context, ev *Event) error {
	ev.Turn = t.id
	if ev.Type == ModelRetry {
		t.logRetry(ev.Retry)
	}
	return t.b.record(ctx, ev)
}

func (t *turn) modelFailed(le *llm.Error, req llm.Request) End {
	le = new(*le)
	le.Attempts = t.hitch.tries
	tokens := t.measure(req).Used
	t.log.Warn("a model gave no answer", obs.KeyAction, "model", obs.KeyModel, t.model.Name, "attempts", le.Attempts, "estimatedTokens", tokens, obs.KeyErr, le)
	return End{Reason: ReasonFailed, Text: t.s.Texts.ModelFailed(le.Error()), Error: le.Error(), Kind: string(le.Cause), Attempts: le.Attempts, Tokens: tokens}
}

// tooLong is the end of a turn for which there is no room.
func (t *turn) tooLong(req llm.Request, le *llm.Error) End {
	used := t.measure(req)
	bound := fmt.Sprintf("and %d is the most that leaves room for the answer (%s is %d)", t.room(), t.limitKey(), used.Limit)
	if le != nil {
		bound = "and its provider takes fewer (" + t.limitKey() + " tells me how many)"
	}
	end := End{Reason: ReasonBudget, Kind: string(llm.ContextTooLong), Tokens: used.Used}
	if used.History < used.Used/4 {
		end.Text = fmt.Sprintf("The tools and instructions alone take about %d tokens, %s. Offer fewer tools, or use a model with a larger window.", used.System+used.Tools, bound)
	} else {
		end.Text = fmt.Sprintf("This conversation has become too long for the model: it takes about %d tokens, %s. There is nothing left that I could shorten. Please begin a new one.", used.Used, bound)
	}
	if le != nil {
		end.Error, end.Attempts = le.Error(), le.Attempts
	}
	return end
}

// request puts together what the model is asked with, and makes it fit.
func (t *turn) request(ctx context.Context) (req llm.Request, end End, ok bool) {
	if err := t.list(ctx); err != nil {
		if ctx.Err() != nil {
			return req, t.stopped(ctx), false
		}
		return req, t.fail(err), false
	}
	for {
		now := t.b.now()
		req = t.compose(&now)
		used := t.measure(req)
		t.measured = used.Used
		if !t.over(used.Used) {
			t.compacts = 0
			if err := t.settled(ctx, &now, &used); err != nil {
				return req, t.fail(err), false
			}
			return req, End{}, true
		}
		done, err := t.compact(ctx, req, used.Used)
		switch {
		case ctx.Err() != nil:
			return req, t.stopped(ctx), false
		case err != nil:
			return req, t.fail(err), false
		case done:
			continue
		case used.Limit == 0 || used.Used <= t.room(): // it would be better shorter, but it fits
			if err := t.settled(ctx, &now, &used); err != nil {
				return req, t.fail(err), false
			}
			return req, End{}, true
		case !t.tight:
			t.tight = true
			continue
		}
		return req, t.tooLong(req, nil), false
	}
}

// settled tells what a request takes, and what was left out of it.
func (t *turn) settled(ctx context.Context, now *State, used *Context) error {
	if text := t.sparing(t.fit(now)); text != "" {
		if err := t.once(ctx, &Note{Kind: NoteLeftOut, Text: text}); err != nil {
			return err
		}
	}
	return t.note(ctx, &Event{Type: ContextUsed, Context: used})
}

// compose is what the model is asked with.
func (t *turn) compose(now *State) llm.Request {
	system, _, _ := t.system()
	req := llm.Request{
		System: system, Tools: t.fit(now).tools, Temperature: t.agent.Temperature, MaxTokens: t.agent.MaxTokens,
		Messages: llm.Repair(trim(now.History(), t.s.MaxHistory), lost),
	}
	if req.Temperature == nil {
		req.Temperature = t.s.Temperature
	}
	return req
}

// trim leaves out the oldest turns until at most n messages are left, but never
// a part of a turn.
func trim(messages []llm.Message, n int) []llm.Message {
	if n <= 0 || len(messages) <= n {
		return messages
	}
	from := 0
	for i := 1; i < len(messages) && len(messages)-from > n; i++ {
		if messages[i].Role == llm.User {
			from = i
		}
	}
	return messages[from:]
}

// listen takes in an answer. said reports whether anything of it came.
func (t *turn) listen(ctx context.Context, req *llm.Request) (stop llm.Stop, said bool, err error) {
	t.e.crowd.speaking.Add(1)
	defer t.e.crowd.speaking.Add(-1)
	var usage, lost llm.Usage
	index, begun, attempt := 0, time.Now(), req.Tried+1
	t.logAsked(req)
	for d, err := range t.model.Stream(ctx, *req) {
		if err == nil {
			if d.Kind == llm.Text || d.Kind == llm.Reason || d.Kind == llm.ReasonEnd || d.Kind == llm.CallEnd {
				said = true
			}
			switch d.Kind {
			case llm.Used:
				usage = d.Usage
			case llm.Stopped:
				stop = d.Stop
			case llm.Retrying:
				lost, attempt = lost.Plus(d.Usage), d.Attempt
				err = t.take(ctx, d, &index)
			default:
				err = t.take(ctx, d, &index)
			}
		}
		if err != nil {
			t.wasted = t.wasted.Plus(spent(err, usage.Plus(lost)))
			t.logAnswered(begun, attempt, usage, "", err)
			return "", said, err
		}
	}
	t.wasted = t.wasted.Plus(lost)
	t.logAnswered(begun, attempt, usage, stop, context.Cause(ctx))
	if ctx.Err() != nil {
		return "", said, context.Cause(ctx)
	}
	if t.hitch.echo != "" { // it is shorter this time
		if err := t.anew(ctx); err != nil {
			return "", said, err
		}
	}
	req.Model = t.model.ID
	t.e.meter.Learn(*req, usage)
	return stop, said, t.note(ctx, &Event{Type: AnswerDone, Answer: &Answer{Stop: stop, Usage: usage, Cost: t.model.Price.Cost(usage)}})
}

// take takes in one delta.
func (t *turn) take(ctx context.Context, d llm.Delta, index *int) error {
	if t.hitch.echo != "" {
		if all, err := t.echo(ctx, &d); all || err != nil {
			return err
		}
	}
	switch d.Kind {
	case llm.Text:
		return t.b.add(ctx, t.id, TextPart, d.Text, d.Opaque)
	case llm.Reason:
		return t.b.add(ctx, t.id, ReasoningPart, d.Text, nil)
	case llm.ReasonEnd:
		if d.Opaque == nil {
			return nil
		}
		return t.b.add(ctx, t.id, ReasoningPart, "", d.Opaque)
	case llm.CallEnd:
		c := &Call{Name: d.Call.Name, Args: d.Call.Args, Malformed: d.Call.Malformed, Model: d.Call.ID, Index: *index}
		if tool := t.tools.byName[c.Name]; tool != nil {
			c.Upstream, c.Ref = tool.Upstream, tool.Ref
		}
		*index++
		return t.note(ctx, &Event{Type: CallMade, Call: c, Opaque: d.Opaque})
	case llm.Retrying:
		return t.note(ctx, &Event{Type: ModelRetry, Retry: &Retry{Attempt: d.Attempt, WaitMS: d.Wait.Milliseconds(), Reason: d.Text}})
	case llm.LeftOut:
		return t.once(ctx, &Note{Kind: NoteLeftOut, Tool: d.Tool, Text: d.Text})
	case llm.Warned:
		return t.once(ctx, &Note{Kind: NoteWarning, Text: d.Text})
	}
	return nil
}

// once records a note unless the conversation has it already.
func (t *turn) once(ctx context.Context, n *Note) error {
	t.b.mu.Lock()
	told := t.b.state.toldOf(n.Kind, n.Tool, n.Text)
	t.b.mu.Unlock()
	if told {
		return nil
	}
	return t.note(ctx, &Event{Type: Noted, Note: n})
}

// answered says how the turn goes on after an answer.
func (t *turn) answered(ctx context.Context, stop llm.Stop) ([]TurnCall, End, bool) {
	now := t.b.now()
	calls := now.open()
	if len(calls) > 0 {
		return calls, End{}, true
	}
	if stop == llm.CutOff {
		if err := t.note(ctx, &Event{Type: Noted, Note: &Note{Kind: NoteCutOff, Text: "The answer reached the most tokens that it may have, and is cut off there."}}); err != nil {
			return nil, t.fail(err), false
		}
	}
	return nil, End{Reason: ReasonDone}, true
}

// list reads what can be called, and tells of upstreams that are not there.
func (t *turn) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	set, err := t.offers(ctx)
	if err != nil {
		return fault.Of(fmt.Errorf("list the tools: %w", err))
	}
	first := t.tools == nil
	if t.tools = set; !first {
		return nil
	}
	for _, up := range set.stale {
		if err := t.note(ctx, &Event{Type: Noted, Note: &Note{Kind: NoteDegraded, Tool: up, Text: fmt.Sprintf("The server %s is not connected: its tools may fail, and may have changed.", up)}}); err != nil {
			return err
		}
	}
	return nil
}

const listTimeout = 30 * time.Second
