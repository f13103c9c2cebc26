package chatws

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/ailumina"
	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/obs"
)

// waitingQuestions is how many questions a client may send ahead. Beyond them
// nothing is read, which holds it up.
const waitingQuestions = 8

// asker is a client of an agent.
type asker struct {
	*Agents
	link  *link
	from  chat.Asker
	agent string
	log   *slog.Logger // says which socket it is

	mu   sync.Mutex
	last time.Time // when something was sent
}

// frame is what was read: a message, or why it cannot be a question.
type frame struct {
	b   []byte
	err error
}

// serve answers questions until the client leaves or the hub stops.
func (c *asker) serve() {
	ctx, cancel := context.WithCancel(context.Background())
	frames, quit := make(chan frame, waitingQuestions), make(chan struct{})
	code, reason := websocket.StatusNormalClosure, ""
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel() // nobody waits for the answer any more
		defer close(frames)
		defer caught(c.opts.Logger, c.link)
		if errors.Is(c.read(frames, quit), io.ErrShortBuffer) {
			code, reason = websocket.StatusMessageTooBig, c.tooLong()
		}
	})
	wg.Go(func() { c.link.beat(ctx, c.opts.Beat) })
	stopping := c.answers(ctx, frames)
	close(quit)
	c.link.finish()
	cancel()
	wg.Wait()
	if stopping {
		code, reason = websocket.StatusGoingAway, "the hub is stopping"
	}
	c.link.close(code, reason)
}

// read reads questions until there are no more.
func (c *asker) read(frames chan<- frame, quit <-chan struct{}) error {
	for {
		b, err := c.link.next()
		if err != nil && !errors.Is(err, errLong) && !errors.Is(err, errBinary) {
			return err
		}
		select {
		case frames <- frame{b, err}:
		case <-quit:
			return nil
		}
	}
}

// answers answers what was read, and reports whether it ended because the hub
// stops.
func (c *asker) answers(ctx context.Context, frames <-chan frame) (stopping bool) {
	for {
		select {
		case <-c.gate.closing:
			return true
		default:
		}
		select {
		case <-c.gate.closing:
			return true
		case f, ok := <-frames:
			if !ok || ctx.Err() != nil || c.send(c.answer(ctx, f)) != nil {
				return false
			}
		}
	}
}

// answer answers one question. It returns the event that ends the answer.
func (c *asker) answer(ctx context.Context, f frame) ailumina.Event {
	switch {
	case errors.Is(f.err, errLong):
		return failure(c.tooLong())
	case f.err != nil:
		return failure("The question is a binary message; questions are text, which is JSON.")
	}
	if !c.engine.Sees(c.from.By, "", c.agent) { // any more, or on behalf of whom the chain names
		return failure(fmt.Sprintf("Agent '%s' not found.", c.agent))
	}
	q, err := ailumina.DecodeQuestion(f.b)
	if err != nil {
		return failure(fmt.Sprintf("The question cannot be understood: %v.", err))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from := c.from
	from.Correlation = obs.Correlation(from.Trace)
	attrs := []any{obs.KeyAction, "message", "bytes", len(q.Input), "history", len(q.History)}
	if from.Trace.Traceparent == "" { // else all its lines have it
		attrs = append(attrs, obs.KeyCorrelation, from.Correlation)
	}
	c.log.Debug("message received", attrs...)
	stop := c.stayHeard(ctx)
	_, err = c.engine.Ask(ctx, from, c.agent, q, func(e ailumina.Event) {
		if c.send(e) != nil {
			cancel() // there is nobody to work for
		}
	})
	stop()
	return c.ending(err)
}

// ending is the event that ends an answer.
func (c *asker) ending(err error) ailumina.Event {
	if err == nil {
		return ailumina.Event{Kind: ailumina.Complete}
	}
	if no, ok := errors.AsType[*ailumina.AgentError](err); ok {
		return failure(no.Text)
	}
	f := fault.Of(err)
	if f.Kind == fault.Internal {
		c.log.Error("an agent failed", obs.KeyErr, err)
	}
	return failure(f.Text() + ". " + f.Advice())
}

func failure(text string) ailumina.Event { return ailumina.Event{Kind: ailumina.Failure, Text: text} }

func (c *asker) tooLong() string {
	return fmt.Sprintf("The question is longer than %d bytes.", c.link.limit)
}

func (c *asker) send(e ailumina.Event) error {
	c.mu.Lock()
	c.last = time.Now()
	c.mu.Unlock()
	return c.link.send(e.Append(nil))
}

// stayHeard sends an empty sentence whenever the agent has said nothing for
// long, until stop has returned.
func (c *asker) stayHeard(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(c.opts.Silence)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			c.mu.Lock()
			silent := time.Since(c.last) >= c.opts.Silence
			c.mu.Unlock()
			if silent && c.send(ailumina.Event{Kind: ailumina.Sentence}) != nil {
				return
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}
