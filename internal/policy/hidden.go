package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/wire"
)

// maxTrials bounds how many arguments Hidden tries.
const maxTrials = 256

// Hidden reports whether a query is denied whatever its arguments, so that
// there is no use in offering its subject. q.Args is not looked at. Where it
// would be too much work to tell, or a regular expression or a folder makes it
// hard to, it is not hidden.
func Hidden(q *Query, sets ...*Set) bool { return HiddenFrom(Party{q, sets}) }

// Party is one of those on whose behalf something is done, and the rules that
// hold for it.
type Party struct {
	Query *Query
	Sets  []*Set
}

// HiddenFrom reports whether there are no arguments for which none of the
// parties is denied what they ask for. See Hidden.
func HiddenFrom(parties ...Party) bool {
	keys, conditions := make([]key, len(parties)), false
	for i, p := range parties {
		keys[i] = keyOf(p.Query)
		hidden, conditional := keys[i].unconditional(p.Sets)
		if hidden {
			return true
		}
		conditions = conditions || conditional
	}
	permitted := func(args []byte) bool {
		for i := range keys {
			if !keys[i].permits(args, parties[i].Sets) {
				return false
			}
		}
		return true
	}
	if !conditions || permitted(nil) { // the most likely, and needs no search
		return false
	}
	sites, complete := sitesOf(keys, parties)
	trials := 0
	for pick := make([]int, len(sites)); ; {
		if trials++; trials > maxTrials {
			return false
		}
		if args, ok := build(sites, pick); ok && permitted(args) {
			return false
		}
		if !advance(pick, sites) {
			return complete
		}
	}
}

func (k *key) permits(args []byte, sets []*Set) bool {
	v := k.decide(&arguments{raw: args}, sets)
	return v == nil || v.Action != Deny
}

// advance goes on to the next choice of values, and reports whether there is
// one.
func advance(pick []int, sites []*site) bool {
	for i := range pick {
		if pick[i]++; pick[i] < len(sites[i].values) {
			return true
		}
		pick[i] = 0
	}
	return false
}

// unconditional reports whether arguments make a difference, and if they do
// not, whether the query is denied.
func (k *key) unconditional(sets []*Set) (denied, conditional bool) {
	for _, s := range sets {
		if s == nil {
			continue
		}
		permitted := false // by a rule that does not deny, at least for some arguments
		for _, r := range s.rulesFor(k) {
			if r.action == Deny && len(r.args) == 0 {
				return true, false
			}
			permitted = permitted || r.action != Deny
			conditional = conditional || len(r.args) > 0
		}
		if v := s.fallback(k.kind); v != nil && v.Action == Deny && !permitted {
			return true, false
		}
	}
	return false, conditional
}

// site is an argument that conditions are about, and the values to try for it:
// one for each way in which the conditions can turn out.
type site struct {
	steps  []string
	conds  []argument
	strict []bool
	values [][]byte // nil stands for a missing argument
}

// sitesOf lists the arguments that rules look at. complete reports whether their
// values stand for all there are.
func sitesOf(keys []key, parties []Party) (out []*site, complete bool) {
	known := map[string]*site{}
	for i := range keys {
		for _, s := range parties[i].Sets {
			if s == nil {
				continue
			}
			for _, r := range s.rulesFor(&keys[i]) {
				r.note(known)
			}
		}
	}
	complete = true
	for _, name := range slices.Sorted(maps.Keys(known)) {
		one := known[name]
		complete = one.choose() && complete
		for _, other := range out {
			complete = complete && !one.overlaps(other)
		}
		out = append(out, one)
	}
	return out, complete
}

// note adds the arguments that a rule looks at to those that are known.
func (r *rule) note(known map[string]*site) {
	for _, a := range r.args {
		name := strings.Join(a.steps, "\x00")
		one := known[name]
		if one == nil {
			one = &site{steps: a.steps}
			known[name] = one
		}
		one.conds = append(one.conds, a)
		one.strict = append(one.strict, r.action == Allow)
	}
}

// overlaps reports whether one of the arguments may be part of the other.
func (s *site) overlaps(other *site) bool {
	for i := range min(len(s.steps), len(other.steps)) {
		if !strings.EqualFold(s.steps[i], other.steps[i]) {
			return false
		}
	}
	return true
}

// choose finds the values to try.
func (s *site) choose() (complete bool) {
	var p parts
	for i := range s.conds {
		p.collect(&s.conds[i].cond)
	}
	samples, complete := p.samples()
	seen := map[string]bool{}
	for _, raw := range samples {
		outcome := make([]byte, len(s.conds))
		for i := range s.conds {
			c := &s.conds[i]
			var holds bool
			if raw == nil {
				holds = c.cond.holds(&value{missing: true}, s.strict[i])
			} else {
				holds = c.value(raw, nil, len(c.steps), s.strict[i])
			}
			if holds {
				outcome[i] = 1
			}
		}
		if !seen[string(outcome)] {
			seen[string(outcome)] = true
			s.values = append(s.values, raw)
		}
	}
	return complete
}

// build makes the arguments that have the picked value at each site; ok is
// false if there are none.
func build(sites []*site, pick []int) (args []byte, ok bool) {
	root := &branch{}
	for i, s := range sites {
		if raw := s.values[pick[i]]; raw != nil && !root.put(s.steps, raw) {
			return nil, false
		}
	}
	return root.append(nil), true
}

// branch is a JSON object in the making, or a value of one.
type branch struct {
	names []string
	inner []*branch
	raw   []byte
}

func (b *branch) put(steps []string, raw []byte) bool {
	if b.raw != nil {
		return false
	}
	if len(steps) == 0 {
		b.raw = raw
		return len(b.names) == 0
	}
	i := slices.Index(b.names, steps[0])
	if i < 0 {
		i = len(b.names)
		b.names, b.inner = append(b.names, steps[0]), append(b.inner, &branch{})
	}
	return b.inner[i].put(steps[1:], raw)
}

func (b *branch) append(dst []byte) []byte {
	if b.raw != nil {
		return append(dst, b.raw...)
	}
	dst = append(dst, '{')
	for i, name := range b.names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(wire.AppendString(dst, name), ':')
		dst = b.inner[i].append(dst)
	}
	return append(dst, '}')
}
