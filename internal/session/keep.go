package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/envelope"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/wire"
)

// Resolve replaces the references in the arguments of a tool, on behalf of a
// principal whose request is bound to s, or to no Session if s is nil. used
// are the values that they stood for. pins are those of an earlier round of the
// same call: what was used then is used again. A result over max bytes is a
// fault. What any hub has stored before is found.
//
// Where references are not active all text stays as it is, but for references
// that carry the name of a Session which the hub has minted.
func (r *Registry) Resolve(ctx context.Context, principal string, s *Session, args []byte, max int, pins []Used) (out []byte, used []Used, err error) {
	if !HasReference(args) {
		return args, nil, nil
	}
	if s != nil {
		if err := r.latest(ctx, s.id); err != nil {
			return nil, nil, err
		}
	}
	active := s != nil && s.Refers()
	find := r.finder(ctx, principal)
	out, _, err = resolve(args, max, active, func(ref Reference) ([]byte, error) {
		from := s
		if ref.Session != "" {
			var err error
			if from, err = find(ref.Session); err != nil {
				return nil, err
			}
			if from == nil {
				if !active && !minted(ref.Session) {
					return nil, ErrLiteral
				}
				return nil, fault.New(fault.BadReference, "", "there is no session %q, or it has ended", ref.Session)
			}
		} else if !active {
			return nil, ErrLiteral
		}
		v, data, err := from.part(ctx, ref, pins)
		if err != nil {
			return nil, err
		}
		used = note(used, Used{Session: ref.Session, Name: v.Name, Version: v.Version, Entry: v.seq})
		return data, nil
	})
	return out, used, err
}

// Author is on whose behalf a value was stored that a reference stood for, as
// Resolve told it; nil if that is not known, or not any more.
func (r *Registry) Author(principal string, s *Session, u Used) *actor.Record {
	if u.Session != "" {
		s = r.Find(principal, u.Session)
	}
	if s == nil {
		return nil
	}
	v, err := s.Version(u.Name, u.Version, u.Entry)
	if err != nil {
		return nil
	}
	return v.Author(s.Principal())
}

// finder returns what finds Sessions of a principal by their names, each as the
// log has it when it is first asked for.
func (r *Registry) finder(ctx context.Context, principal string) func(name string) (*Session, error) {
	if r.alone {
		return func(name string) (*Session, error) { return r.Find(principal, name), nil }
	}
	known := map[string]bool{}
	return func(name string) (*Session, error) {
		if !known[name] {
			if err := r.latest(ctx, ID(principal, name)); err != nil {
				return nil, err
			}
			known[name] = true
		}
		return r.Find(principal, name), nil
	}
}

// minted reports whether a name is one that Mint gives.
func minted(name string) bool { return len(name) == 28 && name[:2] == "s_" }

// part returns what a reference stands for.
func (s *Session) part(ctx context.Context, ref Reference, pins []Used) (Value, []byte, error) {
	pin := slices.IndexFunc(pins, func(p Used) bool { return p.Session == ref.Session && p.Name == ref.Name })
	for try := 0; ; try++ {
		v, err := s.Value(ref.Name)
		if pin >= 0 {
			v, err = s.Version(ref.Name, pins[pin].Version, pins[pin].Entry)
		}
		if err != nil {
			return Value{}, nil, err
		}
		data, err := s.Data(ctx, v)
		if errors.Is(err, journal.ErrNotFound) && pin < 0 && try < tries {
			// A newer version has taken its place since, maybe in another hub.
			if err := s.r.latest(ctx, s.id); err != nil {
				return Value{}, nil, err
			}
			continue
		}
		if err == nil {
			data, err = Dig(data, ref.Path)
		}
		return v, data, err
	}
}

// note adds what was used, once.
func note(used []Used, u Used) []Used {
	for _, have := range used {
		if have == u {
			return used
		}
	}
	return append(used, u)
}

// Result is a tool's result on its way to being kept.
type Result struct {
	Raw      []byte // the result, as the upstream said it
	Name     string // to keep it under; empty for a name of our own
	Envelope bool   // it is an envelope, of which the data is kept
	Data     []byte // what to keep in place of what the result says; nil for none
	By       string
	Author   *actor.Record // see New
	Origin   *Origin
}

// Keep stores what a tool said and returns the card for it.
func (s *Session) Keep(ctx context.Context, res Result) (Card, error) {
	data := res.value()
	if data == nil {
		return Card{}, fault.New(fault.InvalidArguments, res.Origin.Tool, "the result holds nothing to keep")
	}
	name := res.Name
	if name == "" {
		name = nameOf(res.Origin.Tool)
	}
	v, _, err := s.Put(ctx, New{Name: name, Number: res.Name == "", Data: data, Description: "result of " + res.Origin.Tool, By: res.By, Author: res.Author, Origin: res.Origin})
	if err != nil {
		return Card{}, err
	}
	return NewCard(v.Name, uint64(v.Version), data, 0), nil
}

// value is what is kept of a result.
func (res *Result) value() []byte {
	if res.Data != nil {
		return res.Data
	}
	if res.Envelope {
		return envelope.Of(res.Raw).Data
	}
	return envelope.Value(wire.Get(res.Raw, "content"), wire.Get(res.Raw, "structuredContent"))
}

// nameOf makes a name of a tool's, to be numbered.
func nameOf(tool string) string {
	base := []byte("r_")
	for i := 0; i < len(tool) && len(base) < 40; i++ {
		c := tool[i]
		if c == '_' || c == '-' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			base = append(base, c)
		} else {
			base = append(base, '_')
		}
	}
	return string(base)
}

// spareName is a name that nothing has had yet.
func (s *state) spareName(base string) string {
	for n := len(s.values) + 1; ; n++ {
		if name := fmt.Sprintf("%s_%d", base, n); s.values[name] == nil {
			return name
		}
	}
}

// Borne returns the name that a result asks to be kept under, and the result
// proper: for results of the form {"result": …, "saveAs": "name"}.
func Borne(raw []byte, isEnvelope bool) (name string, data []byte, ok bool) {
	res := Result{Raw: raw, Envelope: isEnvelope}
	fields := wire.Members(res.value())
	if len(fields) != 2 {
		return "", nil, false
	}
	for _, f := range fields {
		switch string(f.Name) {
		case "result":
			data = f.Value
		case "saveAs":
			name, ok = wire.String(f.Value)
		}
	}
	return name, data, ok && data != nil
}
