package chat

import (
	"context"
	"errors"
	"slices"
)

// Position is a place in the events of a conversation: Seq is the last event
// that has been seen whole, Offset how many bytes of the text of the one after
// it have been seen live. The zero value is the beginning.
type Position struct {
	Seq    uint64 `json:"seq"`
	Offset int    `json:"offset,omitempty"`

	place  uint64 // of Seq in the log, if it is known
	notice int    // the last notice that was seen
}

// ring holds the last events.
type ring struct {
	events []placed
	bytes  int
}

type placed struct {
	ev    Event
	place uint64
}

// A reader that is further behind reads the log: what each conversation
// holds for it would be most of its memory.
const (
	ringEvents = 16
	ringBytes  = 64 << 10
)

func (p *placed) size() int {
	n := 64 + len(p.ev.Text)
	switch {
	case p.ev.Input != nil:
		n += len(p.ev.Input.Text) + len(p.ev.Input.File)
	case p.ev.Result != nil:
		n += len(p.ev.Result.Content)
	case p.ev.Call != nil:
		n += len(p.ev.Call.Args)
	}
	return n
}

func (r *ring) add(ev Event, place uint64) {
	next := placed{ev, place}
	r.bytes += next.size()
	drop := 0
	for drop < len(r.events) && (len(r.events)-drop >= ringEvents || r.bytes > ringBytes) {
		r.bytes -= r.events[drop].size()
		drop++
	}
	r.events = append(slices.Delete(r.events, 0, drop), next)
}

// after returns the events that follow seq, at most n, and whether it has all
// of them.
func (r *ring) after(seq uint64, n int) ([]placed, bool) {
	if len(r.events) == 0 {
		return nil, false
	}
	first := r.events[0].ev.Seq
	if seq+1 < first {
		return nil, false
	}
	rest := r.events[min(uint64(len(r.events)), seq+1-first):]
	return rest[:min(n, len(rest))], true
}

// reader waits for something to read.
type reader struct{ more chan struct{} }

// wake is called with mu held.
func (b *book) wake() {
	for _, r := range b.readers {
		select {
		case r.more <- struct{}{}:
		default:
		}
	}
}

// next returns what follows pos, at most max events, waiting until there is
// something. A piece of the open part and notices come only at the end.
func (b *book) next(ctx context.Context, pos Position, max int) ([]Event, Position, error) {
	if max <= 0 {
		max = 64
	}
	var r *reader
	defer func() {
		if r != nil {
			b.leave(r)
		}
	}()
	if err := b.reach(ctx, pos); err != nil {
		return nil, pos, err
	}
	for {
		events, next, far, err := b.peek(pos, max)
		if far {
			events, next, err = b.reread(ctx, pos, max)
		}
		if len(events) > 0 || err != nil {
			return events, next, err
		}
		if r == nil { // and look again: something may have come in between
			r = b.enter()
			continue
		}
		select {
		case <-r.more:
		case <-ctx.Done():
			return nil, pos, context.Cause(ctx)
		}
	}
}

// reach looks at the log if a reader has more than is known: it may come from
// another hub.
func (b *book) reach(ctx context.Context, pos Position) error {
	b.mu.Lock()
	known := pos.Seq <= b.state.Seq
	b.mu.Unlock()
	if known || b.x == nil {
		return nil
	}
	return b.latest(ctx)
}

func (b *book) enter() *reader {
	r := &reader{make(chan struct{}, 1)}
	b.mu.Lock()
	b.readers = append(b.readers, r)
	b.mu.Unlock()
	return r
}

func (b *book) leave(r *reader) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.readers {
		if b.readers[i] == r {
			b.readers = append(b.readers[:i:i], b.readers[i+1:]...)
			return
		}
	}
}

// peek looks into memory. far says that the log has to be read.
func (b *book) peek(pos Position, max int) (out []Event, next Position, far bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if pos.Seq < b.state.Seq {
		list, ok := b.ring.after(pos.Seq, max)
		if !ok {
			return nil, pos, true, nil
		}
		out = make([]Event, 0, len(list)+1)
		for i := range list {
			out = append(out, pos.step(list[i].ev, list[i].place))
		}
	}
	if pos.Seq > b.state.Seq {
		// A position of the future: what is there now was another's future.
		pos = Position{Seq: b.state.Seq, place: b.place}
	}
	if pos.Seq == b.state.Seq && len(out) < max {
		out = b.live(out, &pos, max)
	}
	if len(out) == 0 {
		err = b.over
	}
	return out, pos, false, err
}

// live adds what is not durable. Called with mu held.
func (b *book) live(out []Event, pos *Position, max int) []Event {
	if n := len(b.part.text); n > pos.Offset {
		out = append(out, Event{Seq: pos.Seq + 1, Time: b.part.at.UTC(), Type: b.part.kind, Turn: b.part.turn, Text: string(b.part.text[pos.Offset:]), Offset: pos.Offset, Live: true})
		pos.Offset = n
	}
	for i := range b.notices {
		if ev := b.notices[i]; ev.Offset > pos.notice && len(out) < max {
			pos.notice, ev.Offset = ev.Offset, 0
			out = append(out, ev)
		}
	}
	return out
}

// step moves the position over a durable event and returns what of it has not
// been seen.
func (p *Position) step(ev Event, place uint64) Event {
	if (ev.Type == TextPart || ev.Type == ReasoningPart) && p.Offset > 0 && p.Offset <= len(ev.Text) {
		ev.Offset, ev.Text = p.Offset, ev.Text[p.Offset:]
	}
	p.Seq, p.Offset, p.place = ev.Seq, 0, place
	return ev
}

var errEnough = errors.New("enough")

// reread reads what memory does not have any more.
func (b *book) reread(ctx context.Context, pos Position, max int) ([]Event, Position, error) {
	var out []Event
	next := pos
	err := b.replay(ctx, pos, func(ev *Event, place uint64) error {
		out = append(out, next.step(*ev, place))
		if len(out) >= max {
			return errEnough
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnough):
	case err != nil:
		return nil, pos, err
	case len(out) == 0:
		return nil, pos, b.gone()
	}
	return out, next, nil
}

// gone is why there is nothing to read where there was something.
func (b *book) gone() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over != nil {
		return b.over
	}
	return ErrEnded // it is being removed
}
