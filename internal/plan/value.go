package plan

import (
	"context"
	"encoding/json"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/wire"
)

// values returns what references stand for: inputs and results of the run,
// then values of the Session. item is what the step's item is called and is.
func (r *Run) values(ctx context.Context, item map[string][]byte) func(session.Reference) ([]byte, error) {
	return func(ref session.Reference) ([]byte, error) {
		raw, known, err := r.value(ctx, ref, item)
		if err != nil || !known {
			return raw, err
		}
		if raw == nil {
			return nil, fault.New(fault.BadReference, "", "there is no @%s: its step has no result", ref.Name)
		}
		return session.Dig(raw, ref.Path)
	}
}

// maybe is values for conditions: what is not there is nothing.
func (r *Run) maybe(ctx context.Context) func(session.Reference) ([]byte, error) {
	values := r.values(ctx, nil)
	return func(ref session.Reference) ([]byte, error) {
		raw, err := values(ref)
		if fault.Is(err, fault.BadReference) {
			return nil, nil
		}
		return raw, err
	}
}

// value finds what a name of the run stands for. known is false if the
// reference was to a value outside it, with its path applied.
func (r *Run) value(ctx context.Context, ref session.Reference, item map[string][]byte) (raw []byte, known bool, err error) {
	c := &r.state.Created
	if ref.Session == "" {
		if raw, ok := item[ref.Name]; ok {
			return raw, true, nil
		}
		if d, ok := c.Inputs[ref.Name]; ok {
			raw, err := r.get(ctx, &d)
			return raw, true, err
		}
		for _, in := range c.Plan.Inputs {
			if in.Name == ref.Name {
				return []byte("null"), true, nil // optional, and not given
			}
		}
		if id := c.Plan.Owner(ref.Name); id != "" {
			raw, err := r.output(ctx, id, ref.Name)
			return raw, true, err
		}
	}
	s, err := r.of.session(c.Owner, c.Session)
	if err != nil {
		return nil, false, err
	}
	text, err := json.Marshal(ref.String())
	if err != nil {
		return nil, false, err
	}
	raw, _, err = r.of.o.Sessions.Resolve(ctx, c.Owner, s, text, r.of.ArgBytes(), nil)
	return raw, false, err
}

// result is what a step yielded; nil if it has no result.
func (r *Run) result(ctx context.Context, id string) ([]byte, error) {
	st := r.state.Steps[id]
	switch {
	case st.Phase != StepDone:
		return nil, nil
	case st.Pinned != nil:
		return r.get(ctx, st.Pinned)
	case !st.each:
		return r.get(ctx, st.Items[0].Result)
	}
	if all := r.cache[id]; all != nil {
		return all, nil
	}
	all := []byte("[")
	for i := range st.Items {
		raw, err := r.get(ctx, st.Items[i].Result)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			all = append(all, ',')
		}
		all = append(all, raw...)
	}
	all = append(all, ']')
	r.cache[id] = all
	return all, nil
}

// output is what a name that a step owns stands for.
func (r *Run) output(ctx context.Context, id, name string) ([]byte, error) {
	raw, err := r.result(ctx, id)
	if err != nil || raw == nil || name == id {
		return raw, err
	}
	if outs := r.state.step(id).Outputs; len(outs) > 1 {
		part, err := session.Dig(raw, []session.Step{session.Member(name)})
		if err != nil {
			return nil, fault.New(fault.BadReference, "", "the result of %s has no member %s", id, name)
		}
		return part, nil
	}
	return raw, nil
}

// item is what the item of a step is called and is.
func (r *Run) item(ctx context.Context, s *Step, n int) (map[string][]byte, error) {
	if s.ForEach == nil {
		return nil, nil
	}
	elements := r.lists[s.ID]
	if elements == nil {
		raw, err := r.get(ctx, r.state.Steps[s.ID].List)
		if err != nil {
			return nil, err
		}
		elements, _ = wire.Elements(raw)
		r.lists[s.ID] = elements
	}
	if n >= len(elements) {
		return nil, nil
	}
	return map[string][]byte{s.ForEach.As: elements[n]}, nil
}

// arguments are those of a call, with their references resolved.
func (r *Run) arguments(ctx context.Context, d Do) (tool string, args []byte, err error) {
	s := r.state.step(d.Step)
	tool, raw := s.Called(), s.Args
	switch d.Kind {
	case FallbackCall:
		tool, raw = s.Fallback.Tool, s.Fallback.Args
	case UndoCall:
		tool, raw = s.Compensate.Tool, s.Compensate.Args
	default:
		it := &r.state.Steps[d.Step].Items[d.Item]
		said := it.Edited
		if it.Allowed && it.Phase == ItemPending && it.Shown != nil {
			said = it.Shown
		}
		if said != nil {
			args, err = r.get(ctx, said)
			return tool, args, err
		}
	}
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	item, err := r.item(ctx, s, d.Item)
	if err != nil {
		return "", nil, err
	}
	args, _, err = session.Resolve(raw, r.of.ArgBytes(), r.values(ctx, item))
	return tool, args, err
}
