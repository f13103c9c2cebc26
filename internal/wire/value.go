package wire

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

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
	s.space()
	if s.pos < len(b) {
		return s.fail("data after the value")
	}
	return nil
}

// Members returns the members of the object obj in their order, or nil if obj
// is not an object. Duplicates are kept.
func Members(obj []byte) []Field {
	s := scanner{b: obj, maxDepth: MaxDepth, lax: 1}
	s.space()
	if s.peek() != '{' {
		return nil
	}
	var out []Field
	err := s.object(func(name []byte) error {
		start := s.pos
		if err := s.value(); err != nil {
			return err
		}
		out = append(out, Field{name, obj[start:s.pos]})
		return nil
	})
	if err != nil {
		return nil
	}
	return out
}

// Elements returns the elements of the array arr, and whether it is one.
func Elements(arr []byte) ([][]byte, bool) {
	s := scanner{b: arr, maxDepth: MaxDepth, lax: 1}
	s.space()
	if s.peek() != '[' {
		return nil, false
	}
	var out [][]byte
	if err := s.array(func(v []byte) { out = append(out, v) }); err != nil {
		return nil, false
	}
	return out, true
}

// Get returns the raw value of obj's first member of that name, or nil.
func Get(obj []byte, name string) []byte { return lookup(Members(obj), name) }

// String decodes a raw JSON string, and reports whether raw is one.
func String(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", false
	}
	raw = raw[1 : len(raw)-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw), true
	}
	return string(unescape(raw)), true
}

// unescape decodes the inside of a string that has been scanned. A lone
// surrogate becomes U+FFFD.
func unescape(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		if b[i] != '\\' || i+1 >= len(b) {
			out = append(out, b[i])
			i++
			continue
		}
		switch c := b[i+1]; c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, ok := hex4(b[i:])
			if !ok {
				return append(out, b[i:]...)
			}
			i += 6
			if utf16.IsSurrogate(r) {
				low, ok := hex4(b[i:])
				if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
					r = pair
					i += 6
				} else {
					r = utf8.RuneError
				}
			}
			out = utf8.AppendRune(out, r)
			continue
		default:
			out = append(out, c)
		}
		i += 2
	}
	return out
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
			dst = append(append(dst, s[start:i]...), "\ufffd"...)
			i++
			start = i
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

// Quote returns s as a JSON string.
func Quote(s string) []byte { return AppendString(make([]byte, 0, len(s)+2), s) }

// Change is one member to set or, with a nil Value, to drop.
type Change struct {
	Name  string
	Value []byte
}

// Edit appends obj to dst with the changes made. A member that is set keeps
// its place; a new one goes to the end, in the order of changes. All other
// bytes stay as they are. A nil or empty obj counts as {}.
func Edit(dst, obj []byte, changes ...Change) []byte {
	return EditFields(dst, Members(obj), changes...)
}

// EditFields is Edit for an object that has been taken apart already.
func EditFields(dst []byte, fields []Field, changes ...Change) []byte {
	dst = append(dst, '{')
	first := true
	put := func(name, value []byte, quoted bool) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		if quoted {
			dst = append(dst, name...)
		} else {
			dst = AppendString(dst, string(name))
		}
		dst = append(dst, ':')
		dst = append(dst, value...)
	}
	for _, f := range fields {
		value := f.Value
		for _, c := range changes {
			if string(f.Name) == c.Name {
				value = c.Value
			}
		}
		if value != nil {
			put(f.Name, value, false)
		}
	}
	for _, c := range changes {
		if c.Value != nil && lookup(fields, c.Name) == nil {
			put(Quote(c.Name), c.Value, true)
		}
	}
	return append(dst, '}')
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
