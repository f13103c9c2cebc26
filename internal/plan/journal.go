package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/store"
)

// The journal of a run has the subject evt.plan.SESSION.RUN, with the id of its
// Session.
const (
	subjectPrefix = "evt.plan."
	runSubjects   = subjectPrefix + "*.*"
)

// split takes the key of a run's journal apart.
func split(key string) (session, run string) {
	session, run, _ = strings.Cut(key, ".")
	return session, run
}

// inline is how much data an event holds itself; more is a blob.
const inline = 32 << 10

// entity is a run as the journal has it. Its lock is that of the Run.
type entity = journal.Entity[*State, Event]

// blobs are where the data of runs is that is too large for events.
type blobs interface {
	journal.Blobs
	// Purge removes all blobs of an owner.
	Purge(ctx context.Context, owner string) error
}

// openJournal opens the journals of runs that st holds; nil means that they end
// with the process.
func (r *Runs) openJournal(ctx context.Context, st *store.Store) error {
	r.log, r.blobs = journal.NewMemory(), journal.NewMemoryBlobs()
	if st != nil {
		l, err := st.Log(ctx, store.LogOptions{Name: "plan", Subjects: []string{subjectPrefix + ">"}})
		if err != nil {
			return fmt.Errorf("open the journals of runs: %w", err)
		}
		b, err := st.Blobs(ctx, "planblob")
		if err != nil {
			return fmt.Errorf("open the data of runs: %w", err)
		}
		r.log, r.blobs = l, b
	}
	var err error
	r.journal, err = journal.Open(ctx, r.log, nil, r.kind(), journal.Options{Logger: r.o.Logger, Alone: r.o.Alone})
	return err
}

func (r *Runs) kind() journal.Kind[*State, Event] {
	return journal.Kind[*State, Event]{
		Subjects: runSubjects,
		New:      func(string) *State { return &State{} },
		Encode:   encode,
		Decode: func(entry []byte) (*Event, []byte, string, error) {
			e := &Event{}
			// Of an event that is not known it is read what can be.
			if err := json.Unmarshal(entry, e); err != nil && (e.Type == "" || e.known()) {
				e = &Event{flaw: err} // the run cannot go on without knowing what happened
			}
			return e, nil, "", nil
		},
		Check: func(s *State, e *Event) error {
			if err := s.possible(*e); err != nil {
				return fault.New(fault.InvalidArguments, s.Created.Run, "%s", err.Error())
			}
			return nil
		},
		Apply: func(s *State, e *Event, at journal.Place) (*State, []journal.Spare, error) {
			if s.flaw != nil {
				return s, nil, nil
			}
			if s.flaw = e.flaw; s.flaw == nil {
				s.flaw = s.Apply(*e)
			}
			switch {
			case s.flaw != nil:
				s.flawed = at.Seq
			case !e.known():
				return s, nil, &journal.Unknown{Type: string(e.Type)}
			}
			return s, nil, nil
		},
		Changed: r.changed,
		Removed: func(ctx context.Context, key string) error {
			_, run := split(key)
			return r.blobs.Purge(ctx, run)
		},
	}
}

func encode(e *Event, _ []byte, _ string) ([]byte, error) {
	raw, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode an event: %w", err)
	}
	if len(raw) > journal.MaxEntry {
		return nil, fault.New(fault.Limit, "plan", "an event of the run has %d bytes; more than %d cannot be kept", len(raw), journal.MaxEntry)
	}
	return raw, nil
}

// What can keep an event from being written.
var (
	// errStale means that somebody else has written to the journal. What it
	// says is known now: decide again.
	errStale = errors.New("the journal of the run has grown meanwhile")
	// errTaken means that another hub drives the run now.
	errTaken = errors.New("another hub has taken the run over")
	// errGone means that the run is forgotten, as its Session has ended.
	errGone = errors.New("the run is forgotten")
)

// put makes data of JSON.
func (r *Run) put(ctx context.Context, raw []byte) (*Data, error) {
	return r.putOver(ctx, raw, inline)
}

// putOver is put where what is longer than most becomes a blob.
func (r *Run) putOver(ctx context.Context, raw []byte, most int) (*Data, error) {
	d := &Data{Size: len(raw)}
	if len(raw) <= most {
		d.Value = append(json.RawMessage(nil), raw...)
		return d, nil
	}
	hash, err := r.of.blobs.Put(ctx, r.id, raw)
	d.Blob, d.Own = hash, true
	return d, err
}

// get returns the JSON of data.
func (r *Run) get(ctx context.Context, d *Data) ([]byte, error) {
	switch {
	case d == nil:
		return nil, nil
	case d.Blob == "":
		return d.Value, nil
	case d.Own:
		return r.of.blobs.Get(ctx, r.id, d.Blob)
	}
	return r.of.blobs.Get(ctx, r.session, d.Blob)
}

// Journal calls fn with the events of a run, in their order. Data that is kept
// apart is put in its place, so that what fn gets is all there is.
func (r *Run) Journal(ctx context.Context, fn func(Event) error) error {
	var events []*Event
	r.lock()
	err := r.held.Replay(ctx, 0, func(e *Event, _ []byte, _ journal.Place) error {
		events = append(events, e)
		return e.flaw
	})
	r.unlock()
	if err != nil {
		return err
	}
	for _, e := range events {
		if err := r.fill(ctx, e); err != nil {
			return err
		}
		if err := fn(*e); err != nil {
			return err
		}
	}
	return nil
}

// fill puts the data of an event in the place of the hashes.
func (r *Run) fill(ctx context.Context, e *Event) error {
	whole := func(d *Data) error {
		raw, err := r.get(ctx, d)
		if d != nil && d.Blob != "" {
			*d = Data{Value: raw, Size: d.Size}
		}
		return err
	}
	if err := errors.Join(whole(e.List), whole(e.Args), whole(e.Result)); err != nil || e.Created == nil {
		return err
	}
	for _, all := range []map[string]Data{e.Created.Inputs, e.Created.Pinned} {
		for name, d := range all {
			if err := whole(&d); err != nil {
				return err
			}
			all[name] = d
		}
	}
	return nil
}
