package plan

import (
	"context"
	"fmt"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/wire"
)

// ArgBytes bounds the arguments of a call with their references resolved. The
// config may change it while runs go on.
func (r *Runs) ArgBytes() int {
	if r.o.ArgBytes == nil {
		return 8 << 20
	}
	return r.o.ArgBytes()
}

// open looks at the condition and the list of a step that can begin.
func (r *Run) open(ctx context.Context, id string) error {
	s := r.state.step(id)
	holds, err := s.When.Holds(r.maybe(ctx))
	if flawed(err) {
		return r.broken(ctx, id, failure(err))
	}
	if err != nil {
		return err
	}
	if !holds {
		return r.record(ctx, Event{Type: StepSkipped, Step: id, Reason: "its condition does not hold"})
	}
	if s.ForEach == nil {
		return r.record(ctx, Event{Type: StepOpened, Step: id, Items: 1})
	}
	list, n, flaw, err := r.list(ctx, s.ForEach)
	if err != nil {
		return err
	}
	if flaw == nil {
		return r.record(ctx, Event{Type: StepOpened, Step: id, Items: n, List: list})
	}
	return r.broken(ctx, id, flaw)
}

// broken records that a step failed before it called anything.
func (r *Run) broken(ctx context.Context, id string, flaw *Failure) error {
	if err := r.record(ctx, Event{Type: StepOpened, Step: id, Items: 1}); err != nil {
		return err
	}
	return r.record(ctx, Event{Type: CallFailed, Step: id, Failure: flaw})
}

// flawed says whether an error is the plan's or its data's, so that trying
// again later is of no use.
func flawed(err error) bool {
	if err == nil {
		return false
	}
	switch fault.Of(err).Kind {
	case fault.BadReference, fault.Limit, fault.InvalidArguments:
		return true
	}
	return false
}

// list is what a forEach goes through.
func (r *Run) list(ctx context.Context, f *ForEach) (*Data, int, *Failure, error) {
	ref, _ := session.ParseReference(f.In)
	raw, err := r.values(ctx, nil)(ref)
	if err != nil {
		if flawed(err) {
			return nil, 0, failure(err), nil
		}
		return nil, 0, nil, err
	}
	elements, ok := wire.Elements(raw)
	switch {
	case !ok:
		return nil, 0, &Failure{Kind: fault.InvalidArguments.String(), Message: f.In + " is no array", Hint: "forEach goes through the elements of one."}, nil
	case len(elements) > f.Cap():
		return nil, 0, &Failure{Kind: fault.Limit.String(), Message: fmt.Sprintf("%s has %d items; at most %d are allowed", f.In, len(elements), f.Cap()), Hint: "Raise max of forEach, or take fewer."}, nil
	}
	d, err := r.put(ctx, raw)
	return d, len(elements), nil, err
}

// keep makes the outputs of a step values of the Session.
func (r *Run) keep(ctx context.Context, id string) error {
	c := &r.state.Created
	step := r.state.step(id)
	s, err := r.of.session(c.Owner, c.Session)
	if err != nil {
		return err
	}
	var author *actor.Record // not known if that cannot be found out now, which counts as a model's
	if by, err := r.actor(); err == nil {
		author = by.Record()
	}
	e := Event{Type: StepKept, Step: id}
	for _, name := range step.Outputs {
		raw, err := r.output(ctx, id, name)
		if err == nil {
			_, _, err = s.Put(ctx, session.New{Name: name, Data: raw, Description: fmt.Sprintf("output of %s in %s", id, r.id), By: "plan", Author: author, Origin: &session.Origin{Tool: step.Called()}})
		}
		if k := fault.Of(err); err != nil && k.Kind == fault.Storage {
			return err
		}
		if err != nil {
			e.Reason = "kept in the run only: " + fault.Of(err).Text()
		}
	}
	return r.record(ctx, e)
}
