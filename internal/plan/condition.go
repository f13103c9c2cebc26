package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/session"
)

// Condition is a question about values: of All, Any, Not and Value one is set.
type Condition struct {
	All   []Condition     `json:"all,omitempty"`
	Any   []Condition     `json:"any,omitempty"`
	Not   *Condition      `json:"not,omitempty"`
	Value string          `json:"value,omitempty"` // a reference
	Is    Test            `json:"is,omitempty"`    // "": present
	To    json.RawMessage `json:"to,omitempty"`    // JSON, or a reference in it
}

// Test is what is asked of a value.
type Test string

// The tests. Those of a value that is absent fail, but for Absent itself.
const (
	Present  Test = "present"
	Absent   Test = "absent" // there is none, or it is null
	True     Test = "true"
	False    Test = "false"
	Empty    Test = "empty" // "", [], {} or null
	Equal    Test = "equal"
	Unequal  Test = "unequal"
	Less     Test = "less"
	Greater  Test = "greater"
	Contains Test = "contains" // a text a text, an array an element, an object a member
	Matches  Test = "matches"  // a regular expression
)

// tests are all of them.
var tests = []string{"present", "absent", "true", "false", "empty", "equal", "unequal", "less", "greater", "contains", "matches"}

// binary are the tests that compare.
var binary = []Test{Equal, Unequal, Less, Greater, Contains, Matches}

// references calls fn with each reference of a condition.
func (c *Condition) references(pointer string, fn func(pointer, ref string)) {
	if c == nil {
		return
	}
	for i := range c.All {
		c.All[i].references(fmt.Sprintf("%s/all/%d", pointer, i), fn)
	}
	for i := range c.Any {
		c.Any[i].references(fmt.Sprintf("%s/any/%d", pointer, i), fn)
	}
	c.Not.references(pointer+"/not", fn)
	if c.Value != "" {
		fn(pointer+"/value", c.Value)
	}
	eachReference(c.To, func(at, ref string) { fn(pointer+"/to"+at, ref) })
}

// check says what is wrong with the form of a condition.
func (c *Condition) check(pointer string, depth int) []Problem {
	if c == nil {
		return nil
	}
	if depth > MaxNested {
		return []Problem{{Pointer: pointer, Message: fmt.Sprintf("is nested more than %d deep", MaxNested), Hint: "Flatten it."}}
	}
	var out []Problem
	set := 0
	for _, is := range []bool{c.All != nil, c.Any != nil, c.Not != nil, c.Value != ""} {
		if is {
			set++
		}
	}
	compares := slices.Contains(binary, c.Is)
	switch {
	case c.Is != "" && !slices.Contains(tests, string(c.Is)):
		out = append(out, Problem{Pointer: pointer + "/is", Message: fmt.Sprintf("there is no test %q", c.Is), Hint: cmp.Or(near(string(c.Is), tests), "There are: "+strings.Join(tests, ", ")+".")})
	case set != 1:
		out = append(out, Problem{Pointer: pointer, Message: "must have just one of all, any, not and value"})
	case c.Value == "" && (c.Is != "" || c.To != nil):
		out = append(out, Problem{Pointer: pointer, Message: "has is or to without a value"})
	case compares && c.To == nil:
		out = append(out, Problem{Pointer: pointer, Message: fmt.Sprintf("says %s, but not to what", c.Is), Hint: `Add "to".`})
	case !compares && c.To != nil:
		out = append(out, Problem{Pointer: pointer + "/to", Message: "means nothing here", Hint: `Say "is": "equal" to compare.`})
	case c.Is == Matches:
		var pattern string
		if json.Unmarshal(c.To, &pattern) != nil {
			out = append(out, Problem{Pointer: pointer + "/to", Message: "must be a regular expression as a string"})
		} else if _, err := regexp.Compile(pattern); err != nil {
			out = append(out, Problem{Pointer: pointer + "/to", Message: "is no regular expression: " + err.Error(), Hint: "The syntax is that of RE2."})
		}
	}
	for i := range c.All {
		out = append(out, c.All[i].check(fmt.Sprintf("%s/all/%d", pointer, i), depth+1)...)
	}
	for i := range c.Any {
		out = append(out, c.Any[i].check(fmt.Sprintf("%s/any/%d", pointer, i), depth+1)...)
	}
	return append(out, c.Not.check(pointer+"/not", depth+1)...)
}

