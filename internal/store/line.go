package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// MaxSent is the size of the largest message that processes send each other.
const MaxSent = MaxEntry

// Sent is a message from another process on the store. Nobody keeps it.
type Sent struct {
	Subject string
	Data    []byte
	msg     *nats.Msg
}

// Answer answers a message that was asked for one.
func (m Sent) Answer(data []byte) error { return m.msg.Respond(data) }

// ErrNobody means that no process hears a subject.
var ErrNobody = errors.New("nobody hears it")

// The most that may wait for one Hear. A process that is so far behind loses what
// comes, and whoever needs all of it has to notice.
const (
	maxUnheard      = 1 << 16
	maxUnheardBytes = 256 << 20
)

// Hear calls fn with what processes send to subjects from now on, in order, one at
// a time.
// What is sent while the engine is away is lost.
func (s *Store) Hear(subject string, fn func(Sent)) (stop func(), err error) {
	sub, err := s.engine.Load().nc.Subscribe(subject, func(m *nats.Msg) { fn(Sent{m.Subject, m.Data, m}) })
	if err == nil {
		err = sub.SetPendingLimits(maxUnheard, maxUnheardBytes)
	}
	if err == nil {
		err = s.engine.Load().nc.FlushTimeout(s.o.Timeout) // the engine knows of it now
	}
	if err != nil {
		return nil, fmt.Errorf("hear what is sent to %s: %w", subject, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

// Send sends a message to whoever hears the subject. That it was sent does not
// mean that it arrives.
func (s *Store) Send(subject string, data []byte) error {
	if err := s.engine.Load().nc.Publish(subject, data); err != nil {
		return fmt.Errorf("send to %s: %w", subject, err)
	}
	return nil
}

// Ask sends a message and returns the first answer, or ErrNobody.
func (s *Store) Ask(ctx context.Context, subject string, data []byte) ([]byte, error) {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.o.Timeout)
		defer cancel()
	}
	r, err := s.engine.Load().nc.RequestWithContext(ctx, subject, data)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, fmt.Errorf("ask %s: %w", subject, ErrNobody)
	case err != nil:
		return nil, fmt.Errorf("ask %s: %w", subject, err)
	}
	return r.Data, nil
}

// Round is how long a message takes to the engine and back.
func (s *Store) Round(ctx context.Context) (time.Duration, error) {
	ctx, cancel := s.reading(ctx)
	defer cancel()
	began := time.Now()
	if err := s.engine.Load().nc.FlushWithContext(ctx); err != nil {
		return 0, fmt.Errorf("ask the engine: %w", err)
	}
	return time.Since(began), nil
}
