package policy

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/stoahub/stoa/internal/wire"
)

// Cond is a condition on one argument. Of the parts that are given all must
// hold; at least one has to be given.
//
// An allow rule reads conditions strictly, and ask and deny rules read them
// broadly: whoever writes the number 5 as the string "5", or one path as a list
// of paths, is not allowed more by it.
type Cond struct {
	Any     []Cond          // one of these holds
	Is      json.RawMessage // equal to this string, number, boolean or null; numbers by value
	Glob    string          // a string that the pattern matches; * stands for slashes too
	Matches string          // a string in which the regular expression (RE2) finds something
	Under   string          // a path that is this folder or below it, once .. is resolved
	Above   *float64        // a greater number
	Below   *float64        // a smaller number
	Present *bool           // whether the argument is there
	Not     *Cond           // this does not hold; for an argument that is missing it does not
}

// Bounds of regular expressions: the length of one, and their number in a list
// of rules.
const (
	maxRegexp  = 1000
	maxRegexps = 1000
)

// condition is a compiled Cond.
type condition struct {
	always  bool // of a broken one, whose rule denies
	any     []condition
	is      *scalar
	glob    *glob
	matches *regexp.Regexp
	under   *folder
	above   *number
	below   *number
	present *bool
	not     *condition
}

// scalar is a JSON value that is neither an array nor an object.
type scalar struct {
	kind byte // as wire.Node has it: '"', '0', 't', 'f' or 'n'
	text string
	num  *number

	paths []string // text as a path, in the ways that servers may read it; nil until asked for
	guess *guess   // of one that stands for others
}

// compile makes the condition ready. What is wrong is told, and makes the
// condition hold in any case.
func (c *Cond) compile(regexps *int, at string, problem func(at, text string)) (out condition) {
	fail := func(key, format string, args ...any) {
		out.always = true
		problem(at+key, fmt.Sprintf(format, args...))
	}
	if len(c.Any) == 0 && c.Is == nil && c.Glob == "" && c.Matches == "" && c.Under == "" && c.Above == nil && c.Below == nil && c.Present == nil && c.Not == nil {
		fail("", "the condition says nothing")
	}
	for i := range c.Any {
		one := c.Any[i].compile(regexps, fmt.Sprintf("%s[%d]", at, i), problem)
		out.any = append(out.any, one)
		out.always = out.always || one.always
	}
	if c.Is != nil {
		v, ok := scalarOf(c.Is)
		if out.is = &v; !ok {
			fail(".is", "it has to be a string, a number, true, false or null")
		}
	}
	if c.Glob != "" {
		g, err := compileGlob(c.Glob)
		if out.glob = &g; err != nil {
			fail(".glob", "%s", badGlob(c.Glob))
		}
	}
	if c.Matches != "" {
		re, err := c.regexp(regexps)
		if out.matches = re; err != nil {
			fail(".matches", "%s", err)
		}
	}
	if c.Under != "" {
		out.under = newFolder(c.Under)
	}
	for key, bound := range map[string]*float64{".above": c.Above, ".below": c.Below} {
		if bound != nil && (math.IsNaN(*bound) || math.IsInf(*bound, 0)) {
			fail(key, "it has to be a number")
		}
	}
	out.above, out.below, out.present = numberOf(c.Above), numberOf(c.Below), c.Present
	if c.Not != nil {
		one := c.Not.compile(regexps, at+".not", problem)
		out.not = &one
		out.always = out.always || one.always
	}
	return out
}

func (c *Cond) regexp(regexps *int) (*regexp.Regexp, error) {
	if *regexps++; *regexps > maxRegexps {
		return nil, fmt.Errorf("there are more than %d regular expressions", maxRegexps)
	}
	if len(c.Matches) > maxRegexp {
		return nil, fmt.Errorf("the regular expression is longer than %d bytes", maxRegexp)
	}
	return regexp.Compile(c.Matches)
}

func numberOf(f *float64) *number {
	if f == nil {
		return nil
	}
	n, _ := parseNumber(strconv.FormatFloat(*f, 'g', -1, 64))
	return &n
}

