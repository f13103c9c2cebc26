package task

import (
	"context"
	"fmt"
	"time"

	"github.com/stoahub/stoa/internal/fault"
)

// sweepEvery is how often Tasks are looked at.
const sweepEvery = 15 * time.Second

func (r *Registry) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case now := <-tick.C:
			r.Sweep(r.ctx, now)
		}
	}
}

// Sweep ends the Tasks whose time is over at the given time, and forgets those
// that had ended before.
func (r *Registry) Sweep(ctx context.Context, now time.Time) {
	for _, t := range r.List(func(s *State) bool { return now.After(s.Expires()) }) {
		s := t.State()
		var err error
		if s.Status.Final() {
			err = r.purge(ctx, t)
		} else {
			err = t.expire(ctx)
		}
		if err != nil && ctx.Err() == nil {
			r.opts.Logger.Warn("a task whose time is over could not be ended", "task", t.ID(), "err", err)
		}
	}
}

// Forget ends and forgets the Tasks of a principal.
func (r *Registry) Forget(ctx context.Context, principal string) error {
	return r.forget(ctx, "its owner is gone", func(s *State) bool { return s.Work.Principal == principal })
}

// EndSession ends and forgets the Tasks of a Session that has been removed.
func (r *Registry) EndSession(ctx context.Context, principal, name string) error {
	return r.forget(ctx, "its session was removed", func(s *State) bool { return s.Work.Principal == principal && s.Work.Session == name })
}

// forget ends and forgets Tasks, also those that another hub has made and that
// were not heard of here yet: nobody comes back for them.
func (r *Registry) forget(ctx context.Context, why string, pass func(*State) bool) error {
	if err := r.CatchUp(ctx); err != nil {
		return err
	}
	for _, t := range r.List(pass) {
		if !t.State().Status.Final() {
			if err := t.Cancel(ctx, why); err != nil {
				return fmt.Errorf("end task %s: %w", t.ID(), err)
			}
		}
		if err := r.purge(ctx, t); err != nil {
			return fmt.Errorf("forget task %s: %w", t.ID(), err)
		}
	}
	return nil
}

// CatchUp takes in what other hubs have written until now.
func (r *Registry) CatchUp(ctx context.Context) error {
	b := r.book.Load()
	if b == nil {
		return nil
	}
	return b.Current(ctx, time.Now())
}

// expire ends a Task that took too long.
func (t *Task) expire(ctx context.Context) error {
	f := fault.New(fault.Timeout, t.State().Work.Shown, "the task did not end within its time to live")
	_, err := t.commit(ctx, func(s State) (*Event, []byte, error) {
		if s.Status.Final() {
			return nil, nil, nil
		}
		return &Event{Kind: ended, Status: Failed, Message: f.Text()}, f.Wire(true), nil
	})
	return err
}

// Counts are how many Tasks of one upstream there are.
type Counts struct {
	Working       int `json:"working"`
	InputRequired int `json:"inputRequired"`
	Completed     int `json:"completed"`
	Failed        int `json:"failed"`
	Cancelled     int `json:"cancelled"`
}

// Counts counts the Tasks of one upstream that are kept.
func (r *Registry) Counts(upstream string) (c Counts) {
	for _, t := range r.List(func(s *State) bool { return s.Work.Upstream == upstream }) {
		s := t.State()
		switch s.Status {
		case Working:
			c.Working++
		case InputRequired:
			c.InputRequired++
		case Completed:
			c.Completed++
		case Failed:
			c.Failed++
		case Cancelled:
			c.Cancelled++
		}
	}
	return c
}
