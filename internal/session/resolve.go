package session

import (
	"bytes"
	"errors"
	"strings"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// MaxReferences is how many different references one call may hold: to find
// the part of a large value costs a walk through it. A repeated reference
// counts once.
const MaxReferences = 4096

// refName is the member of the object form of a reference.
const refName = "$ref"

// A splice replaces the bytes from start to end.
type splice struct {
	start, end int
	with       []byte
	depth      int  // of the value that is replaced
	ref        bool // it is the member $ref of an object that may turn out to have no other
}

// ErrLiteral says that what looks like a reference is none here: it stays as
// it is.
var ErrLiteral = errors.New("no reference")

// Resolve replaces each reference in args, and each object whose only member
// is $ref with a reference, by the bytes that value returns for it, path
// applied, and takes one @ off each escaped one. All other bytes stay as they
// are; without a reference or escape out is args itself. Names of members are
// not touched, and what was put in is not looked at again, so that there are
// no cycles.
//
// value is called once for each different reference, in the order of the
// text. Its BadReference faults are collected and reported as one; any other
// error is returned at once. A result that would be larger than max bytes or
// deeper than a message may be is a Limit fault, found before anything is
// built; arguments into which nothing is put are not held to it. used counts the references that were replaced.
func Resolve(args []byte, max int, value func(Reference) ([]byte, error)) (out []byte, used int, err error) {
	return resolve(args, max, true, value)
}

// resolve is Resolve that leaves escaped references alone unless told.
func resolve(args []byte, max int, unescape bool, value func(Reference) ([]byte, error)) (out []byte, used int, err error) {
	if !HasReference(args) {
		return args, 0, nil
	}
	r := resolver{args: args, unescape: unescape, value: value, size: len(args), max: max}
	if err := wire.Walk(args, r.enter, r.leave); err != nil {
		return nil, 0, fault.New(fault.InvalidArguments, "", "the arguments are not JSON: %v", err).Because(err)
	}
	switch {
	case r.err != nil:
		return nil, 0, r.err
	case len(r.bad) > 0:
		return nil, 0, r.badReferences()
	}
	if r.used > 0 {
		if err := r.check(); err != nil {
			return nil, 0, err
		}
	}
	return apply(args, r.splices, r.size), r.used, nil
}

type resolver struct {
	args     []byte
	unescape bool // escaped references lose an @
	value    func(Reference) ([]byte, error)
	max      int
	size     int // of the result
	used     int
	splices  []splice
	known    map[string][]byte // nil data: the reference is bad, or none
	bad      []badReference
	err      error
}

func (r *resolver) enter(n wire.Node) wire.Next {
	if n.Kind != '"' {
		return wire.Into
	}
	raw := r.args[n.Start:n.End]
	at, size := atSign(raw)
	if size == 0 {
		return wire.Into
	}
	s, _ := wire.String(raw)
	ref, isRef, isEscape := active(s)
	if !isRef && !isEscape {
		r.suspect(s, n.Start)
		if r.err != nil {
			return wire.Stop
		}
	}
	switch {
	case isEscape && !r.unescape:
	case isEscape:
		r.add(splice{start: n.Start + at, end: n.Start + at + size})
	case isRef:
		data, ok := r.lookUp(s, ref, n.Start)
		if r.err != nil {
			return wire.Stop
		}
		if ok {
			r.used++
			r.add(splice{n.Start, n.End, data, n.Depth, string(n.Name) == refName})
		}
	}
	return wire.Into
}

// suspect refuses a string that was meant as a reference: it names a value that
// exists, and goes on as a reference would, but cannot be read.
func (r *resolver) suspect(s string, at int) {
	ref, why := almost(s)
	if why == "" || r.known[s] != nil {
		return
	}
	meant := ref
	ref.Path = nil
	if _, err := r.value(ref); err != nil {
		if err != ErrLiteral && !fault.Is(err, fault.BadReference) {
			r.err = err
		}
		return // it names nothing, so it is text
	}
	hint := `Write members and indices as in @name.items[0].title, other keys as in @name["a key"], and nothing after that; @@name is the text @name.`
	if meant.Path != nil || strings.TrimFunc(s, blank) == meant.String() {
		hint = "Write " + meant.String() + " if that is meant; for the text, write @@ in place of @."
	}
	r.bad = append(r.bad, badReference{s, at, &fault.Error{Kind: fault.BadReference, Msg: "it names a value, but is no reference: " + why, Hint: hint}})
}

// leave widens the splice of a $ref to the object, if there was nothing else
// in it.
func (r *resolver) leave(n wire.Node) wire.Next {
	if n.Kind != '{' || n.Len != 1 || len(r.splices) == 0 {
		return wire.Into
	}
	last := &r.splices[len(r.splices)-1]
	if last.ref && last.start > n.Start && last.depth == n.Depth+1 {
		r.size -= n.End - n.Start - (last.end - last.start)
		*last = splice{start: n.Start, end: n.End, with: last.with, depth: n.Depth}
	}
	return wire.Into
}

func (r *resolver) add(s splice) {
	r.splices = append(r.splices, s)
	r.size += len(s.with) - (s.end - s.start)
}

// lookUp asks for the value of a reference once.
func (r *resolver) lookUp(text string, ref Reference, at int) ([]byte, bool) {
	if data, ok := r.known[text]; ok {
		return data, data != nil
	}
	if len(r.known) >= MaxReferences {
		r.err = fault.New(fault.Limit, "references", "the arguments hold more than %d different references", MaxReferences).With("limit", MaxReferences)
		return nil, false
	}
	data, err := r.value(ref)
	switch {
	case err == ErrLiteral:
		data = nil
	case err != nil && !fault.Is(err, fault.BadReference):
		r.err = err
		return nil, false
	case err != nil:
		r.bad = append(r.bad, badReference{text, at, fault.Of(err)})
		data = nil
	case len(data) == 0:
		// An empty splice would leave something that is not JSON.
		data = []byte("null")
	}
	if r.known == nil {
		r.known = make(map[string][]byte, 4)
	}
	r.known[text] = data
	return data, err == nil
}

// check holds the result, which is not yet built, to its limits.
func (r *resolver) check() error {
	if r.size > r.max {
		return (&fault.Error{
			Kind: fault.Limit, Subject: "references",
			Msg:  "with its references resolved the call has " + count(r.size, "byte") + " of arguments; the limit is " + count(r.max, "byte"),
			Hint: "Refer to a part of the value, as in @name.items[0], or raise limits.argumentBytes.",
		}).With("limit", r.max).With("size", r.size)
	}
	depths := map[*byte]int{}
	for _, s := range r.splices {
		if len(s.with) == 0 || s.depth+openings(s.with) <= wire.MaxDepth {
			continue
		}
		deep, ok := depths[&s.with[0]]
		if !ok {
			deep = depthOf(s.with)
			depths[&s.with[0]] = deep
		}
		if s.depth+deep > wire.MaxDepth {
			return fault.New(fault.Limit, "references", "with its references resolved the call is nested deeper than %d levels", wire.MaxDepth).With("limit", wire.MaxDepth)
		}
	}
	return nil
}

// openings is at least as much as the depth of b, and quick to find.
func openings(b []byte) int {
	if len(b) <= 2 || b[0] == '"' {
		return 1
	}
	return bytes.Count(b, []byte{'['}) + bytes.Count(b, []byte{'{'})
}

// depthOf is how many containers lie within each other in b.
func depthOf(b []byte) (deepest int) {
	err := wire.Walk(b, func(n wire.Node) wire.Next {
		if n.Kind == '{' || n.Kind == '[' {
			deepest = max(deepest, n.Depth+1)
		}
		return wire.Into
	}, nil)
	if err != nil {
		return wire.MaxDepth
	}
	return deepest
}

// apply makes the splices, which are in order and do not overlap.
func apply(b []byte, splices []splice, size int) []byte {
	if len(splices) == 0 {
		return b
	}
	out, from := make([]byte, 0, size), 0
	for _, s := range splices {
		out = append(append(out, b[from:s.start]...), s.with...)
		from = s.end
	}
	return append(out, b[from:]...)
}
