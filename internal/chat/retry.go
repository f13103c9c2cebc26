package chat

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/stoahub/stoa/internal/llm"
)

// retried reports whether the model is asked again after an error.
func (t *turn) retried(ctx context.Context, err error) bool {
	h := &t.hitch
	var le *llm.Error
	if errors.As(err, &le) {
		h.tries = max(h.tries+1, le.Attempts)
	}
	switch {
	case ctx.Err() != nil:
		h.end = t.stopped(ctx)
	case le == nil:
		h.end = t.fail(err)
	case le.Cause == llm.ContextTooLong && !h.overflowed && !h.said:
		// The provider counts otherwise than we do.
		h.overflowed = true
		done, err := t.compact(ctx, h.req, 0)
		if err == nil && done {
			return true
		}
		if h.end = t.tooLong(h.req, le); err != nil {
			h.end = t.fail(err)
		}
	case le.Cause == llm.ContextTooLong:
		h.end = t.tooLong(h.req, le)
	case le.Retryable() && h.tries <= t.retries() && le.Wait <= longestWait:
		return t.resay(ctx, le)
	default:
		h.end = t.modelFailed(le, h.req)
	}
	return false
}

// longestWait is how long a provider may ask to be left alone.
const longestWait = time.Minute

// retries is how often the model is asked again for one answer.
func (t *turn) retries() int {
	if t.model.Retries != nil {
		return *t.model.Retries
	}
	return t.s.RetryAttempts
}

// resay waits until the model is asked again for an answer that broke off; those
// of which nothing came were asked for again by the model itself. No tool of it
// has run: they are called when it is whole.
func (t *turn) resay(ctx context.Context, le *llm.Error) bool {
	h := &t.hitch
	var only bool
	h.echo, only = t.b.words()
	h.echoed = 0
	wait := cmp.Or(le.Wait, t.model.RetryDelay, t.s.RetryDelay)
	if err := t.note(ctx, &Event{Type: ModelRetry, Retry: &Retry{Attempt: h.tries + 1, WaitMS: wait.Milliseconds(), Reason: plainReason(le), Discard: !only}}); err != nil {
		h.end = t.fail(err)
		return false
	}
	t.wait(ctx, wait)
	return true
}

// plainReason is why an attempt failed, without how many there were.
func plainReason(le *llm.Error) string {
	one := *le
	one.Attempts, one.Wait = 0, 0
	return one.Error()
}

// echo takes in a delta of an answer that the model was asked for again. As long
// as it says what it has said before, nothing is told: whoever shows it would
// show it twice. It reports whether that was all of d, of which it takes away
// what it was.
func (t *turn) echo(ctx context.Context, d *llm.Delta) (all bool, err error) {
	h := &t.hitch
	switch d.Kind {
	case llm.Text:
	case llm.Reason, llm.ReasonEnd, llm.CallEnd:
		return false, t.anew(ctx)
	default:
		return false, nil // nothing is said
	}
	rest := h.echo[h.echoed:]
	n := 0
	for n < len(rest) && n < len(d.Text) && rest[n] == d.Text[n] {
		n++
	}
	switch {
	case n == len(rest):
		h.echo, h.echoed = "", 0
		d.Text = d.Text[n:]
		return d.Text == "" && d.Opaque == nil, nil
	case n == len(d.Text) && d.Opaque == nil:
		h.echoed += n
		return true, nil
	}
	return false, t.anew(ctx)
}

// anew takes back what was said before an answer broke off: the model says
// something else now.
func (t *turn) anew(ctx context.Context) error {
	h := &t.hitch
	again := h.echo[:h.echoed]
	h.echo, h.echoed = "", 0
	err := t.note(ctx, &Event{Type: ModelRetry, Retry: &Retry{Attempt: h.tries + 1, Reason: "the model answers in other words than before", Discard: true}})
	if err == nil && again != "" {
		err = t.b.add(ctx, t.id, TextPart, again, nil)
	}
	return err
}

// spent is what an answer took that ended in an error: what the error says of all
// attempts, or else what was told before.
func spent(err error, told llm.Usage) llm.Usage {
	var le *llm.Error
	if errors.As(err, &le) && le.Usage != (llm.Usage{}) {
		return le.Usage
	}
	return told
}
