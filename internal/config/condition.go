package config

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Cond is a condition of a rule on one argument. Of the parts that are given
// all must hold.
type Cond struct {
	Any          []Cond          // one of these holds
	Is           json.RawMessage // equal to this string, number, boolean or null; nil: not given
	Glob         string          // a pattern
	Matches      string          // a regular expression
	Under        string          // a folder
	Above, Below *float64
	Present      *bool
	Not          *Cond
}

// Bounds of regular expressions, in bytes and in number.
const (
	maxRegexp  = 1000
	maxRegexps = 1000
)

const condHint = `write a pattern, a number, true or false, a list of these, or {"under": "/work"}; other keys are is, glob, matches, above, below, present and not`

// argsField is a map of conditions by the paths of arguments.
func argsField() field[Rule] {
	return field[Rule]{
		key: "args", doc: "Conditions on the arguments of the call, by path: `path`, `options.mode`, or a JSON pointer such as `/a.b/c` where a name has a dot. All must hold. A condition is a pattern (`*` stands for any text), a number, true or false, a list of these (any of them), or an object; see [keys of a condition](#keys-of-a-condition). Of a list of values, `allow` wants each to meet the condition, `ask` and `deny` any.",
		schema: func(*Rule) *schema {
			return &schema{Type: "object", Values: &schema{Ref: "#/$defs/condition"}}
		},
		decode: func(d *decoder, n *node, path string, r *Rule) {
			if !d.want(n, object, `write it as {"path": "/work/*"}`) {
				return
			}
			d.record(path, n)
			r.Args = map[string]Cond{}
			for _, m := range n.members {
				at := under(path, m.name)
				d.trace.places[at] = place{src: d.src, at: m.at, ptr: m.value.ptr}
				before := len(d.problems)
				c := d.cond(m.value, at)
				if r.Args[m.name] = c; len(d.problems) > before {
					continue
				}
				checkArg(m.name, &c, at, func(path, text, hint string) {
					p, _ := d.trace.find(path)
					d.problem(p.at, p.ptr, hint, "%s", text)
				})
			}
		},
		show: func(s *shower, path string, r *Rule) {
			if len(r.Args) == 0 {
				return
			}
			all := map[string]any{}
			for key, c := range r.Args {
				all[key] = c.shown()
			}
			s.put(path, all)
		},
	}
}

// cond reads a condition in any of its forms.
func (d *decoder) cond(n *node, path string) (c Cond) {
	d.trace.places[path] = place{src: d.src, at: n.at, ptr: n.ptr}
	switch n.kind {
	case text:
		if c.Glob = n.text; n.text == "" {
			c.Is = json.RawMessage(`""`)
		}
	case number, boolean:
		c.Is = n.json()
	case list:
		for i, item := range n.items {
			c.Any = append(c.Any, d.cond(item, under(path, strconv.Itoa(i))))
		}
		if len(n.items) == 0 {
			d.problem(n.at, n.ptr, "write what the argument may be, or leave the argument out", "the list is empty, so the condition never holds")
		}
	case object:
		before := len(d.problems)
		decodeParts(d, n, path, &c)
		if len(d.problems) == before && len(n.members) == 0 {
			d.problem(n.at, n.ptr, condHint, "the condition is empty")
		}
	default:
		d.problem(n.at, n.ptr, condHint, "must be a condition, and is %s", n.describe())
	}
	return c
}

// decodeParts is decodeObject, but that a null is a value to compare with.
// Elsewhere a part that is null would be a condition that is not there.
func decodeParts(d *decoder, n *node, path string, c *Cond) {
	given := *n
	given.members = nil
	for _, m := range n.members {
		switch {
		case m.value.kind != null:
			given.members = append(given.members, m)
		case m.name == "is":
			c.Is = json.RawMessage("null")
		default:
			d.problem(m.value.at, m.value.ptr, "give it a value, or leave it out", "%s has no value", m.name)
		}
	}
	decodeObject(d, &given, path, c, condFields())
}

func condFields() []field[Cond] {
	return []field[Cond]{
		isField(),
		partField("glob", "A string that the pattern matches; `*` stands for any text, also for slashes.", func(c *Cond) *string { return &c.Glob }),
		partField("matches", "A string in which the regular expression ([RE2](https://github.com/google/re2/wiki/Syntax)) finds something; write `^` and `$` for all of it. At most 1000 bytes.", func(c *Cond) *string { return &c.Matches }),
		partField("under", "A path that is this folder or below it, once `..` is resolved. Only the text is looked at; links are not followed.", func(c *Cond) *string { return &c.Under }),
		boundField("above", "A number greater than this.", func(c *Cond) **float64 { return &c.Above }),
		boundField("below", "A number less than this.", func(c *Cond) **float64 { return &c.Below }),
		toggleField("present", "True: the argument is given. False: it is not.", func(c *Cond) **bool { return &c.Present }),
		{
			key: "not", doc: "A condition that must not hold. A missing argument satisfies this.",
			schema: func(*Cond) *schema { return &schema{Ref: "#/$defs/condition"} },
			decode: func(d *decoder, n *node, path string, c *Cond) {
				inner := d.cond(n, path)
				c.Not = &inner
			},
		},
	}
}

