package mcp

import (
	"context"
	"io"
	"runtime/debug"
	"sync"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// Batches: several messages in one array, which 2025-03-26 has and no other
// version. Whether a message is one is told by its first byte, so that single
// messages pay nothing for them.
const (
	batchVersion = "2025-03-26"
	maxBatch     = 100
)

func isBatch(b []byte) bool {
	for _, c := range b {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == '['
		}
	}
	return false
}

// splitBatch returns the messages of a batch.
func splitBatch(b []byte) ([][]byte, error) {
	if err := wire.Valid(b, wire.FromClient); err != nil {
		return nil, scanFault(err)
	}
	all, _ := wire.Elements(b)
	switch {
	case len(all) == 0:
		return nil, fault.New(fault.InvalidRequest, "", "the batch is empty")
	case len(all) > maxBatch:
		return nil, fault.New(fault.InvalidRequest, "", "a batch of %d messages is over the limit of %d", len(all), maxBatch).With("limit", maxBatch)
	}
	return all, nil
}

func notInBatch(method string) error {
	return fault.New(fault.InvalidRequest, method, "this request cannot be part of a batch; send it by itself")
}

// batch gathers the answers to the messages of one batch. They are sent
// together when nothing of the batch runs any more, in the order of the
// requests.
type batch struct {
	limit int                 // of all answers together
	send  func(answer []byte) // called once, if there are answers

	mu    sync.Mutex
	slots []slot
	left  int
	size  int
}

// slot is the place of one message in a batch. A nil slot is that of a message
// that came by itself.
type slot struct {
	b      *batch
	answer []byte
}

func newBatch(n, limit int, send func([]byte)) *batch {
	b := &batch{limit: limit, send: send, slots: make([]slot, n), left: n}
	for i := range b.slots {
		b.slots[i].b = b
	}
	return b
}

// put takes the answer, unless the batch has grown too large; then an error
// stands in for it.
func (s *slot) put(id []byte, frame func([]byte) []byte) {
	answer := frame(nil)
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.b.size+len(answer) > s.b.limit {
		answer = wire.AppendError(nil, id, fault.New(fault.Limit, "", "the answers to the batch are larger than %d bytes together", s.b.limit).Wire(false))
	}
	s.b.size += len(answer)
	s.answer = answer
}

// done says that nothing of this message runs any more.
func (s *slot) done() {
	if s == nil {
		return
	}
	s.b.mu.Lock()
	s.b.left--
	last := s.b.left == 0
	s.b.mu.Unlock()
	if !last {
		return
	}
	if all := s.b.joined(); all != nil {
		s.b.send(all)
	}
}

// joined returns the answers as an array, or nil if there are none.
func (b *batch) joined() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.size == 0 {
		return nil
	}
	out := make([]byte, 0, b.size+len(b.slots)+1)
	for i := range b.slots {
		if a := b.slots[i].answer; a != nil {
			out = append(append(out, ','), a...)
		}
	}
	out[0] = '['
	return append(out, ']')
}

// batch takes an array of messages from a pipe.
func (p *pipe) batch(ctx context.Context, line []byte) error {
	all, err := splitBatch(line)
	if err != nil {
		p.refuse(nil, &wire.Message{}, line, err)
		return nil
	}
	b := newBatch(len(all), p.opts.MessageBytes, func(answer []byte) {
		p.send(func(dst []byte) []byte { return append(dst, answer...) })
	})
	for i, one := range all {
		if err := p.one(ctx, one, &b.slots[i]); err != nil {
			return err
		}
	}
	return nil
}

// handle asks h. With panicked, a panic is told there and answered by an error:
// on a goroutine that nobody else guards it would end the process.
func handle(ctx context.Context, h Handler, req *Request, panicked func(any, []byte)) (resp Response, err error) {
	if panicked != nil {
		defer func() {
			if v := recover(); v != nil {
				panicked(v, debug.Stack())
				resp, err = Response{}, fault.New(fault.Internal, "", "the request made the hub stumble")
			}
		}()
	}
	return h.Handle(ctx, req)
}

// An events reader takes the messages of an event stream one by one, also
// where a server of a version with batches has sent several in one event.
type events struct {
	*wire.EventReader
	agreed *terms
	rest   [][]byte // of the last event; valid until the next one is read
}

func newEvents(r io.Reader, limit int, agreed *terms) *events {
	return &events{EventReader: wire.NewEventReader(r, limit), agreed: agreed}
}

func (e *events) Next() (wire.Event, error) {
	if len(e.rest) == 0 {
		ev, err := e.EventReader.Next()
		if err != nil || !isBatch(ev.Data) || e.agreed.version() != batchVersion {
			return ev, err
		}
		var ok bool
		if e.rest, ok = wire.Elements(ev.Data); !ok || len(e.rest) == 0 {
			return ev, nil
		}
	}
	one := e.rest[0]
	e.rest = e.rest[1:]
	return wire.Event{Data: one}, nil
}

func (e *events) Ready() bool { return len(e.rest) > 0 || e.EventReader.Ready() }
