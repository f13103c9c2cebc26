package plan

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/obs"
)

// Start is what a run begins with.
type Start struct {
	By actor.Actor // on whose behalf
	// Publisher is who published the plan; nil if it is not run as a published one.
	Publisher *actor.Actor
	// Again is the run whose plan it is, if one is run again: what bounded it
	// bounds this one too, as it does a fork.
	Again *Run
	// Author is who wrote the plan, if a kept one is run: it bounds the run, unless
	// it is By itself.
	Author  *actor.Actor
	Session string // its name
	Plan    *Plan
	Inputs  map[string]json.RawMessage
	Options Options
	Breaks  []Breakpoint
	Paused  bool       // it waits to be told to begin
	Key     string     // the same key twice is the same run; empty: no key
	Open    bool       // for Check: inputs may be lacking
	Trace   obs.Parent // what the run is part of
}

// Start begins a run, after all that can be checked has been.
func (r *Runs) Start(ctx context.Context, s Start) (*Run, error) {
	if s.Key != "" {
		run, done, err := r.byKey(ctx, s)
		if run != nil || err != nil {
			return run, err
		}
		defer done()
	}
	steered, err := s.inherit()
	if err != nil {
		return nil, err
	}
	inputs, err := r.Check(ctx, s)
	if err != nil {
		return nil, err
	}
	created := &Created{Steered: steered, Trace: r.traced(ctx, s.Trace), Run: newID(), Plan: *s.Plan, Options: s.Options, Session: s.Session, Owner: s.By.Name(), Actor: s.By.Record(), Paused: s.Paused, Key: s.Key, Inputs: map[string]Data{}, Breaks: s.Breaks}
	if s.Publisher != nil {
		created.Publisher = s.Publisher.Record()
	}
	return r.begin(ctx, created, inputs, nil)
}

// inherit returns on whose behalf else the run makes its calls: that of who wrote
// its plan, or what the run whose plan is run again was bounded by. It takes over
// the publisher of that one.
func (s *Start) inherit() ([]*actor.Record, error) {
	if s.Again == nil {
		if s.Author == nil || s.By.Steered(*s.Author).Equal(s.By) {
			return nil, nil
		}
		return []*actor.Record{s.Author.Record()}, nil
	}
	s.Again.lock()
	defer s.Again.unlock()
	c := &s.Again.state.Created
	find := s.Again.of.o.Principal
	if c.Publisher != nil {
		p, err := actor.Restore(c.Publisher, c.Owner, find)
		if err != nil {
			return nil, nobody(s.Again.id, "the run cannot be run again", err)
		}
		s.Publisher = &p
	}
	was, err := actor.Restore(c.Actor, c.Owner, find)
	if err != nil {
		return nil, nobody(s.Again.id, "the run cannot be run again", err)
	}
	steered := slices.Concat(c.Steered, s.Again.state.Steered)
	if !s.By.Steered(was).Equal(s.By) {
		steered = append(steered, was.Record())
	}
	return steered, nil
}

// actor is on whose behalf the calls of a run would be made.
func (s *Start) actor() actor.Actor { return s.By.By(actor.ByRun("", s.Publisher)) }

// Check says everything that would keep a run from being made, and returns its
// inputs with defaults.
func (r *Runs) Check(ctx context.Context, s Start) (map[string]json.RawMessage, error) {
	if _, err := s.inherit(); err != nil {
		return nil, err
	}
	sess, err := r.session(s.By.Name(), s.Session)
	if err != nil {
		return nil, err
	}
	problems := Check(s.Plan, func(name string) bool { _, err := sess.Value(name); return err == nil })
	inputs, wrong := CheckInputs(s.Plan, s.Inputs)
	if s.Open {
		wrong = slices.DeleteFunc(wrong, func(p Problem) bool {
			return s.Inputs[strings.TrimPrefix(p.Pointer, "/")] == nil && isInput(s.Plan, p.Pointer)
		})
	}
	for i := range wrong {
		wrong[i].Pointer = "/inputs" + wrong[i].Pointer
	}
	find := func(name string) (Tool, error) { return r.o.Find(ctx, s.actor(), s.Session, name) }
	problems = merge(append(problems, wrong...), Preflight(s.Plan, find, knownInputs(inputs)))
	problems = append(problems, checkBreaks(s.Plan, s.Breaks)...)
	if len(problems) > 0 {
		return nil, &Problems{List: problems}
	}
	return inputs, nil
}

