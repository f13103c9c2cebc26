package wire

import (
	"bytes"
	"fmt"
)

// MaxDepth is the nesting that a scan allows by default.
const MaxDepth = 1000

// SyntaxError says what is wrong with a message, and where.
type SyntaxError struct {
	Offset int
	Msg    string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.Msg, e.Offset) }

// A scanner walks one JSON text. It is reused through Message so that a scan
// of a small message allocates nothing.
type scanner struct {
	b        []byte
	pos      int
	depth    int
	maxDepth int
	lax      int      // > 0 inside a part where duplicates and lone surrogates are tolerated
	nameAt   int      // where the last name starts; a visitor reads it before it goes on
	names    [][]byte // unescaped names of all open strict objects, innermost last
}

func (s *scanner) fail(format string, args ...any) error {
	return &SyntaxError{Offset: s.pos, Msg: fmt.Sprintf(format, args...)}
}

func (s *scanner) space() {
	for s.pos < len(s.b) {
		switch s.b[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

func (s *scanner) peek() byte {
	if s.pos < len(s.b) {
		return s.b[s.pos]
	}
	return 0
}

func (s *scanner) unexpected(want string) error {
	if s.pos >= len(s.b) {
		return s.fail("the message ends where %s was expected", want)
	}
	return s.fail("unexpected %q where %s was expected", s.b[s.pos:s.pos+1], want)
}

// value passes over one value.
func (s *scanner) value() error {
	switch c := s.peek(); {
	case c == '"':
		return s.str()
	case c == '{':
		return s.object(nil)
	case c == '[':
		return s.array(nil)
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	}
	return s.unexpected("a value")
}

func (s *scanner) literal(word string) error {
	if !bytes.HasPrefix(s.b[s.pos:], []byte(word)) {
		return s.unexpected("a value")
	}
	s.pos += len(word)
	return nil
}

func (s *scanner) enter() error {
	if s.depth++; s.depth > s.maxDepth {
		return s.fail("nesting is deeper than %d levels", s.maxDepth)
	}
	s.pos++
	s.space()
	return nil
}

// array passes over an array and, with visit, leaves its elements to it.
func (s *scanner) array(visit func() error) error {
	if err := s.enter(); err != nil {
		return err
	}
	if s.peek() == ']' {
		s.pos++
		s.depth--
		return nil
	}
	for {
		var err error
		if visit != nil {
			err = visit()
		} else {
			err = s.value()
		}
		if err != nil {
			return err
		}
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
			s.space()
		case ']':
			s.pos++
			s.depth--
			return nil
		default:
			return s.unexpected("',' or ']'")
		}
	}
}

// A visitor is called with the unescaped name of a member and the scanner at
// its value, which the visitor passes over itself.
type visitor func(name []byte) error

// object passes over an object and, with visit, leaves its values to it.
func (s *scanner) object(visit visitor) error {
	if err := s.enter(); err != nil {
		return err
	}
	if s.peek() == '}' {
		s.pos++
		s.depth--
		return nil
	}
	base := len(s.names)
	var seen map[string]struct{} // only for objects with many names
	for {
		name, err := s.name(base, &seen, visit != nil)
		if err != nil {
			return err
		}
		if visit != nil {
			err = visit(name)
		} else {
			err = s.value()
		}
		if err != nil {
			return err
		}
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
			s.space()
		case '}':
			s.pos++
			s.depth--
			s.names = s.names[:base]
			return nil
		default:
			return s.unexpected("',' or '}'")
		}
	}
}

// manyNames is where looking for duplicates changes from comparing to hashing.
const manyNames = 24

// name reads a member's name and its colon, and refuses a duplicate. The name
// is unescaped only where it is compared or wanted: it costs an allocation.
func (s *scanner) name(base int, seen *map[string]struct{}, wanted bool) ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.unexpected("a name")
	}
	start := s.pos
	if err := s.str(); err != nil {
		return nil, err
	}
	s.nameAt = start
	name := s.b[start+1 : s.pos-1]
	if (wanted || s.lax == 0) && bytes.IndexByte(name, '\\') >= 0 {
		name = unescape(name)
	}
	if s.lax == 0 {
		if s.taken(name, base, seen) {
			s.pos = start
			return nil, s.fail("duplicate name %.80q", name)
		}
		s.names = append(s.names, name)
	}
	s.space()
	if s.peek() != ':' {
		return nil, s.unexpected("':'")
	}
	s.pos++
	s.space()
	return name, nil
}

func (s *scanner) taken(name []byte, base int, seen *map[string]struct{}) bool {
	open := s.names[base:]
	if *seen == nil {
		for _, n := range open {
			if bytes.Equal(n, name) {
				return true
			}
		}
		if len(open) >= manyNames {
			*seen = make(map[string]struct{}, 4*manyNames)
			for _, n := range open {
				(*seen)[string(n)] = struct{}{}
			}
			(*seen)[string(name)] = struct{}{}
		}
		return false
	}
	if _, dup := (*seen)[string(name)]; dup {
		return true
	}
	(*seen)[string(name)] = struct{}{}
	return false
}

func (s *scanner) number() error {
	if s.peek() == '-' {
		s.pos++
	}
	switch c := s.peek(); {
	case c == '0':
		s.pos++
	case '1' <= c && c <= '9':
		s.digits()
	default:
		return s.unexpected("a digit")
	}
	if s.peek() == '.' {
		s.pos++
		if !s.digits() {
			return s.unexpected("a digit")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if !s.digits() {
			return s.unexpected("a digit")
		}
	}
	return nil
}

func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.b) && '0' <= s.b[s.pos] && s.b[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > start
}
