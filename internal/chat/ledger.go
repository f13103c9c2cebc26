package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/wire"
)

// ledger is where the events of one conversation are kept: in the store, or in
// the memory of a hub that keeps nothing. Its places are not numbers of events,
// but grow with them.
type ledger interface {
	// append adds an event if the last place is expect (0 means none), and
	// returns its place. Else it is a *store.Conflict.
	append(ctx context.Context, ev *Event, expect uint64) (uint64, error)
	// scan calls fn with the events after a place.
	scan(ctx context.Context, after uint64, fn func(ev *Event, place uint64) error) error
	purge(ctx context.Context) error
}

const (
	logName       = "chat"
	subjectPrefix = "evt.chat."
	subjectSuffix = ".e"
	// inEntry is how large an event may be in an entry; a larger one is a blob.
	inEntry = store.MaxEntry - 4<<10
)

func subject(id string) string { return subjectPrefix + id + subjectSuffix }

// disk is the part of the store that holds conversations.
type disk struct {
	log   *store.Log
	blobs *store.Blobs
}

func openDisk(ctx context.Context, st *store.Store) (*disk, error) {
	l, err := st.Log(ctx, store.LogOptions{Name: logName, Subjects: []string{subjectPrefix + ">"}})
	if err != nil {
		return nil, fmt.Errorf("open the conversations: %w", err)
	}
	blobs, err := st.Blobs(ctx, "chatblob")
	if err != nil {
		return nil, fmt.Errorf("open the blobs of conversations: %w", err)
	}
	return &disk{l, blobs}, nil
}

// found is what a look through the log says of a conversation.
type found struct {
	principal, session string // whose it is; empty if the first input is a blob
	began, used        time.Time
	busy               bool // a turn has not ended, or an input waits
}

// survey looks through the whole log without making events of it.
func (d *disk) survey(ctx context.Context) (map[string]*found, error) {
	out := map[string]*found{}
	waiting := map[string]int{}
	err := d.log.Scan(ctx, "", 0, func(e store.Entry) error {
		id := strings.TrimSuffix(strings.TrimPrefix(e.Subject, subjectPrefix), subjectSuffix)
		f := out[id]
		if f == nil {
			f = &found{began: e.Time}
			out[id] = f
		}
		f.used = e.Time
		kind, _ := wire.String(wire.Get(e.Data, "type"))
		switch Type(kind) {
		case InputAdded:
			waiting[id]++
			if in := wire.Get(e.Data, "input"); f.principal == "" && in != nil {
				f.principal, _ = wire.String(wire.Get(in, "principal"))
				f.session, _ = wire.String(wire.Get(in, "session"))
			}
		case InputDropped, TurnEnded:
			waiting[id]--
		}
		f.busy = waiting[id] > 0
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look through the conversations: %w", err)
	}
	return out, nil
}

// stored is a conversation in the store.
type stored struct {
	*disk
	id string
}

// bulky is the entry of an event that is a blob.
type bulky struct {
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"ts"`
	Type Type      `json:"type"`
	Blob string    `json:"blob"`
}

func (s *stored) append(ctx context.Context, ev *Event, expect uint64) (uint64, error) {
	data, err := json.Marshal(ev)
	if err != nil {
		return 0, fmt.Errorf("conversation %s: write event %d: %w", s.id, ev.Seq, err)
	}
	if len(data) > inEntry {
		hash, err := s.blobs.Put(ctx, s.id, data)
		if err != nil {
			return 0, fmt.Errorf("conversation %s: keep event %d: %w", s.id, ev.Seq, err)
		}
		if data, err = json.Marshal(bulky{ev.Seq, ev.Time, ev.Type, hash}); err != nil {
			return 0, err
		}
	}
	place, err := s.log.Append(ctx, subject(s.id), data, expect)
	if _, conflict := errors.AsType[*store.Conflict](err); !conflict && !errors.Is(err, store.ErrUncertain) {
		return place, err
	}
	// It may be there, and only the answer was lost.
	last, lerr := s.log.Last(ctx, subject(s.id))
	switch {
	case lerr == nil && bytes.Equal(last.Data, data):
		return last.Seq, nil
	case lerr != nil && !errors.Is(lerr, store.ErrNotFound):
		return 0, err
	}
	conflict := &store.Conflict{Subject: subject(s.id), Expected: expect, Last: last.Seq}
	if last.Seq != expect {
		return 0, conflict
	}
	// Nobody was first: it is not there yet, and if it never comes, what the store said is why.
	return 0, fmt.Errorf("%w (%w)", err, conflict)
}

func (s *stored) scan(ctx context.Context, after uint64, fn func(*Event, uint64) error) error {
	return s.log.Scan(ctx, subject(s.id), after+1, func(e store.Entry) error {
		data := e.Data
		if raw := wire.Get(data, "blob"); raw != nil {
			hash, _ := wire.String(raw)
			var err error
			if data, err = s.blobs.Get(ctx, s.id, hash); err != nil {
				return fmt.Errorf("conversation %s: read a large event: %w", s.id, err)
			}
		}
		var ev Event
		if err := json.Unmarshal(data, &ev); err != nil {
			return fmt.Errorf("conversation %s: read the event at %d: %w", s.id, e.Seq, err)
		}
		return fn(&ev, e.Seq)
	})
}

// purge forgets the conversation. Blobs go first: nothing would lead to them
// without the log.
func (s *stored) purge(ctx context.Context) error {
	if err := s.blobs.Purge(ctx, s.id); err != nil {
		return err
	}
	return s.log.Purge(ctx, subject(s.id))
}

// remembered is a conversation in memory; a place is the number of the event.
type remembered struct {
	mu     sync.Mutex
	events []Event
}

func (r *remembered) append(_ context.Context, ev *Event, expect uint64) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := uint64(len(r.events)); n != expect {
		return 0, &store.Conflict{Expected: expect, Last: n}
	}
	r.events = append(r.events, *ev)
	return expect + 1, nil
}

func (r *remembered) scan(_ context.Context, after uint64, fn func(*Event, uint64) error) error {
	r.mu.Lock()
	events := slices.Clip(r.events)
	r.mu.Unlock()
	for i := after; i < uint64(len(events)); i++ {
		ev := events[i]
		if err := fn(&ev, i+1); err != nil {
			return err
		}
	}
	return nil
}

func (r *remembered) purge(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = nil
	return nil
}

var (
	_ ledger = (*stored)(nil)
	_ ledger = (*remembered)(nil)
)
