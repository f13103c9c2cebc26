package schema

import (
	"fmt"
	"slices"
	"strings"

	js "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/stoahub/stoa/internal/spell"
)

// collector gathers the leaves of a tree of validation errors.
type collector struct {
	s      *Schema
	v      any
	faults []Fault
}

func (c *collector) add(at []string, f Fault) {
	f.Pointer = pointer(at)
	if len(f.Allowed) > maxAllowed {
		f.Allowed = nil
	}
	c.faults = append(c.faults, f)
}

func (c *collector) walk(e *js.ValidationError) {
	at := e.InstanceLocation
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf:
		c.alternatives(e)
		return
	case *kind.OneOf:
		if len(k.Subschemas) == 0 {
			c.alternatives(e)
			return
		}
		c.add(at, Fault{Message: fmt.Sprintf("matches more than one of the forms of which exactly one is allowed (numbers %d and %d)", k.Subschemas[0]+1, k.Subschemas[1]+1)})
		return
	case *kind.PropertyNames:
		c.badName(at, k.Property, because(e.Causes))
		return
	case *kind.Contains, *kind.MinContains:
		// The causes say why each element is not the one sought; no element has to be.
	case *kind.Required:
		c.missing(at, k.Missing, "is required but missing")
		return
	case *kind.Dependency:
		c.missing(at, k.Missing, "is required since "+quote(k.Prop)+" is given")
		return
	case *kind.DependentRequired:
		c.missing(at, k.Missing, "is required since "+quote(k.Prop)+" is given")
		return
	case *kind.AdditionalProperties:
		c.unknown(e, k.Properties)
		return
	case *kind.Format:
		if k.Want == "regex" {
			return // judged by the syntax of another engine than the tool's
		}
	default:
		if len(e.Causes) > 0 {
			for _, cause := range e.Causes {
				c.walk(cause)
			}
			return
		}
	}
	c.add(at, sentence(e.ErrorKind))
}

// missing reports each missing property at the place where it should be.
func (c *collector) missing(at, names []string, message string) {
	given, _ := lookup(c.v, at).(map[string]any)
	for _, name := range names {
		f := Fault{Message: message}
		if near := spell.Nearest(name, keys(given)); near != "" && !slices.Contains(names, near) {
			f.Close = near
			f.Message += "; did you mean it by " + quote(near) + "?"
		}
		c.add(append(slices.Clone(at), name), f)
	}
}

// badName reports a property whose name is not allowed. The validator reuses
// the path of such an error, so that it may have come to name another place;
// the whole is blamed then.
func (c *collector) badName(at []string, name, reason string) {
	if given, ok := lookup(c.v, at).(map[string]any); ok {
		if _, ok := given[name]; ok {
			c.add(append(slices.Clone(at), name), Fault{Message: "has a name that is not allowed here" + reason})
			return
		}
	}
	c.add(nil, Fault{Message: "has a property whose name " + quote(name) + " is not allowed" + reason})
}

// unknown reports each property that the schema does not have.
func (c *collector) unknown(e *js.ValidationError, names []string) {
	var declared []string
	if c.s != nil {
		if sub := c.s.closed[e.SchemaURL]; sub != nil {
			for name := range sub.Properties {
				declared = append(declared, name)
			}
			slices.Sort(declared)
		}
	}
	for _, name := range names {
		f := Fault{Message: "is not a property of this schema"}
		if near := spell.Nearest(name, declared); near != "" {
			f.Close = near
			f.Message += "; did you mean " + quote(near) + "?"
		} else if len(declared) > 0 && len(declared) <= maxAllowed {
			f.Message += "; it has " + quoteAll(declared)
		}
		for _, d := range declared {
			f.Allowed = append(f.Allowed, d)
		}
		c.add(append(slices.Clone(e.InstanceLocation), name), f)
	}
}

// alternatives reports a value that matches none of several forms. Where the
// forms differ only in type or in allowed values this is one fault; else the
// faults of the form that comes closest are listed too.
func (c *collector) alternatives(e *js.ValidationError) {
	if f, ok := merge(e); ok {
		c.add(e.InstanceLocation, f)
		return
	}
	best, bestFaults, bestScore := 0, []Fault(nil), -1
	for i, cause := range e.Causes {
		sub := collector{s: c.s, v: c.v}
		sub.walk(cause)
		score := len(sub.faults)
		if outright(cause, len(e.InstanceLocation)) {
			score += 1 << 20 // it is of another type or kind altogether
		}
		if bestScore < 0 || score < bestScore {
			best, bestFaults, bestScore = i, sub.faults, score
		}
	}
	if len(e.Causes) > 1 {
		c.add(e.InstanceLocation, Fault{Message: fmt.Sprintf("matches none of the %d allowed forms; the closest is number %d", len(e.Causes), best+1)})
	}
	c.faults = append(c.faults, bestFaults...)
}

// outright reports whether an alternative failed at the value itself because
// of its type, or at a constant directly in it, as discriminators are.
func outright(e *js.ValidationError, depth int) bool {
	switch e.ErrorKind.(type) {
	case *kind.Type, *kind.FalseSchema:
		return len(e.InstanceLocation) == depth
	case *kind.Const, *kind.Enum:
		return len(e.InstanceLocation) <= depth+1
	}
	return slices.ContainsFunc(e.Causes, func(cause *js.ValidationError) bool { return outright(cause, depth) })
}

// merge makes one fault of alternatives that all failed for the type of the
// value, or all for not being one of some values.
func merge(e *js.ValidationError) (Fault, bool) {
	var types []string
	var values []any
	got := ""
	for _, cause := range e.Causes {
		for len(cause.Causes) == 1 {
			if _, ok := cause.ErrorKind.(*kind.Reference); !ok {
				break
			}
			cause = cause.Causes[0]
		}
		if len(cause.InstanceLocation) != len(e.InstanceLocation) {
			return Fault{}, false
		}
		switch k := cause.ErrorKind.(type) {
		case *kind.Type:
			got = k.Got
			types = append(types, k.Want...)
		case *kind.Const:
			values = append(values, k.Want)
		case *kind.Enum:
			values = append(values, k.Want...)
		default:
			return Fault{}, false
		}
	}
	switch {
	case len(types) > 0 && len(values) == 0:
		return sentence(&kind.Type{Got: got, Want: types}), true
	case len(values) > 0:
		f := oneOf(values)
		if len(types) > 0 {
			f.Message += ", or " + article(types)
		}
		return f, true
	}
	return Fault{}, false
}

// because renders the reasons below an error as a clause.
func because(causes []*js.ValidationError) string {
	var c collector
	for _, cause := range causes {
		c.walk(cause)
	}
	var reasons []string
	for _, f := range c.faults {
		reasons = append(reasons, f.Message)
	}
	if len(reasons) == 0 {
		return ""
	}
	slices.Sort(reasons)
	return ": it " + strings.Join(slices.Compact(reasons), " and ")
}