// Holds answers the question. value returns what a reference stands for; nil
// means that it stands for nothing.
func (c *Condition) Holds(value func(session.Reference) ([]byte, error)) (bool, error) {
	switch {
	case c == nil:
		return true, nil
	case c.All != nil:
		for i := range c.All {
			if ok, err := c.All[i].Holds(value); !ok || err != nil {
				return false, err
			}
		}
		return true, nil
	case c.Any != nil:
		for i := range c.Any {
			if ok, err := c.Any[i].Holds(value); ok || err != nil {
				return ok, err
			}
		}
		return false, nil
	case c.Not != nil:
		ok, err := c.Not.Holds(value)
		return !ok, err
	}
	ref, ok := session.ParseReference(c.Value)
	if !ok {
		return false, fmt.Errorf("%q is no reference", c.Value)
	}
	got, err := value(ref)
	if err != nil {
		return false, err
	}
	to := []byte(c.To)
	if to != nil && c.Is != Matches {
		if to, err = resolveIn(c.To, value); err != nil {
			return false, err
		}
	}
	return test(c.Is, bytes.TrimSpace(got), bytes.TrimSpace(to))
}

// resolveIn resolves the references in what is compared with; one that stands
// for nothing is null.
func resolveIn(raw []byte, value func(session.Reference) ([]byte, error)) ([]byte, error) {
	out, _, err := session.Resolve(raw, MaxBytes, value)
	if fault.Is(err, fault.Limit) {
		f := *fault.Of(err)
		f.Hint = "Compare with a part of the value, as in @name.items[0]."
		return nil, &f
	}
	return out, err
}

func test(is Test, got, to []byte) (bool, error) {
	absent := got == nil || string(got) == "null"
	switch is {
	case "", Present:
		return !absent, nil
	case Absent:
		return absent, nil
	case Empty:
		return absent || isEmpty(got), nil
	}
	if got == nil {
		return false, nil
	}
	switch is {
	case True:
		return string(got) == "true", nil
	case False:
		return string(got) == "false", nil
	case Equal:
		return same(got, to), nil
	case Unequal:
		return !same(got, to), nil
	case Less, Greater:
		order, ok := compare(got, to)
		return ok && (is == Less && order < 0 || is == Greater && order > 0), nil
	case Contains:
		return holds(got, to), nil
	case Matches:
		return matches(got, to)
	}
	return false, fmt.Errorf("there is no test %q", is)
}

func isEmpty(raw []byte) bool {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return false
	}
	switch v := v.(type) {
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// same compares JSON by what it means: numbers by their value, objects whatever
// the order of their members.
func same(a, b []byte) bool {
	x, ok := decoded(a)
	y, ok2 := decoded(b)
	return ok && ok2 && equal(x, y)
}

func decoded(raw []byte) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return v, d.Decode(&v) == nil
}

func equal(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		n, ok := b.(json.Number)
		return ok && order(a, n) == 0
	case []any:
		l, ok := b.([]any)
		return ok && slices.EqualFunc(a, l, equal)
	case map[string]any:
		m, ok := b.(map[string]any)
		if !ok || len(a) != len(m) {
			return false
		}
		for k, v := range a {
			if w, ok := m[k]; !ok || !equal(v, w) {
				return false
			}
		}
		return true
	}
	return a == b
}

// order compares numbers without losing digits, unless they are so long that
// this would take long.
func order(a, b json.Number) int {
	if short(a) && short(b) {
		x, ok := new(big.Rat).SetString(string(a))
		y, ok2 := new(big.Rat).SetString(string(b))
		if ok && ok2 {
			return x.Cmp(y)
		}
	}
	x, _ := a.Float64() // beyond the range it is infinite, which is as good
	y, _ := b.Float64()
	return cmp.Compare(x, y)
}

// short says whether a number has few digits when it is written out.
func short(n json.Number) bool {
	exponent := 0
	if i := strings.IndexAny(string(n), "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(string(n[i+1:])); err != nil {
			return false
		}
	}
	return len(n) <= 400 && -400 <= exponent && exponent <= 400
}

// compare orders two numbers or two texts.
func compare(a, b []byte) (int, bool) {
	x, ok := decoded(a)
	y, ok2 := decoded(b)
	if !ok || !ok2 {
		return 0, false
	}
	if n, is := x.(json.Number); is {
		m, is := y.(json.Number)
		return order(n, m), is
	}
	s, is := x.(string)
	t, is2 := y.(string)
	return cmp.Compare(s, t), is && is2
}

func holds(got, to []byte) bool {
	x, ok := decoded(got)
	y, ok2 := decoded(to)
	if !ok || !ok2 {
		return false
	}
	switch x := x.(type) {
	case string:
		t, is := y.(string)
		return is && strings.Contains(x, t)
	case []any:
		return slices.ContainsFunc(x, func(e any) bool { return equal(e, y) })
	case map[string]any:
		t, is := y.(string)
		_, has := x[t]
		return is && has
	}
	return false
}

func matches(got, to []byte) (bool, error) {
	var text, pattern string
	if json.Unmarshal(got, &text) != nil || json.Unmarshal(to, &pattern) != nil {
		return false, nil
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return false, err
	}
	return re.MatchString(text), nil
}
