package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// WorkOptions describe a queue.
type WorkOptions struct {
	Name       string
	Subjects   []string
	MaxDeliver int              // how often an item is handed out; 0 means without end
	AckWait    time.Duration    // how long a taker may be silent before another gets the item; 0 means 30 s
	Remember   time.Duration    // how long the id of an item is known, for Add; 0 means 10 min
	Exhausted  func(Dead) error // gets an item that was handed out too often; after it returned nil, the item goes
}

// Dead is an item that nobody could do.
type Dead struct {
	Subject    string
	Data       []byte
	Seq        uint64
	Deliveries int
}

// Work is a queue. An item is handed to one taker at a time, again if the
// taker dies or gives it back, so at least once; who does what it says must
// bear that.
type Work struct {
	s *Store
	o WorkOptions

	mu    sync.Mutex
	ready map[string]*engine // the consumers of filters that were made, and for which engine
}

// Work opens a queue, making it if it is not there.
func (s *Store) Work(ctx context.Context, o WorkOptions) (*Work, error) {
	if err := checkName("work", o.Name); err != nil {
		return nil, err
	}
	if len(o.Subjects) == 0 {
		return nil, fmt.Errorf("work %s: it takes no subject", o.Name)
	}
	if o.AckWait <= 0 {
		o.AckWait = 30 * time.Second
	}
	if o.Remember <= 0 {
		o.Remember = 10 * time.Minute
	}
	err := s.stream(ctx, jetstream.StreamConfig{
		Name: "work_" + o.Name, Subjects: o.Subjects, Storage: jetstream.FileStorage, Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardOld,
		MaxMsgsPerSubject: -1, MaxMsgs: -1, MaxBytes: -1, MaxConsumers: -1, MaxMsgSize: -1,
		Replicas: s.o.Replicas, AllowDirect: true, Duplicates: o.Remember,
	})
	if err != nil {
		return nil, err
	}
	return &Work{s: s, o: o, ready: map[string]*engine{}}, nil
}

func (w *Work) stream() string { return "work_" + w.o.Name }

// Add adds an item. If one with the same id was added within the time that ids
// are known, it adds nothing and says so; "" is no id. A restart of the engine
// forgets the ids of items that were done.
func (w *Work) Add(ctx context.Context, subject string, data []byte, id string) (added bool, err error) {
	if len(data) > MaxEntry {
		return false, tooLarge("add to "+subject, len(data))
	}
	if !taken(w.o.Subjects, subject) {
		return false, fmt.Errorf("add to %s: work %s takes %s only", subject, w.o.Name, strings.Join(w.o.Subjects, ", "))
	}
	m := &nats.Msg{Subject: subject, Data: data}
	if id != "" {
		m.Header = nats.Header{headerID: {id}}
	}
	ack, err := w.s.publish(ctx, m)
	if err != nil {
		return false, err
	}
	if ack.Stream != w.stream() {
		return false, fmt.Errorf("add to %s: it went to %s, not to %s: the subject is not one of this queue's", subject, ack.Stream, w.stream())
	}
	return !ack.Duplicate, nil
}

// Take waits for an item whose subject matches filter. All takers of a queue
// must use filters that are the same or do not overlap.
func (w *Work) Take(ctx context.Context, filter string) (*Item, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.s.ctx, func() { cancel(ErrClosed) })()
	for {
		it, err := w.take(ctx, filter)
		switch {
		case ctx.Err() != nil:
			if it != nil {
				_ = it.Nak(0) // else it comes back after AckWait
			}
			return nil, fmt.Errorf("take from %s: %w", filter, context.Cause(ctx))
		case err != nil && !passing(err):
			return nil, err
		case err != nil:
			w.s.log.Debug("take from a queue", "work", w.o.Name, "err", err)
			if err := wait(ctx, w.s.ctx, 100*time.Millisecond); err != nil {
				return nil, fmt.Errorf("take from %s: %w", filter, err)
			}
		case it == nil:
		case w.o.MaxDeliver > 0 && it.Deliveries > w.o.MaxDeliver:
			w.bury(it)
		default:
			return it, nil
		}
	}
}

// passing tells errors that Take sits out: the engine is away for a while.
func passing(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code >= 500
	}
	return !errors.Is(err, jetstream.ErrStreamNotFound)
}

// bury removes an item that was handed out too often.
func (w *Work) bury(it *Item) {
	w.s.log.Warn("an item was tried too often", "work", w.o.Name, "seq", it.Seq, "deliveries", it.Deliveries-1)
	if w.o.Exhausted != nil {
		if err := w.o.Exhausted(Dead{it.Subject, it.Data, it.Seq, it.Deliveries - 1}); err != nil {
			w.s.log.Error("an item that was tried too often cannot be put away", "work", w.o.Name, "seq", it.Seq, "err", err)
			_ = it.Nak(w.o.AckWait) // else it comes back after AckWait too
			return
		}
	}
	_ = it.Term() // else it comes back and goes then
}

