package task

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/store"
)

const subjectPrefix = "evt.task."

// inEntry is how much data goes into an entry, beside what an event says
// itself; more is a blob.
const inEntry = store.MaxEntry - 64<<10

type (
	book   = journal.Journal[State, Event]
	entity = journal.Entity[State, Event]
)

// kind says what a Task is to the journal.
func (r *Registry) kind() journal.Kind[State, Event] {
	return journal.Kind[State, Event]{
		Subjects: subjectPrefix + "*", Inline: inEntry,
		New:    func(id string) State { return State{ID: id} },
		Encode: encode, Decode: decode,
		Apply: func(s State, e *Event, at journal.Place) (State, []journal.Spare, error) {
			next, err := s.Apply(e, at)
			return next, nil, err
		},
		Blobs:   func(s State) []string { return s.blobs },
		Changed: r.changed,
	}
}

// openBook reads the Tasks that a store holds.
func (r *Registry) openBook(ctx context.Context, st *store.Store) (*book, error) {
	l, err := st.Log(ctx, store.LogOptions{Name: "task", Subjects: []string{subjectPrefix + ">"}})
	if err != nil {
		return nil, fmt.Errorf("open the tasks: %w", err)
	}
	blobs, err := st.Blobs(ctx, "taskblob")
	if err != nil {
		return nil, fmt.Errorf("open the blobs of tasks: %w", err)
	}
	b, err := journal.Open(ctx, l, blobs, r.kind(), journal.Options{Logger: r.opts.Logger, Alone: st.Alone()})
	if err != nil {
		return nil, fmt.Errorf("read the tasks: %w", err)
	}
	b.Each(func(x *entity) {
		if x.State().Status == "" {
			r.opts.Logger.Error("a task cannot be used: the entry that says what it is cannot be read", "task", x.Key())
			return
		}
		r.wrap(x)
	})
	return b, nil
}

// on returns the journal, opening it if that was put off.
func (r *Registry) on(ctx context.Context) (*book, error) {
	r.openMu.Lock()
	defer r.openMu.Unlock()
	if b := r.book.Load(); b != nil {
		return b, nil
	}
	if r.opts.Store == nil {
		return nil, fault.New(fault.Internal, "task", "this hub keeps no tasks")
	}
	st, err := r.opts.Store(ctx)
	if err != nil {
		return nil, err
	}
	b, err := r.openBook(ctx, st)
	if err != nil {
		return nil, err
	}
	r.book.Store(b)
	b.Follow()
	return b, nil
}

// wrap returns the Task of an entity, making it if it is not known yet.
func (r *Registry) wrap(x *entity) *Task {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tasks[x.Key()]
	if t == nil {
		t = r.task(x.Key())
		t.state = x.State()
		r.tasks[t.id] = t
	}
	return t
}

// changed takes note of what happened to a Task, here or in another hub.
func (r *Registry) changed(x *entity, e *Event, _ journal.Place) {
	if e == nil {
		r.mu.Lock()
		t := r.tasks[x.Key()]
		delete(r.tasks, x.Key())
		r.mu.Unlock()
		if t != nil {
			t.set(State{ID: x.Key()})
			t.cancel(errForgotten)
		}
		return
	}
	if x.State().Status == "" {
		return // nobody knows what it is: only what a later release says of it is there
	}
	t := r.wrap(x)
	t.set(x.State())
	switch s := t.State(); {
	case e.Kind == taken && e.By != r.leases.Hub():
		t.stop(errTaken)
	case s.Status == Cancelled:
		t.cancel(fault.New(fault.Cancelled, s.Work.Shown, "the task was cancelled"))
	case s.Status.Final(): // by its run, or because its time is over, as any hub may say
		t.cancel(fault.New(fault.Timeout, s.Work.Shown, "the task did not end within its time to live"))
	}
}

// decision is what to append to a Task in the state that it is in, and its
// data. A nil event means that there is nothing to do.
type decision func(State) (*Event, []byte, error)

// commit decides and appends, and returns the state that follows.
func (t *Task) commit(ctx context.Context, decide decision) (State, error) {
	ctx = context.WithoutCancel(ctx)
	b, err := t.r.on(ctx)
	if err != nil {
		return State{}, err
	}
	_, s, err := b.At(t.id).Commit(ctx, func(s State) (*Event, []byte, error) {
		ev, data, err := decide(s)
		if ev != nil {
			ev.ID, ev.Time = rand.Text(), time.Now().UTC()
		}
		return ev, data, err
	})
	if err != nil {
		return s, fmt.Errorf("task %s: %w", t.id, err)
	}
	return s, nil
}

// latest makes sure that all is known that was written of the Task.
func (t *Task) latest(ctx context.Context) error {
	b, err := t.r.on(ctx)
	if err != nil {
		return err
	}
	_, err = b.At(t.id).Latest(ctx)
	return err
}

// data reads what belongs to an event.
func (t *Task) data(ctx context.Context, at journal.Place) ([]byte, error) {
	b, err := t.r.on(ctx)
	if err != nil {
		return nil, err
	}
	return b.At(t.id).Data(ctx, at)
}

// purge forgets a Task.
func (r *Registry) purge(ctx context.Context, t *Task) error {
	b, err := r.on(ctx)
	if err != nil {
		return err
	}
	return b.At(t.id).Remove(ctx, nil)
}
