package wire

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special marks the bytes of x that a string scan must look at: a quote, a
// backslash, a control character or the start of a multi-byte rune. The lowest
// mark is exact; marks above it may be false.
func special(x uint64) uint64 {
	quote := x ^ ones*'"'
	slash := x ^ ones*'\\'
	return ((quote-ones)&^quote | (slash-ones)&^slash | (x-ones*0x20)&^x | x) & highs
}

// str passes over a string, from its opening to its closing quote.
func (s *scanner) str() error {
	s.pos++
	b := s.b
	for {
		for s.pos+8 <= len(b) {
			m := special(binary.LittleEndian.Uint64(b[s.pos:]))
			if m == 0 {
				s.pos += 8
				continue
			}
			s.pos += bits.TrailingZeros64(m) >> 3
			break
		}
		if s.pos >= len(b) {
			return s.fail("the message ends inside a string")
		}
		switch c := b[s.pos]; {
		case c == '"':
			s.pos++
			return nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		case c < 0x20:
			return s.fail("control character %#02x inside a string", c)
		case c < utf8.RuneSelf:
			s.pos++
		default:
			if !s.runes() {
				return s.fail("invalid UTF-8")
			}
		}
	}
}

// runes passes over a run of multi-byte runes. Text in most scripts consists
// of them, so the frequent lengths are told apart here.
func (s *scanner) runes() bool {
	b, i := s.b, s.pos
	for i < len(b) && b[i] >= utf8.RuneSelf {
		switch c := b[i]; {
		case 0xC2 <= c && c <= 0xDF && i+1 < len(b) && isTail(b[i+1]):
			i += 2
		case 0xE1 <= c && c <= 0xEC && i+2 < len(b) && isTail(b[i+1]) && isTail(b[i+2]):
			i += 3
		default:
			r, n := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && n <= 1 {
				s.pos = i
				return false
			}
			i += n
		}
	}
	s.pos = i
	return true
}

func isTail(c byte) bool { return c&0xC0 == 0x80 }

// escape passes over one escape sequence, or two that form a surrogate pair.
func (s *scanner) escape() error {
	if s.pos+1 >= len(s.b) {
		s.pos = len(s.b)
		return s.fail("the message ends inside a string")
	}
	switch s.b[s.pos+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos += 2
		return nil
	case 'u':
	default:
		return s.fail("invalid escape sequence")
	}
	r, ok := hex4(s.b[s.pos:])
	if !ok {
		return s.fail("invalid \\u escape")
	}
	if r < 0xD800 || r > 0xDFFF || s.lax > 0 {
		s.pos += 6
		return nil
	}
	low, ok := hex4(s.b[s.pos+6:])
	if r > 0xDBFF || !ok || low < 0xDC00 || low > 0xDFFF {
		return s.fail("lone surrogate \\u%04x", r)
	}
	s.pos += 12
	return nil
}

// hex4 reads the four digits of an escape sequence that starts b.
func hex4(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// String decodes a raw JSON string, and reports whether raw is one. A lone
// surrogate becomes U+FFFD.
func String(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	s := scanner{b: raw, lax: 1}
	if s.str() != nil || s.pos < len(raw) {
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
			n := 1 + bytes.IndexByte(b[i+1:], '\\')
			if n == 0 {
				return append(out, b[i:]...)
			}
			out = append(out, b[i:i+n]...)
			i += n
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
