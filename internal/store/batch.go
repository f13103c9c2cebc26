package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// maxBatch is how many entries the engine takes at once.
const maxBatch = 1000

// Put is one entry of a batch.
type Put struct {
	Subject string
	Data    []byte
	Filter  string  // whose last sequence is expected; "" means that of Subject
	Expect  *uint64 // nil means whatever it is
}

// Batch appends several entries, or none: they get sequences without a gap and
// nobody can read one before all are there. It returns the sequence of the
// last. Only the first entry of a subject may expect a sequence. It costs
// about three times the writes of single appends, so use it where entries
// belong together, not for speed. A log with Async has no batches.
func (l *Log) Batch(ctx context.Context, puts []Put) (uint64, error) {
	op := fmt.Sprintf("append %d entries to log %s", len(puts), l.name)
	switch {
	case len(puts) == 0:
		return 0, errors.New(op + ": nothing to append")
	case len(puts) > maxBatch:
		return 0, fmt.Errorf("%s: at most %d go at once", op, maxBatch)
	case l.async:
		return 0, errors.New(op + ": a log with Async has no batches")
	}
	written := map[string]bool{}
	for _, p := range puts {
		if len(p.Data) > MaxEntry {
			return 0, tooLarge("append to "+p.Subject, len(p.Data))
		}
		if p.Expect != nil && written[p.Subject] {
			return 0, fmt.Errorf("%s: only the first entry of %s may expect a sequence", op, p.Subject)
		}
		written[p.Subject] = true
	}
	select {
	case l.s.batches <- struct{}{}:
		defer func() { <-l.s.batches }()
	case <-ctx.Done():
		return 0, fmt.Errorf("%s: %w", op, context.Cause(ctx))
	}
	deadline := time.Now().Add(l.s.o.Timeout)
	for {
		seq, err := l.send(ctx, op, puts)
		api, ok := errors.AsType[*apiError](err)
		if !ok || !api.conflict() {
			return seq, err
		}
		if err := l.batchConflict(ctx, puts); err != nil {
			return 0, err
		}
		// A cluster refuses while another append is being decided, and that one may fail.
		if time.Now().After(deadline) {
			return 0, unable(op+": another append is still being decided", api)
		}
		if err := wait(ctx, l.s.ctx, time.Millisecond); err != nil {
			return 0, fmt.Errorf("%s: %w", op, err)
		}
	}
}

// send sends a batch once.
func (l *Log) send(ctx context.Context, op string, puts []Put) (uint64, error) {
	id, end := rand.Text(), len(puts)-1
	nc := l.s.engine.Load().nc
	for i, p := range puts {
		m := p.message()
		if end > 0 {
			m.Header.Set(headerBatch, id)
			m.Header.Set("Nats-Batch-Sequence", strconv.Itoa(i+1))
		}
		if i == end {
			if end > 0 {
				m.Header.Set("Nats-Batch-Commit", "1")
			}
			return l.publish(ctx, m)
		}
		if err := nc.PublishMsg(m); err != nil {
			return 0, l.s.failed(ctx, op, err, false) // without its end a batch has no effect
		}
	}
	return 0, nil
}

func (p *Put) message() *nats.Msg {
	m := nats.NewMsg(p.Subject)
	m.Data = p.Data
	if p.Expect != nil {
		m.Header.Set(headerExpect, strconv.FormatUint(*p.Expect, 10))
		if p.Filter != "" && p.Filter != p.Subject {
			m.Header.Set(headerExpectFilter, p.Filter)
		}
	}
	return m
}

// batchConflict finds out which expectation did not hold; the engine does not
// say. It is nil if all hold.
func (l *Log) batchConflict(ctx context.Context, puts []Put) error {
	for _, p := range puts {
		if p.Expect == nil {
			continue
		}
		filter := orElse(p.Filter, p.Subject)
		e, err := l.Last(ctx, filter)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if e.Seq != *p.Expect {
			return &Conflict{Subject: filter, Expected: *p.Expect, Last: e.Seq}
		}
	}
	return nil
}
