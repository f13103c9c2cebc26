package policy

import (
	"bytes"
	"errors"
	"strings"

	"github.com/stoahub/stoa/internal/wire"
)

// argument is a condition and the path of the argument that it is about.
type argument struct {
	steps []string
	cond  condition
}

// parsePath reads the path of an argument: names separated by dots, or a JSON
// pointer. There are no indices: a path leads through every element of an
// array.
func parsePath(key string) ([]string, error) {
	if rest, ok := strings.CutPrefix(key, "/"); ok {
		steps := strings.Split(rest, "/")
		for i, s := range steps {
			steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
		}
		return steps, nil
	}
	steps := strings.Split(key, ".")
	for _, s := range steps {
		if s == "" {
			return nil, errors.New("it is no path: write names separated by dots, such as options.mode, or a JSON pointer, such as /options/mode")
		}
	}
	return steps, nil
}

// arguments are those of one call, parsed when a rule first asks for them.
type arguments struct {
	raw    []byte
	fields []wire.Field
	leaves []scalar // of fields, once read; kind 0 until then
	parsed bool
	bad    bool // no JSON object
}

func (a *arguments) parse() {
	if a.parsed {
		return
	}
	a.parsed = true
	text := bytes.TrimSpace(a.raw)
	if len(text) == 0 {
		return
	}
	a.fields = wire.Members(text)
	if a.leaves = make([]scalar, len(a.fields)); a.fields == nil {
		inner, open := bytes.CutPrefix(text, []byte("{"))
		inner, closed := bytes.CutSuffix(inner, []byte("}"))
		a.bad = !open || !closed || len(bytes.TrimSpace(inner)) > 0
	}
}

// holds reports whether the condition is met by the arguments. Strictly, it
// must hold wherever the path leads, broadly in one place.
func (c *argument) holds(args *arguments, strict bool) bool {
	args.parse()
	if args.bad {
		return !strict
	}
	return c.object(args.fields, args.leaves, 0, strict)
}

// object follows the path into an object, the leaves of whose fields are kept
// in leaves unless it is nil. Some servers do not tell capitals
// from small letters in names, so a name that differs in these only counts
// besides the right one.
func (c *argument) object(fields []wire.Field, leaves []scalar, step int, strict bool) bool {
	name, found := c.steps[step], false
	for i, f := range fields {
		if string(f.Name) == name {
			found = true
		} else if len(f.Name) > 3*len(name) || !strings.EqualFold(string(f.Name), name) {
			continue
		}
		var leaf *scalar
		if leaves != nil {
			leaf = &leaves[i]
		}
		if c.value(f.Value, leaf, step+1, strict) != strict {
			return !strict
		}
	}
	if !found && c.cond.holds(&value{missing: true}, strict) != strict {
		return !strict
	}
	return strict
}

// value follows the path into a value. leaf, unless it is nil, keeps what is
// read of it.
func (c *argument) value(raw []byte, leaf *scalar, step int, strict bool) bool {
	end := step == len(c.steps)
	if len(raw) > 0 && raw[0] == '[' {
		items, ok := wire.Elements(raw)
		if !ok {
			return !strict
		}
		if len(items) == 0 {
			return c.cond.holds(&value{empty: true, onWay: !end}, strict)
		}
		for _, item := range items {
			if c.value(item, nil, step, strict) != strict {
				return !strict
			}
		}
		return strict
	}
	isObject := len(raw) > 0 && raw[0] == '{'
	switch {
	case end:
		if leaf == nil {
			leaf = new(scalar)
		}
		if leaf.kind == 0 {
			var ok bool
			if *leaf, ok = scalarOf(raw); isObject {
				*leaf = scalar{kind: '{', text: string(raw)}
			} else if !ok {
				leaf.kind = 0
				return !strict
			}
		}
		return c.cond.holds(&value{scalar: leaf}, strict)
	case isObject:
		return c.object(wire.Members(raw), nil, step, strict)
	}
	return c.cond.holds(&value{missing: true}, strict)
}