// scalarOf reads a value that is neither an array nor an object.
func scalarOf(raw []byte) (s scalar, ok bool) {
	if len(raw) == 0 {
		return s, false
	}
	switch raw[0] {
	case '"':
		s.kind = '"'
		s.text, ok = wire.String(raw)
	case 't', 'f', 'n':
		s.kind, s.text = raw[0], string(raw)
		ok = s.text == "true" || s.text == "false" || s.text == "null"
	case '{', '[':
	default:
		s.kind, s.text = '0', string(raw)
		var n number
		n, ok = parseNumber(s.text)
		s.num = &n
	}
	return s, ok
}

// value is what is at the path of a condition: a value that is no array, an
// array without elements, or nothing.
type value struct {
	missing, empty bool
	onWay          bool // the empty array is before the end of the path
	*scalar             // an object has kind '{' and its JSON as text
}

// holds reports whether the condition is met, in the strict or the broad
// reading.
func (c *condition) holds(v *value, strict bool) bool {
	switch {
	case c.always:
		return true
	case v.empty && strict && (v.onWay || !c.onlyPresent()):
		return false // nothing was checked, so nothing is allowed
	}
	return c.part(v, strict)
}

// onlyPresent reports whether the condition asks for nothing but presence.
func (c *condition) onlyPresent() bool {
	return c.present != nil && len(c.any) == 0 && c.is == nil && c.glob == nil && c.matches == nil && c.under == nil && c.above == nil && c.below == nil && c.not == nil
}

func (c *condition) part(v *value, strict bool) bool {
	if c.present != nil && !isPresent(v, *c.present, strict) {
		return false
	}
	if c.not != nil && c.not.part(v, !strict) {
		return false // what must not hold is read the other way round
	}
	if len(c.any) > 0 && !c.one(v, strict) {
		return false
	}
	if c.is == nil && c.glob == nil && c.matches == nil && c.under == nil && c.above == nil && c.below == nil {
		return true
	}
	if v.missing || v.empty || strict && v.kind == '{' {
		return false
	}
	return c.compare(v.scalar, strict)
}

func (c *condition) one(v *value, strict bool) bool {
	for i := range c.any {
		if c.any[i].part(v, strict) {
			return true
		}
	}
	return false
}

// isPresent reports whether the argument is there, or is not, as want says. A
// null is either, to different servers: strictly it is neither, broadly both.
func isPresent(v *value, want, strict bool) bool {
	if !v.missing && !v.empty && v.kind == 'n' {
		return !strict
	}
	return want == (!v.missing && !(v.empty && v.onWay))
}

// compare holds the parts that are about a value against it. Broadly read, a
// value of another type counts by its text.
func (c *condition) compare(v *scalar, strict bool) bool {
	if c.is != nil && !c.is.equal(v, strict) {
		return false
	}
	if c.above != nil || c.below != nil {
		n := v.num
		if n == nil && !strict {
			n = v.read()
		}
		if n == nil || c.above != nil && !n.above(c.above, strict) || c.below != nil && !c.below.above(n, strict) {
			return false
		}
	}
	if c.glob == nil && c.matches == nil && c.under == nil {
		return true
	}
	if strict && v.kind != '"' {
		return false
	}
	return (c.glob == nil || c.glob.match(v.text)) && (c.matches == nil || v.found(c.matches)) &&
		(c.under == nil || c.under.holds(v, strict))
}

func (s *scalar) equal(v *scalar, strict bool) bool {
	switch {
	case s.kind == v.kind && s.kind != '0':
		return s.text == v.text
	case s.num != nil && v.num != nil:
		return s.num.equal(v.num, strict)
	case strict:
		return false
	case s.text == v.text:
		return true
	}
	// One of them may be a number in quotes.
	a, b := s.read(), v.read()
	return a != nil && b != nil && a.equal(b, false)
}

// read is the number that a value is when its text is read as one; nil if it is
// none.
func (s *scalar) read() *number {
	if s.num != nil {
		return s.num
	}
	if s.guess != nil {
		return s.guess.num
	}
	n, ok := parseNumber(strings.TrimSpace(s.text))
	if !ok {
		return nil
	}
	return &n
}

// found reports whether the expression finds something in the value's text.
func (s *scalar) found(re *regexp.Regexp) bool {
	if s.guess != nil {
		return s.guess.finds[re.String()]
	}
	return re.MatchString(s.text)
}
