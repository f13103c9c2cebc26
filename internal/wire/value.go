package wire

import "bytes"

// Valid reports whether b is one JSON value under trust's rules.
func Valid(b []byte, trust Trust) error {
	s := scanner{b: b, maxDepth: MaxDepth}
	if trust == FromUpstream {
		s.lax = 1
	}
	s.space()
	if err := s.value(); err != nil {
		return err
	}
	if !s.end() {
		return s.fail("data after the value")
	}
	return nil
}

// Members returns the members of the object obj in their order, or nil if obj
// is not an object. Duplicates are kept.
func Members(obj []byte) []Field {
	var out []Field
	if !members(obj, func(f Field) { out = append(out, f) }) {
		return nil
	}
	return out
}

// Get returns the raw value of obj's first member of that name, or nil.
func Get(obj []byte, name string) []byte {
	var out []byte
	ok := members(obj, func(f Field) {
		if out == nil && string(f.Name) == name {
			out = f.Value
		}
	})
	if !ok {
		return nil
	}
	return out
}

func members(obj []byte, visit func(Field)) bool {
	s := scanner{b: obj, maxDepth: MaxDepth, lax: 1}
	s.space()
	if s.peek() != '{' {
		return false
	}
	err := s.object(func(name []byte) error {
		start := s.pos
		if err := s.value(); err != nil {
			return err
		}
		visit(Field{name, obj[start:s.pos]})
		return nil
	})
	return err == nil && s.end()
}

// Elements returns the elements of the array arr, and whether it is one.
func Elements(arr []byte) ([][]byte, bool) {
	s := scanner{b: arr, maxDepth: MaxDepth, lax: 1}
	s.space()
	if s.peek() != '[' {
		return nil, false
	}
	var out [][]byte
	err := s.array(func() error {
		start := s.pos
		if err := s.value(); err != nil {
			return err
		}
		out = append(out, arr[start:s.pos])
		return nil
	})
	if err != nil || !s.end() {
		return nil, false
	}
	return out, true
}

// end reports whether nothing but space is left.
func (s *scanner) end() bool {
	s.space()
	return s.pos == len(s.b)
}

// OneLine replaces line breaks between tokens by spaces, in place, so that b
// fits a line of a pipe or of an event. Inside JSON strings there are none.
func OneLine(b []byte) []byte {
	for _, c := range []byte{'\n', '\r'} {
		for rest := b; ; {
			i := bytes.IndexByte(rest, c)
			if i < 0 {
				break
			}
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
	return b
}
