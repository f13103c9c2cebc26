package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The bounds of one request of a scan: large enough to be quick, small enough
// to stay far from the engine's 64 MiB for a slow reader.
const (
	scanEntries = 2048
	scanBytes   = 4 << 20
)

// Scan calls fn with each entry that matches filter ("" means all), in order,
// from sequence from on, and returns when it has come to what was last as it
// began. It ends early with the error of fn.
func (l *Log) Scan(ctx context.Context, filter string, from uint64, fn func(Entry) error) error {
	_, err := l.scan(ctx, filter, from, func(e Entry, _ nats.Header) error { return fn(e) })
	return err
}

// scan also returns the sequence after the last entry that was there.
func (l *Log) scan(ctx context.Context, filter string, from uint64, fn func(Entry, nats.Header) error) (uint64, error) {
	if filter == "" {
		filter = ">"
	}
	from = max(from, 1)
	end, err := l.end(ctx, filter)
	if errors.Is(err, ErrNotFound) {
		return from, nil
	}
	if err != nil {
		return from, err
	}
	stuck := time.Time{}
	for from <= end.Seq {
		next, err := l.batch(ctx, filter, from, end.Seq, fn)
		if err != nil {
			return from, err
		}
		if next > from {
			from, stuck = next, time.Time{}
			continue
		}
		// A replica that has not heard of the last entries yet, or a purge.
		if _, err := l.Read(ctx, end.Seq); errors.Is(err, ErrNotFound) {
			return end.Seq + 1, nil
		}
		if stuck.IsZero() {
			stuck = time.Now()
		}
		if time.Since(stuck) > l.s.o.Timeout {
			return from, unable(fmt.Sprintf("scan %s of log %s: entries from %d on cannot be read, up to %d were announced", filter, l.name, from, end.Seq), ErrLost)
		}
		if err := wait(ctx, l.s.ctx, 20*time.Millisecond); err != nil {
			return from, err
		}
	}
	return end.Seq + 1, nil
}

func wait(ctx, store context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-store.Done():
		return ErrClosed
	case <-t.C:
		return nil
	}
}

// end is the last entry that matches filter. Asked for the last of all, the
// engine looks at the last sequence only, whose entry may be deleted; asked by
// what the log takes, it finds the last that is left.
func (l *Log) end(ctx context.Context, filter string) (Entry, error) {
	if filter != ">" || l.takes == nil {
		return l.Last(ctx, filter)
	}
	var end Entry
	for _, subjects := range l.takes {
		e, err := l.Last(ctx, subjects)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return Entry{}, err
		}
		if e.Seq > end.Seq {
			end = e
		}
	}
	if end.Seq == 0 {
		return Entry{}, ErrNotFound
	}
	return end, nil
}

// batch asks for the entries from a sequence on and returns where to go on; it
// returns from itself if there was none.
func (l *Log) batch(outer context.Context, filter string, from, end uint64, fn func(Entry, nats.Header) error) (uint64, error) {
	op := fmt.Sprintf("scan %s of log %s from %d", filter, l.name, from)
	b, err := json.Marshal(getRequest{Seq: from, Next: filter, Batch: scanEntries, MaxBytes: scanBytes})
	if err != nil {
		return 0, err
	}
	// Only silence is bounded: many entries take as long as the reader needs.
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	nc := l.s.engine.Load().nc
	sub, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		return 0, l.s.failed(outer, op, err, false)
	}
	defer sub.Unsubscribe() // an error means that the connection is gone, and with it the subscription
	if err := nc.PublishRequest("$JS.API.DIRECT.GET."+l.name, sub.Subject, b); err != nil {
		return 0, l.s.failed(outer, op, err, false)
	}
	for {
		silence := l.s.o.Timeout
		if l.s.folder == nil {
			silence = patience
		}
		m, err := next(ctx, sub, silence)
		if err != nil {
			if ctx.Err() == nil && (l.s.again(ctx, err) || l.s.folder == nil && silent(err)) {
				return from, nil // what came so far has been told
			}
			return 0, l.s.failed(outer, op, err, false)
		}
		if status := m.Header.Get("Status"); status == "204" || status == "404" {
			return from, nil
		}
		e, header, err := directEntry(m)
		if err != nil {
			return 0, l.s.failed(outer, op, err, false)
		}
		if e.Seq > end {
			return e.Seq, nil
		}
		if err := fn(e, header); err != nil {
			return 0, err
		}
		from = e.Seq + 1
	}
}

// Tail calls fn with each entry that matches filter, in order, from sequence
// from on, each once, and goes on with those to come until ctx ends or fn
// returns an error, which it returns. It outlives the loss of the engine.
func (l *Log) Tail(ctx context.Context, filter string, from uint64, fn func(Entry) error) error {
	return l.tail(ctx, filter, from, func(e Entry, _ nats.Header) error { return fn(e) })
}

func (l *Log) tail(ctx context.Context, filter string, from uint64, fn func(Entry, nats.Header) error) error {
	if filter == "" {
		filter = ">"
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.s.ctx, func() { cancel(ErrClosed) })()
	from = max(from, 1)
	for {
		next, err := l.follow(ctx, filter, from, fn)
		from = next
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if own, ok := errors.AsType[*tailEnd](err); ok {
			return own.err
		}
		l.s.log.Debug("a tail starts again", "log", l.name, "from", from, "err", err)
		if err := wait(ctx, l.s.ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// tailEnd carries what the caller's function returned.
type tailEnd struct{ err error }

func (t *tailEnd) Error() string { return t.err.Error() }

// follow reads with one consumer until that fails, and returns where to go on.
func (l *Log) follow(ctx context.Context, filter string, from uint64, fn func(Entry, nats.Header) error) (uint64, error) {
	c, err := l.s.engine.Load().js.OrderedConsumer(ctx, l.name, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{filter}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
		InactiveThreshold: 30 * time.Second, MaxResetAttempts: 3,
	})
	if err != nil {
		return from, err
	}
	it, err := c.Messages(jetstream.PullMaxMessages(500), jetstream.PullHeartbeat(2*time.Second), jetstream.PullExpiry(30*time.Second))
	if err != nil {
		return from, err
	}
	defer it.Stop()
	for {
		m, err := it.Next(jetstream.NextContext(ctx))
		if err != nil {
			return from, err
		}
		meta, err := m.Metadata()
		if err != nil {
			return from, err
		}
		seq := meta.Sequence.Stream
		if seq < from {
			continue
		}
		if err := fn(Entry{Seq: seq, Subject: m.Subject(), Time: meta.Timestamp, Data: m.Data()}, m.Headers()); err != nil {
			return from, &tailEnd{err}
		}
		from = seq + 1
	}
}

// next waits for a message, but not for longer than silence.
func next(ctx context.Context, sub *nats.Subscription, silence time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	return sub.NextMsgWithContext(ctx)
}
