package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/wire"
)

// A hub may have many thousands of conversations, of which few are open. The
// journal keeps a summary of each; the State, with all that was said, is made
// when a conversation is opened (Replay), and kept current by what the journal
// reports (Changed) while somebody uses it.

type (
	chatLog = journal.Journal[summary, entry]
	entity  = journal.Entity[summary, entry]
)

const (
	logName       = "chat"
	leaseName     = "chatlease"
	subjectPrefix = "evt.chat."
	subjectSuffix = ".e"
	// inEntry is how large an event may be in an entry; a larger one is a blob.
	inEntry = store.MaxEntry - 4<<10
)

// summary is what is known of a conversation that nobody has opened.
type summary struct {
	seq                uint64 // of the last event
	principal, session string // whose it is; empty if the first input is a blob
	began, used        time.Time
	waiting            int      // inputs that wait, and the one whose turn runs
	blobs              []string // of large events
}

// known is what is known of the conversation without opening it; the zero value
// if nothing was said.
func (c *Conversation) known() summary {
	x := c.e.journal.Get(c.id)
	if x == nil {
		return summary{}
	}
	return x.State()
}

// busy says that a turn has not ended, or an input waits.
func (s summary) busy() bool { return s.waiting > 0 }

// entry is an event as the journal has it. One that this hub wrote has the
// event; of others only what the summary needs is read.
type entry struct {
	seq                uint64
	time               time.Time
	kind               Type
	principal, session string // of an input
	raw                []byte
	event              *Event
}

