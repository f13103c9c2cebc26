package wire

import "errors"

// A Node is one value that a walk comes to.
type Node struct {
	Kind   byte   // its first byte: '{', '[', '"', 't', 'f', 'n', and '0' for every number
	Start  int    // where its text begins
	End    int    // where its text ends; 0 for a container that is being entered
	Name   []byte // of a member, unescaped; nil for what is none
	NameAt int    // where the name of a member begins
	Index  int    // its place among its siblings
	Depth  int    // 0 for the outermost value
	Len    int    // the children of a container that is left, if they were walked
}

// Next says how a walk goes on.
type Next int

// A walk goes into a container, passes over it, or stops altogether. For what
// has no children Into and Over are the same.
const (
	Into Next = iota
	Over
	Stop
)

// errStop ends a walk whose visitor has seen enough.
var errStop = errors.New("stop")

// Walk goes through the one value b in the order of its text, once. It calls
// enter for each value, with its end if it is no container, and leave (which
// may be nil) where a container ends, be it walked or passed over; of what
// leave answers only Stop counts. Duplicate names and lone surrogates are let
// through. A walk that was stopped says nothing of the bytes after that place.
func Walk(b []byte, enter, leave func(Node) Next) error {
	w := walker{scanner{b: b, maxDepth: MaxDepth, lax: 1}, enter, leave}
	w.space()
	switch err := w.node(nil, 0, 0); {
	case err == errStop:
		return nil
	case err != nil:
		return err
	case !w.end():
		return w.fail("data after the value")
	}
	return nil
}

type walker struct {
	scanner
	enter, leave func(Node) Next
}

func (w *walker) node(name []byte, nameAt, index int) error {
	n := Node{Kind: w.peek(), Start: w.pos, Name: name, NameAt: nameAt, Index: index, Depth: w.depth}
	if n.Kind != '{' && n.Kind != '[' {
		return w.leaf(n)
	}
	var err error
	switch w.enter(n) {
	case Stop:
		return errStop
	case Over:
		err = w.value()
	default:
		n.Len, err = w.children(n.Kind)
	}
	if err != nil {
		return err
	}
	n.End = w.pos
	if w.leave != nil && w.leave(n) == Stop {
		return errStop
	}
	return nil
}

func (w *walker) leaf(n Node) error {
	if err := w.value(); err != nil {
		return err
	}
	if n.Kind == '-' || '0' <= n.Kind && n.Kind <= '9' {
		n.Kind = '0'
	}
	n.End = w.pos
	if w.enter(n) == Stop {
		return errStop
	}
	return nil
}

func (w *walker) children(kind byte) (count int, err error) {
	if kind == '[' {
		err = w.array(func() error {
			count++
			return w.node(nil, 0, count-1)
		})
		return count, err
	}
	err = w.object(func(name []byte) error {
		count++
		return w.node(name, w.nameAt, count-1)
	})
	return count, err
}
