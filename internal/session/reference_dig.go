package session

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/spell"
	"github.com/stoahub/stoa/internal/wire"
)

const (
	maxKeysTold = 40 // keys that a fault or a summary lists
	maxKeysRead = 5000
)

// Dig returns the raw bytes of the part of data at path, without space around
// it. A member of digits also finds the element of an array. Of members of the
// same name the first counts. If there is no such part the error is a
// BadReference that says what is there instead, with "allowed" (keys),
// "length" and "close" in its data.
func Dig(data []byte, path []Step) ([]byte, error) {
	if len(path) == 0 {
		return bytes.TrimSpace(data), nil
	}
	for i, s := range path {
		if s.IsIndex && s.Index < 0 {
			return digFromEnd(data, path, i)
		}
	}
	d := digger{path: path}
	if err := wire.Walk(data, d.enter, d.leave); err != nil {
		return nil, fault.New(fault.Internal, "", "the stored value is not JSON").Because(err)
	}
	part := data[d.start:d.end]
	if d.found < len(path) {
		if inner := jsonIn(part); inner != nil {
			return Dig(inner, path[d.found:])
		}
		return nil, missing(part, path, d.found)
	}
	return part, nil
}

// digFromEnd is Dig where the step i counts from the end of an array.
func digFromEnd(data []byte, path []Step, i int) ([]byte, error) {
	part, err := Dig(data, path[:i])
	if err != nil {
		return nil, err
	}
	if inner := jsonIn(part); inner != nil {
		part = inner
	}
	if part[0] != '[' {
		return nil, missing(part, path, i)
	}
	at := lengthOf(part) + path[i].Index
	if at < 0 {
		return nil, missing(part, path, i)
	}
	return Dig(part, append([]Step{At(at)}, path[i+1:]...))
}

// jsonIn is the object or array that a text holds; nil if it holds none. Many
// servers answer with JSON in a text.
func jsonIn(part []byte) []byte {
	if part[0] != '"' {
		return nil
	}
	text, ok := wire.String(part)
	inner := bytes.TrimSpace([]byte(text))
	if !ok || len(inner) < 2 || inner[0] != '{' && inner[0] != '[' || !json.Valid(inner) {
		return nil
	}
	return inner
}

// A digger goes down one path in one walk: found steps lie behind it, and
// start is where the value begins to which they lead.
type digger struct {
	path       []Step
	found      int
	start, end int
	index      int // of the element wanted next, if the value is an array; -1 is none
}

func (d *digger) enter(n wire.Node) wire.Next {
	if n.Depth > 0 {
		if !d.wants(n) {
			return wire.Over
		}
		d.found++
	}
	d.start = n.Start
	switch {
	case n.End > 0: // nothing lies below it
		d.end = n.End
		return wire.Stop
	case d.found == len(d.path):
		return wire.Over
	}
	d.index = elementOf(d.path[d.found])
	return wire.Into
}

func (d *digger) wants(n wire.Node) bool {
	if n.Name == nil {
		return n.Index == d.index
	}
	s := d.path[d.found]
	return !s.IsIndex && string(n.Name) == s.Member
}

// leave ends the walk where the value ends to which the steps lead that were
// found: either it is the one, or the next step is not in it.
func (d *digger) leave(n wire.Node) wire.Next {
	if n.Start != d.start {
		return wire.Into
	}
	d.end = n.End
	return wire.Stop
}

// elementOf is the element of an array that a step leads to, or -1.
func elementOf(s Step) int {
	if s.IsIndex {
		return s.Index
	}
	if s.Member == "" || span(s.Member, isDigit) < len(s.Member) {
		return -1
	}
	return indexOf(s.Member).Index
}

// missing says why the step after the found ones leads nowhere in part.
func missing(part []byte, path []Step, found int) error {
	where := "the value"
	if found > 0 {
		where = clip(FormatPath(path[:found]), 200)
	}
	step, want := path[found], clip(FormatPath(path[found:found+1]), 100)
	e := &fault.Error{Kind: fault.BadReference}
	switch part[0] {
	case '{':
		keys, total := keysOf(part)
		e.Msg = "there is no " + want + ": " + where + " is " + objectText(keys, total)
		e.With("allowed", keys[:min(len(keys), maxKeysTold)])
		if near := spell.Near(step.Member, keys, 3); len(near) > 0 && !step.IsIndex {
			e.Msg += "; did you mean " + quoteAll(near, " or ") + "?"
			e.With("close", near)
		}
	case '[':
		n := lengthOf(part)
		e.Msg = "there is no " + want + ": " + where + " is an array of " + count(n, "element")
		if n > 0 {
			e.Msg += ", [0] to [" + strconv.Itoa(n-1) + "]"
		}
		e.With("length", n)
	default:
		e.Msg = "there is no " + want + ": " + where + " is " + leafText(part) + ", which has no parts"
	}
	return e
}

// keysOf returns the first keys of the object obj, and how many it has.
func keysOf(obj []byte) (keys []string, total int) {
	_ = wire.Walk(obj, func(n wire.Node) wire.Next {
		if n.Depth == 0 {
			return wire.Into
		}
		if total++; total <= maxKeysRead {
			keys = append(keys, string(n.Name))
		}
		return wire.Over
	}, nil)
	return keys, total
}

func lengthOf(arr []byte) (total int) {
	_ = wire.Walk(arr, func(n wire.Node) wire.Next {
		if n.Depth == 0 {
			return wire.Into
		}
		total++
		return wire.Over
	}, nil)
	return total
}

// quoteAll lists names for a message.
func quoteAll(names []string, sep string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strconv.Quote(clip(n, 60))
	}
	return strings.Join(out, sep)
}
