package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/store"
)

const subjectPrefix = "evt.plan."

// inline is how much data an event holds itself; more is a blob.
const inline = 32 << 10

// disk is where journals are kept; nil in hubs that keep nothing.
type disk struct {
	log    *store.Log
	blobs  *store.Blobs
	leases *store.Bucket
}

func openDisk(ctx context.Context, st *store.Store) (*disk, error) {
	l, err := st.Log(ctx, store.LogOptions{Name: "plan", Subjects: []string{subjectPrefix + ">"}})
	if err != nil {
		return nil, fmt.Errorf("open the journals of runs: %w", err)
	}
	blobs, err := st.Blobs(ctx, "planblob")
	if err != nil {
		return nil, fmt.Errorf("open the data of runs: %w", err)
	}
	leases, err := st.Bucket(ctx, store.BucketOptions{Name: "planlease"})
	if err != nil {
		return nil, fmt.Errorf("open the leases of runs: %w", err)
	}
	return &disk{l, blobs, leases}, nil
}

// subjectOf names the journal of a run, by the Session that it belongs to.
func subjectOf(session, run string) string { return subjectPrefix + session + "." + run }

// split takes the subject of a journal apart.
func split(subject string) (session, run string) {
	session, run, _ = strings.Cut(strings.TrimPrefix(subject, subjectPrefix), ".")
	return session, run
}

// journal is that of one run. Its user holds a lock.
type journal struct {
	disk    *disk
	session string // the id of the Session, which owns the blobs
	subject string
	seq     uint64  // the last of the journal; what the next append expects
	kept    []Event // where there is no disk, so that the run can be exported
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

// append writes an event. It is on disk when append returns without error.
func (j *journal) append(ctx context.Context, e Event) error {
	if j.disk == nil {
		j.kept = append(j.kept, e)
		return nil
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	if len(raw) > store.MaxEntry {
		return fault.New(fault.Limit, "plan", "an event of the run has %d bytes; more than %d cannot be kept", len(raw), store.MaxEntry)
	}
	seq, err := j.disk.log.Append(ctx, j.subject, raw, j.seq)
	if errors.Is(err, store.ErrUncertain) {
		seq, err = j.look(ctx, raw, err)
	}
	var conflict *store.Conflict
	if errors.As(err, &conflict) {
		return errStale
	}
	if err != nil {
		return err
	}
	j.seq = seq
	return nil
}

// look finds out whether an append of which no answer came took effect.
func (j *journal) look(ctx context.Context, raw []byte, uncertain error) (uint64, error) {
	last, err := j.disk.log.Last(ctx, j.subject)
	switch {
	case errors.Is(err, store.ErrNotFound) && j.seq == 0:
		return 0, uncertain
	case err != nil:
		return 0, uncertain
	case last.Seq == j.seq:
		return 0, uncertain // it did not; the caller tries again
	case string(last.Data) == string(raw):
		return last.Seq, nil
	}
	return 0, errStale
}

// put makes data of JSON.
func (j *journal) put(ctx context.Context, raw []byte) (*Data, error) {
	return j.putOver(ctx, raw, inline)
}

// putOver is put where what is longer than most becomes a blob.
func (j *journal) putOver(ctx context.Context, raw []byte, most int) (*Data, error) {
	d := &Data{Size: len(raw)}
	if len(raw) <= most || j.disk == nil {
		d.Value = append(json.RawMessage(nil), raw...)
		return d, nil
	}
	hash, err := j.disk.blobs.Put(ctx, j.session, raw)
	d.Blob = hash
	return d, err
}

// get returns the JSON of data.
func (j *journal) get(ctx context.Context, d *Data) ([]byte, error) {
	if d == nil {
		return nil, nil
	}
	if d.Blob == "" {
		return d.Value, nil
	}
	return j.disk.blobs.Get(ctx, j.session, d.Blob)
}

// read returns the events of a journal and the sequence of the last.
func (d *disk) read(ctx context.Context, subject string) ([]Event, uint64, error) {
	var events []Event
	var seq uint64
	err := d.log.Scan(ctx, subject, 0, func(e store.Entry) error {
		var ev Event
		if err := json.Unmarshal(e.Data, &ev); err != nil {
			return fmt.Errorf("entry %d of the journal cannot be read: %w", e.Seq, err)
		}
		events, seq = append(events, ev), e.Seq
		return nil
	})
	return events, seq, err
}

// Journal calls fn with the events of a run, in their order. Data that is kept
// apart is put in its place, so that what fn gets is all there is.
func (r *Run) Journal(ctx context.Context, fn func(Event) error) error {
	r.mu.Lock()
	j := r.journal
	r.mu.Unlock()
	events := j.kept
	if j.disk != nil {
		var err error
		if events, _, err = j.disk.read(ctx, j.subject); err != nil {
			return err
		}
	}
	for _, e := range events {
		if err := j.fill(ctx, &e); err != nil {
			return err
		}
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

// fill puts the data of an event in the place of the hashes. What the event
// shares with others is not touched.
func (j *journal) fill(ctx context.Context, e *Event) error {
	for _, d := range []**Data{&e.List, &e.Args, &e.Result} {
		if *d == nil || (*d).Blob == "" {
			continue
		}
		raw, err := j.get(ctx, *d)
		if err != nil {
			return err
		}
		*d = &Data{Value: raw, Size: (*d).Size}
	}
	if e.Created == nil {
		return nil
	}
	c := *e.Created
	for _, all := range []*map[string]Data{&c.Inputs, &c.Pinned} {
		full := make(map[string]Data, len(*all))
		for name, d := range *all {
			raw, err := j.get(ctx, &d)
			if err != nil {
				return err
			}
			full[name] = Data{Value: raw, Size: d.Size}
		}
		*all = full
	}
	e.Created = &c
	return nil
}