func isField() field[Cond] {
	return field[Cond]{
		key: "is", doc: "A value equal to this string, number, boolean or null. Numbers are compared by value.",
		schema: func(*Cond) *schema {
			return &schema{AnyOf: []*schema{{Type: "string"}, {Type: "number"}, {Type: "boolean"}, {Type: "null"}}}
		},
		decode: func(d *decoder, n *node, path string, c *Cond) {
			if n.kind == list || n.kind == object {
				d.problem(n.at, n.ptr, "for one of several, write the list as the condition itself", "must be a string, a number, true, false or null, and is %s", n.describe())
				return
			}
			d.record(path, n)
			c.Is = n.json()
		},
	}
}

func partField(key, doc string, p func(*Cond) *string) field[Cond] {
	return textField(key, doc, asWritten, p, func(v string) (string, string) {
		if v == "" {
			return key + " is empty", "give it a value, or leave it out"
		}
		return "", ""
	})
}

// boundField is a number of any size.
func boundField(key, doc string, p func(*Cond) **float64) field[Cond] {
	f := numberField(key, doc, 0, 0, p)
	f.schema = func(*Cond) *schema { return &schema{Type: "number"} }
	f.decode = func(d *decoder, n *node, path string, c *Cond) {
		if !d.want(n, number, "write a number, without quotes") {
			return
		}
		v, err := strconv.ParseFloat(n.text, 64)
		if err != nil {
			d.problem(n.at, n.ptr, "write a smaller one", "%s is out of bounds", n.raw)
			return
		}
		d.record(path, n)
		*p(c) = &v
	}
	return f
}

// condSchema describes a condition in all its forms.
func condSchema() *schema {
	parts := objectSchema(&Cond{}, condFields())
	return &schema{AnyOf: []*schema{parts, {Type: "string"}, {Type: "number"}, {Type: "boolean"}, {Type: "array", Items: &schema{Ref: "#/$defs/condition"}}}}
}

// shown is the condition as a file would have it.
func (c *Cond) shown() any {
	out := map[string]any{}
	if c.Is != nil {
		out["is"] = c.Is
	}
	for key, v := range map[string]string{"glob": c.Glob, "matches": c.Matches, "under": c.Under} {
		if v != "" {
			out[key] = v
		}
	}
	for key, v := range map[string]*float64{"above": c.Above, "below": c.Below} {
		if v != nil {
			out[key] = *v
		}
	}
	if c.Present != nil {
		out["present"] = *c.Present
	}
	if c.Not != nil {
		out["not"] = c.Not.shown()
	}
	if len(c.Any) > 0 {
		all := make([]any, len(c.Any))
		for i := range c.Any {
			all[i] = c.Any[i].shown()
		}
		return all // a file has no other parts beside a list
	}
	if _, ok := out["glob"]; ok && len(out) == 1 {
		return c.Glob
	}
	return out
}

// checkArg looks at the condition on one argument.
func checkArg(key string, c *Cond, path string, problem func(path, text, hint string)) {
	if !strings.HasPrefix(key, "/") && (key == "" || strings.HasPrefix(key, ".") || strings.HasSuffix(key, ".") || strings.Contains(key, "..")) {
		problem(path, fmt.Sprintf("%q is no path of an argument", key), "write names separated by dots, as in options.mode, or a JSON pointer, as in /options/mode")
	}
	checkCond(c, path, problem)
}

func checkCond(c *Cond, path string, problem func(path, text, hint string)) {
	if len(c.Any) == 0 && c.Is == nil && c.Glob == "" && c.Matches == "" && c.Under == "" && c.Above == nil && c.Below == nil && c.Present == nil && c.Not == nil {
		problem(path, "the condition is empty", condHint)
	}
	if text, hint := checkGlob(c.Glob); c.Glob != "" && text != "" {
		problem(path+"/glob", text, hint)
	}
	if c.Matches != "" {
		if _, err := regexp.Compile(c.Matches); err != nil {
			problem(path+"/matches", strings.TrimPrefix(err.Error(), "error parsing regexp: ")+", so it is no regular expression", `write it as RE2 has it, and \ before a character that is meant itself`)
		} else if len(c.Matches) > maxRegexp {
			problem(path+"/matches", fmt.Sprintf("the regular expression is longer than %d bytes", maxRegexp), "write several conditions, or patterns")
		}
	}
	if c.Above != nil && c.Below != nil && *c.Above >= *c.Below {
		problem(path+"/below", "no number is above the one and below the other", "correct one of them")
	}
	for i := range c.Any {
		checkCond(&c.Any[i], under(path, strconv.Itoa(i)), problem)
	}
	if c.Not != nil {
		checkCond(c.Not, path+"/not", problem)
	}
}

// expressions counts the regular expressions of a condition.
func (c *Cond) expressions() (n int) {
	if c.Matches != "" {
		n++
	}
	for i := range c.Any {
		n += c.Any[i].expressions()
	}
	if c.Not != nil {
		n += c.Not.expressions()
	}
	return n
}
