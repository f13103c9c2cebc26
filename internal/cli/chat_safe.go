package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Models and tools say foreign text, which could move the cursor, colour the
// screen, change its title or turn words around. On a terminal such characters
// are shown as what they are, so that a person sees that they are there, and
// they do nothing.

// Joiners are invisible too, but scripts and emoji are written with them.
const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
)

// visible is foreign text that may have several lines, fit for a terminal.
func visible(text string) string {
	return escaped(text, func(r rune) bool {
		return r == '\n' || r == '\t' || r == zeroWidthNonJoiner || r == zeroWidthJoiner || unicode.IsGraphic(r)
	})
}

// visibleLine is foreign text on one line.
func visibleLine(text string) string {
	return escaped(text, func(r rune) bool {
		return r == zeroWidthNonJoiner || r == zeroWidthJoiner || unicode.IsGraphic(r)
	})
}

// exact is text that a person has to decide about: whatever cannot be seen, or
// could be taken for a space, is escaped too. Of JSON it makes the same JSON.
func exact(text string) string {
	return escaped(text, func(r rune) bool { return r == '\n' || unicode.IsPrint(r) })
}

// escaped writes what is not fine as Go and JSON write it.
func escaped(text string, fine func(rune) bool) string {
	if plain(text, fine) {
		return text
	}
	var b strings.Builder
	for i, size := 0, 0; i < len(text); i += size {
		var r rune
		r, size = utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case fine(r):
			b.WriteString(text[i : i+size])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r > 0xffff:
			// As JSON has it, so that arguments stay what they are.
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// plain reports whether there is nothing to escape.
func plain(text string, fine func(rune) bool) bool {
	for i, r := range text {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
				return false
			}
		}
		if !fine(r) {
			return false
		}
	}
	return true
}

// whole splits off the end of text that may be the beginning of a character,
// so that what is streamed is escaped only where it is broken.
func whole(text string) (now, later string) {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		tail := text[len(text)-n:]
		if utf8.RuneStart(tail[0]) {
			if !utf8.FullRuneInString(tail) {
				return text[:len(text)-n], tail
			}
			break
		}
	}
	return text, ""
}
