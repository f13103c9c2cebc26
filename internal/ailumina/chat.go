package ailumina

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/fault"
)

// goodbye is how long the other end may take to answer that we close.
const goodbye = 250 * time.Millisecond

// AgentError is what an agent said by an error message, without credentials.
type AgentError struct{ Text string }

func (e *AgentError) Error() string { return e.Text }

// Chat puts a question and returns the answer when the agent says that it is
// complete. told, which may be nil, is called with each event as it comes. If
// ctx ends, the socket is closed and its cause is the error. Questions on one
// Conn are put one after the other; after an error the Conn is of no more use.
func (c *Conn) Chat(ctx context.Context, q Question, told func(Event)) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &watch{c: c, end: time.Now().Add(c.opts.Max), cancel: cancel}
	w.timer = time.AfterFunc(min(c.opts.Timeout, c.opts.Max), w.expire)
	defer w.timer.Stop()
	if err := c.ws.Write(ctx, websocket.MessageText, q.Append(nil)); err != nil {
		return "", c.broken(ctx, err)
	}
	var a Answer
	for {
		e, err := c.next(ctx)
		if err != nil {
			return "", err
		}
		w.more()
		if told != nil {
			told(e)
		}
		switch e.Kind {
		case Complete:
			return a.Text(), nil
		case Failure:
			return "", &AgentError{c.hide.Hide(e.Text)}
		}
		if err := a.Add(e); err != nil {
			return "", err
		}
	}
}

// Close closes the socket, and waits a moment for the agent to know.
func (c *Conn) Close() {
	late := time.AfterFunc(goodbye, func() { c.raw.Close() })
	defer late.Stop()
	_ = c.ws.Close(websocket.StatusNormalClosure, "") // the agent may be gone already
}

// next reads one event.
func (c *Conn) next(ctx context.Context) (Event, error) {
	kind, b, err := c.ws.Read(ctx)
	if err != nil {
		return Event{}, c.broken(ctx, err)
	}
	if kind != websocket.MessageText {
		return Event{}, wrong(errors.New("messages are text, and this one is binary"))
	}
	e, err := DecodeEvent(b)
	if err != nil {
		return Event{}, wrong(err)
	}
	return e, nil
}

func wrong(err error) error {
	return fault.New(fault.UpstreamLost, "", "The agent sent what cannot be understood: %v", err)
}

// broken is the error of a socket that does not work any more.
func (c *Conn) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, websocket.ErrMessageTooBig) {
		return fault.New(fault.Limit, "", "The agent sent a message longer than %d bytes", MessageBytes)
	}
	how := "the connection broke"
	if closed, ok := errors.AsType[websocket.CloseError](err); ok {
		how = fmt.Sprintf("the agent closed the connection with status %d", closed.Code)
		if closed.Reason != "" {
			how += fmt.Sprintf(" (%q)", c.hide.Hide(closed.Reason))
		}
	}
	return fault.New(fault.UpstreamLost, "", "The answer is not complete: %s", how).Because(err)
}

// watch ends an answer that takes too long.
type watch struct {
	c      *Conn
	end    time.Time
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

func (w *watch) more() { w.timer.Reset(min(w.c.opts.Timeout, max(time.Until(w.end), 0))) }

func (w *watch) expire() {
	if time.Until(w.end) <= 0 {
		w.cancel(fault.New(fault.Timeout, "", "Response timeout: the answer took longer than %dms", w.c.opts.Max.Milliseconds()))
		return
	}
	w.cancel(fault.New(fault.Timeout, "", "Response timeout after %dms without a message", w.c.opts.Timeout.Milliseconds()))
}