// takeWait is how long one request for an item stays with the engine. An
// engine elsewhere shows every heartbeat that it still has it.
const (
	takeWait  = 20 * time.Second
	heartbeat = 2 * time.Second
)

// take asks for one item; it returns none if there was none for a while.
func (w *Work) take(ctx context.Context, filter string) (*Item, error) {
	e := w.s.engine.Load()
	name, err := w.consumer(ctx, e, filter)
	if err != nil {
		return nil, err
	}
	sub, err := e.nc.SubscribeSync(e.nc.NewInbox())
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe() // an error means that the connection is gone, and with it the subscription
	request, silence := map[string]any{"batch": 1, "expires": takeWait.Nanoseconds()}, takeWait+w.s.o.Timeout
	if w.s.folder == nil {
		request["idle_heartbeat"], silence = heartbeat.Nanoseconds(), 5*heartbeat/2
	}
	b, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	if err := e.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+w.stream()+"."+name, sub.Subject, b); err != nil {
		return nil, err
	}
	for {
		m, err := next(ctx, sub, silence)
		if err != nil {
			w.forget(filter)
			return nil, err
		}
		switch status := m.Header.Get("Status"); status {
		case "":
			return newItem(w, m)
		case "100": // a heartbeat
		case "404", "408":
			return nil, nil // none came
		default:
			w.forget(filter)
			return nil, fmt.Errorf("take from %s: %s %s", filter, status, m.Header.Get("Description"))
		}
	}
}

func next(ctx context.Context, sub *nats.Subscription, silence time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	return sub.NextMsgWithContext(ctx)
}

// consumer makes the engine's consumer for a filter, if it is not there.
func (w *Work) consumer(ctx context.Context, e *engine, filter string) (string, error) {
	sum := sha256.Sum256([]byte(filter))
	name := hex.EncodeToString(sum[:8])
	w.mu.Lock()
	have := w.ready[filter] == e
	w.mu.Unlock()
	if have {
		return name, nil
	}
	ctx, cancel := w.s.reading(ctx)
	defer cancel()
	_, err := e.js.CreateOrUpdateConsumer(ctx, w.stream(), jetstream.ConsumerConfig{
		Durable: name, FilterSubject: filter, AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverAllPolicy,
		AckWait: w.o.AckWait, MaxDeliver: -1, MaxAckPending: -1,
	})
	if err != nil {
		return "", fmt.Errorf("take from %s: %w", filter, err)
	}
	w.mu.Lock()
	w.ready[filter] = e
	w.mu.Unlock()
	return name, nil
}

func (w *Work) forget(filter string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.ready, filter)
}

// Pending is how many items are in the queue, those that are taken included. A
// cluster may count what was just acknowledged for a moment longer.
func (w *Work) Pending(ctx context.Context) (uint64, error) {
	u, err := (&Log{s: w.s, name: w.stream()}).Usage(ctx)
	return u.Entries, err
}

// Item is an item of work that was taken. One of Ack, Nak and Term ends it.
type Item struct {
	Subject    string
	Data       []byte
	Seq        uint64 // the same each time it is handed out
	Deliveries int    // how often it was handed out, this time included
	Time       time.Time

	w *Work
	m *nats.Msg
}

func newItem(w *Work, m *nats.Msg) (*Item, error) {
	meta, err := m.Metadata()
	if err != nil {
		return nil, fmt.Errorf("an item of %s: %w", w.o.Name, err)
	}
	return &Item{Subject: m.Subject, Data: m.Data, Seq: meta.Sequence.Stream, Deliveries: int(meta.NumDelivered), Time: meta.Timestamp, w: w, m: m}, nil
}

// Ack removes the item: it is done. When it returns without error, the item
// does not come back.
func (it *Item) Ack(outer context.Context) error {
	ctx, cancel := it.w.s.writing(outer)
	defer cancel()
	if _, err := it.w.s.engine.Load().nc.RequestWithContext(ctx, it.m.Reply, []byte("+ACK")); err != nil {
		return it.w.s.failed(outer, fmt.Sprintf("acknowledge item %d of %s", it.Seq, it.w.o.Name), err, true)
	}
	return nil
}

// Nak gives the item back; it is handed out again after the delay.
func (it *Item) Nak(delay time.Duration) error {
	b := []byte("-NAK")
	if delay > 0 {
		b = fmt.Appendf(b, ` {"delay": %d}`, delay.Nanoseconds())
	}
	return it.say(b)
}

// InProgress says that the taker is alive: AckWait begins again.
func (it *Item) InProgress() error { return it.say([]byte("+WPI")) }

// Term removes the item though it was not done.
func (it *Item) Term() error { return it.say([]byte("+TERM")) }

func (it *Item) say(b []byte) error {
	if err := it.w.s.engine.Load().nc.Publish(it.m.Reply, b); err != nil {
		return it.w.s.failed(context.Background(), fmt.Sprintf("answer for item %d of %s", it.Seq, it.w.o.Name), err, false)
	}
	return nil
}
