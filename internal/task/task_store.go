package task

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/store"
)

// disk is where Tasks are kept.
type disk struct {
	log   *store.Log
	blobs *store.Blobs
}

const subjectPrefix = "evt.task."

// inEntry is how much data goes into an entry, beside what an event says
// itself; more is a blob.
const inEntry = store.MaxEntry - 64<<10

// read returns the Tasks that a store holds. An entry that cannot be read is
// told of and left where it is: the rest of the Task is worth having.
func (r *Registry) read(ctx context.Context, st *store.Store) (*disk, map[string]*Task, error) {
	l, err := st.Log(ctx, store.LogOptions{Name: "task", Subjects: []string{subjectPrefix + ">"}})
	if err != nil {
		return nil, nil, fmt.Errorf("open the tasks: %w", err)
	}
	blobs, err := st.Blobs(ctx, "taskblob")
	if err != nil {
		return nil, nil, fmt.Errorf("open the blobs of tasks: %w", err)
	}
	found := map[string]*Task{}
	err = l.Scan(ctx, "", 0, func(e store.Entry) error {
		id := strings.TrimPrefix(e.Subject, subjectPrefix)
		t := found[id]
		if t == nil {
			t = r.task(id)
			found[id] = t
		}
		ev, _, err := decode(e.Data)
		if err == nil {
			var next State
			if next, err = t.state.Apply(ev, e.Seq); err == nil {
				t.state = next
				return nil
			}
		}
		t.state.seq = e.Seq
		r.opts.Logger.Error("an entry of a task cannot be used", "task", id, "seq", e.Seq, "err", err)
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read the tasks: %w", err)
	}
	for id, t := range found {
		if t.state.Status == "" {
			r.opts.Logger.Error("a task cannot be used: the entry that says what it is cannot be read", "task", id)
			delete(found, id)
		}
	}
	return &disk{l, blobs}, found, nil
}

// on returns the disk, opening it if that was put off.
func (r *Registry) on(ctx context.Context) (*disk, error) {
	r.openMu.Lock()
	defer r.openMu.Unlock()
	if r.disk != nil {
		return r.disk, nil
	}
	if r.opts.Store == nil {
		return nil, fault.New(fault.Internal, "task", "this hub keeps no tasks")
	}
	st, err := r.opts.Store(ctx)
	if err != nil {
		return nil, err
	}
	d, found, err := r.read(ctx, st)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	for id, t := range found {
		r.tasks[id] = t
	}
	r.mu.Unlock()
	r.disk = d
	return d, nil
}

// decision is what to append to a Task in the state that it is in, and its
// data. A nil event means that there is nothing to do.
type decision func(State) (*Event, []byte, error)

// tries is how often an append is tried when somebody else wrote, or no answer
// came.
const tries = 8

// commit decides and appends, and returns the state that follows. It does not
// heed the end of ctx: who goes away in the middle would leave it open whether
// it was written.
func (t *Task) commit(ctx context.Context, decide decision) (State, error) {
	ctx = context.WithoutCancel(ctx)
	d, err := t.r.on(ctx)
	if err != nil {
		return State{}, err
	}
	t.write.Lock()
	defer t.write.Unlock()
	for range tries {
		now := t.State()
		ev, data, derr := decide(now)
		if derr != nil || ev == nil {
			return now, derr
		}
		ev.ID, ev.Time = rand.Text(), time.Now().UTC()
		var next State
		if next, err = t.append(ctx, d, now, ev, data); err == nil {
			t.set(next)
			return next, nil
		}
		if _, conflict := errors.AsType[*store.Conflict](err); !conflict && !errors.Is(err, store.ErrUncertain) {
			return now, err
		}
		if err := t.reread(ctx, d); err != nil {
			return now, err
		}
		if t.last == ev.ID { // it was stored, only the answer was lost
			return t.State(), nil
		}
	}
	return t.State(), fmt.Errorf("task %s: note %w", t.ID(), err)
}

// append writes one event. Called with write held.
func (t *Task) append(ctx context.Context, d *disk, now State, ev *Event, data []byte) (State, error) {
	if len(data) > inEntry {
		hash, err := d.blobs.Put(ctx, t.ID(), data)
		if err != nil {
			return now, fmt.Errorf("task %s: keep its data: %w", t.ID(), err)
		}
		ev.Blob, data = hash, nil
	}
	// What cannot follow must not be written.
	if _, err := now.Apply(ev, now.seq+1); err != nil {
		return now, err
	}
	entry, err := ev.encode(data)
	if err != nil {
		return now, err
	}
	seq, err := d.log.Append(ctx, subjectPrefix+t.ID(), entry, now.seq)
	if err != nil {
		return now, err
	}
	t.last = ev.ID
	return now.Apply(ev, seq)
}

// reread makes the state that of the log. Called with write held.
func (t *Task) reread(ctx context.Context, d *disk) error {
	fresh := State{ID: t.ID()}
	last := ""
	err := d.log.Scan(ctx, subjectPrefix+t.ID(), 0, func(e store.Entry) error {
		ev, _, err := decode(e.Data)
		if err == nil {
			last = ev.ID
			var next State
			if next, err = fresh.Apply(ev, e.Seq); err == nil {
				fresh = next
			}
		}
		fresh.seq = e.Seq
		return nil
	})
	if err != nil {
		return fmt.Errorf("task %s: read it again: %w", t.ID(), err)
	}
	t.last = last
	t.set(fresh)
	return nil
}

// data reads what belongs to an event.
func (t *Task) data(ctx context.Context, p piece) ([]byte, error) {
	d, err := t.r.on(ctx)
	if err != nil {
		return nil, err
	}
	if p.blob != "" {
		b, err := d.blobs.Get(ctx, t.ID(), p.blob)
		if err != nil {
			return nil, fmt.Errorf("task %s: read its data: %w", t.ID(), err)
		}
		return b, nil
	}
	e, err := d.log.Read(ctx, p.seq)
	if err != nil {
		return nil, fmt.Errorf("task %s: read its data: %w", t.ID(), err)
	}
	_, data, err := decode(e.Data)
	return data, err
}

// purge forgets a Task.
func (r *Registry) purge(ctx context.Context, t *Task) error {
	d, err := r.on(ctx)
	if err != nil {
		return err
	}
	t.write.Lock()
	defer t.write.Unlock()
	if err := d.log.Purge(ctx, subjectPrefix+t.ID()); err != nil {
		return err
	}
	if err := d.blobs.Purge(ctx, t.ID()); err != nil {
		return err
	}
	r.mu.Lock()
	delete(r.tasks, t.ID())
	r.mu.Unlock()
	return nil
}