// Tools finds tools as a run of an actor's plan would.
func (r *Runs) Tools(ctx context.Context, by actor.Actor, session string) Lookup {
	return func(name string) (Tool, error) { return r.o.Find(ctx, by.By(actor.ByRun("", nil)), session, name) }
}

// isInput says whether a pointer of CheckInputs is to an input of the plan.
func isInput(p *Plan, pointer string) bool {
	return slices.ContainsFunc(p.Inputs, func(in Input) bool { return "/"+in.Name == pointer })
}

// traced is what a new run is part of. A span says that it begins, which those
// of the run are below, whichever hub drives it.
func (r *Runs) traced(ctx context.Context, p obs.Parent) obs.Parent {
	if r.o.Tracer == nil {
		if p.Trace() == "" {
			return obs.Parent{}
		}
		return p
	}
	_, span := r.o.Tracer.Start(ctx, "begin run", p)
	span.End("")
	return span.Parent()
}

func newID() string { return "run_" + rand.Text()[:20] }

// begin writes the first event of a run and drives it. pins are results that
// are taken over, by step.
func (r *Runs) begin(ctx context.Context, c *Created, inputs, pins map[string]json.RawMessage) (*Run, error) {
	sess, err := r.session(c.Owner, c.Session)
	if err != nil {
		return nil, err
	}
	run := r.newRun(r.journal.At(sess.ID() + "." + c.Run))
	if err := run.created(ctx, c, inputs, pins); err != nil {
		r.abandon(context.WithoutCancel(ctx), run)
		return nil, err
	}
	r.drive(run)
	r.trim(run)
	return run, nil
}

// created writes the first event of a run.
func (r *Run) created(ctx context.Context, c *Created, inputs, pins map[string]json.RawMessage) error {
	// All of it is one entry, which has room for so much of each.
	most := min(inline, journal.MaxEntry/4/max(len(inputs)+len(pins), 1))
	put := func(into map[string]Data, from map[string]json.RawMessage) error {
		for name, raw := range from {
			d, err := r.putOver(ctx, raw, most)
			if err != nil {
				return err
			}
			into[name] = *d
		}
		return nil
	}
	if len(pins) > 0 {
		c.Pinned = map[string]Data{}
	}
	if err := cmp.Or(put(c.Inputs, inputs), put(c.Pinned, pins)); err != nil {
		return err
	}
	r.of.mu.Lock()
	if r.of.closing {
		r.of.mu.Unlock()
		return fault.New(fault.Unreachable, "plan", "the hub is stopping")
	}
	r.of.all[r.id] = r
	r.of.mu.Unlock()
	return r.locked(func() error {
		err := r.record(ctx, Event{Type: RunCreated, Created: c, By: r.of.name})
		if err == nil {
			r.of.index(r)
		}
		return err
	})
}

// abandon removes what there is of a run that could not be begun: what nobody
// was told of must not be taken up.
func (r *Runs) abandon(ctx context.Context, run *Run) {
	run.lock()
	run.leave()
	r.unlist(run)
	run.unlock()
	_, err := run.x.Latest(ctx)
	if err == nil {
		err = run.x.Remove(ctx, nil)
	}
	if err == nil {
		err = r.blobs.Purge(ctx, run.id)
	}
	if err != nil {
		r.o.Logger.Warn("forget a run that was not begun", "run", run.id, "err", err)
	}
}

func keyOf(owner, key string) string { return owner + "\x00" + key }

// index makes a run be found by its key. The run is locked.
func (r *Runs) index(run *Run) {
	c := &run.state.Created
	if c.Key == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[keyOf(c.Owner, c.Key)] = run
}

// byKey finds the run that was begun with a key, once whoever begins one with
// it has done so. If there is none, the caller is who begins it, until done.
func (r *Runs) byKey(ctx context.Context, s Start) (run *Run, done func(), err error) {
	key := keyOf(s.By.Name(), s.Key)
	for {
		r.mu.Lock()
		run, other := r.keys[key], r.starting[key]
		if run == nil && other == nil {
			mine := make(chan struct{})
			r.starting[key] = mine
			r.mu.Unlock()
			return nil, func() {
				r.mu.Lock()
				delete(r.starting, key)
				r.mu.Unlock()
				close(mine)
			}, nil
		}
		r.mu.Unlock()
		if run != nil {
			return run, nil, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}