// bulky is the entry of an event that is a blob.
type bulky struct {
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"ts"`
	Type Type      `json:"type"`
	Blob string    `json:"blob"`
}

// bulkyBytes is more than such an entry can have.
const bulkyBytes = 512

// kind says what a conversation is to the journal.
func (e *Engine) kind() journal.Kind[summary, entry] {
	return journal.Kind[summary, entry]{
		Subjects: subjectPrefix + "*" + subjectSuffix, Inline: inEntry,
		New:    func(string) summary { return summary{} },
		Encode: encode, Decode: decode,
		Apply:   func(s summary, ev *entry, at journal.Place) (summary, []journal.Spare, error) { return s.apply(ev, at) },
		Blobs:   func(s summary) []string { return s.blobs },
		Changed: e.changed,
	}
}

// newEntry returns an event as the journal takes it, and its data.
func newEntry(ev *Event) (*entry, []byte, error) {
	data, err := json.Marshal(ev)
	if err != nil {
		return nil, nil, fmt.Errorf("encode event %d: %w", ev.Seq, err)
	}
	out := &entry{seq: ev.Seq, time: ev.Time, kind: ev.Type, event: ev}
	if ev.Type == InputAdded {
		out.principal, out.session = ev.Input.Principal, ev.Input.Session
	}
	return out, data, nil
}

// encode makes the entry: the event itself, or where it is.
func encode(ev *entry, data []byte, blob string) ([]byte, error) {
	if blob == "" {
		return data, nil
	}
	return json.Marshal(bulky{ev.seq, ev.time, ev.kind, blob})
}

func decode(raw []byte) (*entry, []byte, string, error) {
	out, blob := &entry{raw: raw}, ""
	for _, f := range wire.Members(raw) {
		switch string(f.Name) {
		case "seq":
			out.seq, _ = strconv.ParseUint(string(f.Value), 10, 64)
		case "ts":
			text, _ := wire.String(f.Value)
			out.time, _ = time.Parse(time.RFC3339Nano, text)
		case "type":
			text, _ := wire.String(f.Value)
			out.kind = Type(text)
		case "input":
			if out.kind == InputAdded {
				out.principal, _ = wire.String(wire.Get(f.Value, "principal"))
				out.session, _ = wire.String(wire.Get(f.Value, "session"))
			}
		case "blob":
			if len(raw) < bulkyBytes {
				blob, _ = wire.String(f.Value)
			}
		}
	}
	if out.seq == 0 || out.kind == "" {
		return nil, nil, "", errors.New("it is no event of a conversation")
	}
	return out, raw, blob, nil
}

// apply is what is known after an event. An event before it may have been one
// that cannot be read.
func (s summary) apply(ev *entry, at journal.Place) (summary, []journal.Spare, error) {
	if ev.seq <= s.seq {
		return s, nil, fmt.Errorf("event %d (%s) cannot follow event %d", ev.seq, ev.kind, s.seq)
	}
	s.seq, s.used = ev.seq, ev.time
	if s.began.IsZero() {
		s.began = ev.time
	}
	switch ev.kind {
	case InputAdded:
		s.waiting++
		if s.principal == "" {
			s.principal, s.session = ev.principal, ev.session
		}
	case InputDropped, TurnEnded:
		s.waiting--
	}
	if at.Blob != "" {
		s.blobs = append(slices.Clip(s.blobs), at.Blob)
	}
	if !ev.kind.known() {
		return s, nil, &journal.Unknown{Type: string(ev.kind)}
	}
	return s, nil, nil
}

// shelf is where conversations are kept: in a store, or in the memory of a hub
// that keeps nothing.
type shelf struct {
	log   journal.Log
	blobs journal.Blobs
	alone bool          // no other hub can write it
	slow  time.Duration // how long a write that is looked for may take
}

// memorySlow is that of the memory, which is never so slow.
const memorySlow = 10 * time.Second

func openShelf(ctx context.Context, st *store.Store) (shelf, error) {
	if st == nil {
		return shelf{journal.NewMemory(), journal.NewMemoryBlobs(), true, memorySlow}, nil
	}
	l, err := st.Log(ctx, store.LogOptions{Name: logName, Subjects: []string{subjectPrefix + ">"}})
	if err != nil {
		return shelf{}, fmt.Errorf("open the conversations: %w", err)
	}
	blobs, err := st.Blobs(ctx, "chatblob")
	if err != nil {
		return shelf{}, fmt.Errorf("open the blobs of conversations: %w", err)
	}
	return shelf{l, blobs, st.Alone(), 2 * st.Timeout()}, nil
}

// whole returns the event of an entry, which may have to be read.
func (b *book) whole(ctx context.Context, x *entity, en *entry, at journal.Place) (*Event, error) {
	if en.event != nil {
		return en.event, nil
	}
	if !en.kind.known() { // a later release wrote it, and knows what it says
		return &Event{Seq: en.seq, Time: en.time, Type: en.kind}, nil
	}
	data := en.raw
	if at.Blob != "" {
		var err error
		if data, err = x.Data(ctx, at); err != nil && !errors.Is(err, journal.ErrNotFound) {
			return nil, err
		}
	}
	ev := &Event{}
	if err := json.Unmarshal(data, ev); err != nil {
		b.log.Error("an event of a conversation cannot be read", obs.KeySession, obs.Short(b.id), "seq", en.seq, obs.KeyErr, err)
		return unreadable(en.seq, en.time), nil
	}
	return ev, nil
}

// unreadable stands for an event that cannot be read: the rest of the
// conversation is worth having, and its numbers have no gap.
func unreadable(seq uint64, at time.Time) *Event {
	return &Event{Seq: seq, Time: at, Type: Noted, Note: &Note{Kind: NoteLost, Text: "Something that happened here cannot be read any more."}}
}

// replay calls fn with the events after a position, in their order.
func (b *book) replay(ctx context.Context, after Position, fn func(ev *Event, place uint64) error) error {
	next := after.Seq + 1
	return b.x.Replay(ctx, after.place+1, func(en *entry, _ []byte, at journal.Place) error {
		if en.seq < next {
			return nil
		}
		for ; next < en.seq; next++ {
			if err := fn(unreadable(next, en.time), at.Seq-1); err != nil {
				return err
			}
		}
		ev, err := b.whole(ctx, b.x, en, at)
		if err != nil {
			return err
		}
		next++
		return fn(ev, at.Seq)
	})
}
