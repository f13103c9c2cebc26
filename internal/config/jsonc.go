package config

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// syntaxError is why a file could not be read at all.
type syntaxError struct {
	at   position
	text string
	hint string
}

func (e *syntaxError) Error() string { return e.text }

// parseJSONC reads JSON with comments and trailing commas. dup is told of
// members named twice.
func parseJSONC(data []byte, dup func(m member, first position, ptr string)) (*node, error) {
	at := cursor{data: data, pos: position{1, 1}}
	if off := tooDeepJSON(data); off >= 0 {
		return nil, &syntaxError{at.to(off), fmt.Sprintf("the file is nested more than %d deep", maxDepth), "flatten it"}
	}
	v, err := hujson.Parse(data)
	if err != nil {
		return nil, jsonSyntax(err)
	}
	r := jsonReader{at: &at, dup: dup}
	return r.node(&v, "")
}

// jsonSyntax takes the place out of the parser's message, where it has one.
func jsonSyntax(err error) error {
	e := &syntaxError{at: position{1, 1}, text: err.Error(), hint: "correct the JSON at this place"}
	var line, column int
	if _, scan := fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &line, &column); scan == nil {
		e.at = position{line, column}
	}
	if cause := errors.Unwrap(err); cause != nil {
		e.text = cause.Error()
	}
	e.text = "the JSON is not well-formed: " + e.text
	return e
}

type jsonReader struct {
	at    *cursor
	dup   func(m member, first position, ptr string)
	nodes int
}

func (r *jsonReader) node(v *hujson.Value, ptr string) (*node, error) {
	n := &node{at: r.at.to(v.StartOffset), ptr: ptr}
	n.key = n.at
	if r.nodes++; r.nodes > maxNodes {
		return nil, tooMany(n.at)
	}
	switch t := v.Value.(type) {
	case hujson.Literal:
		return n, n.literal(t)
	case *hujson.Array:
		n.kind = list
		for i := range t.Elements {
			item, err := r.node(&t.Elements[i], under(ptr, strconv.Itoa(i)))
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
	case *hujson.Object:
		n.kind = object
		seen := map[string]position{}
		for i := range t.Members {
			m := &t.Members[i]
			name, at := m.Name.Value.(hujson.Literal).String(), r.at.to(m.Name.StartOffset)
			value, err := r.node(&m.Value, under(ptr, name))
			if err != nil {
				return nil, err
			}
			value.key = at
			add(n, member{name, at, value}, seen, r.dup)
		}
	}
	return n, nil
}

func (n *node) literal(l hujson.Literal) error {
	switch l.Kind() {
	case 'n':
		n.kind = null
	case 't', 'f':
		n.kind = boolean
	case '"':
		n.kind, n.text = text, l.String()
		return nil
	case '0':
		n.kind = number
	default:
		return &syntaxError{n.at, fmt.Sprintf("%q is no JSON value", string(l)), "correct the JSON at this place"}
	}
	n.text, n.raw = string(l), string(l)
	return nil
}

// add appends m to n; of two of one name the later stays, since the file is
// refused anyway.
func add(n *node, m member, seen map[string]position, dup func(member, position, string)) {
	first, twice := seen[m.name]
	if !twice {
		seen[m.name] = m.at
		n.members = append(n.members, m)
		return
	}
	dup(m, first, under(n.ptr, m.name))
	for i := range n.members {
		if n.members[i].name == m.name {
			n.members[i] = m
		}
	}
}

func tooMany(at position) error {
	return &syntaxError{at, fmt.Sprintf("the file holds more than %d values", maxNodes), "split it, or use fewer aliases"}
}

// tooDeepJSON returns the offset of the first bracket beyond maxDepth, or -1.
// It runs before the parser because that one recurses without a bound.
func tooDeepJSON(data []byte) int {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '[', '{':
			if depth++; depth > maxDepth {
				return i
			}
		case ']', '}':
			depth--
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '/':
			i = skipComment(data, i)
		}
	}
	return -1
}

// skipComment returns the last offset of the comment that begins at i, or i.
func skipComment(data []byte, i int) int {
	rest := data[i:]
	end := -1
	switch {
	case bytes.HasPrefix(rest, []byte("//")):
		end = bytes.IndexByte(rest, '\n')
	case bytes.HasPrefix(rest, []byte("/*")):
		if end = bytes.Index(rest[2:], []byte("*/")); end >= 0 {
			end += 3
		}
	default:
		return i
	}
	if end < 0 {
		return len(data)
	}
	return i + end
}

// cursor turns offsets into positions; it walks forward once, so offsets must
// not fall.
type cursor struct {
	data []byte
	off  int
	pos  position
}

func (c *cursor) to(off int) position {
	for c.off < off && c.off < len(c.data) {
		r, size := utf8.DecodeRune(c.data[c.off:])
		c.off += size
		c.pos.column++
		if r == '\n' {
			c.pos = position{c.pos.line + 1, 1}
		}
	}
	return c.pos
}
