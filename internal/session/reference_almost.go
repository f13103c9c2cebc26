package session

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Malformed says why a string that was meant as a reference is none; "" if it is
// one, or plain text. Whether there is a value of that name is not asked.
func Malformed(s string) (ref Reference, why string) {
	if _, isRef, isEscape := active(s); isRef || isEscape {
		return Reference{}, ""
	}
	return almost(s)
}

// almost returns what a string seems to refer to, although it is no reference: it
// goes on as a path after the name, or there is only space around it. The path is the
// one that was probably meant; nil where that cannot be told. A name and words that
// are no path, as in "@media (print)", are text.
func almost(s string) (ref Reference, why string) {
	text := strings.TrimLeftFunc(s, blank)
	rest, ok := strings.CutPrefix(text, "@")
	if !ok {
		return Reference{}, ""
	}
	if n := span(rest, isSessionByte); n > 0 && n < len(rest) && rest[n] == ':' {
		ref.Session, rest = rest[:n], rest[n+1:]
	}
	n := span(rest, isNameByte)
	if n == 0 || n > maxName || !isNameStart(rest[0]) {
		return Reference{}, ""
	}
	ref.Name, rest = rest[:n], rest[n:]
	path := strings.TrimFunc(rest, blank)
	if steps, err := ParsePath(path); err == nil && (path == "" || path[0] == '.' || path[0] == '[') {
		ref.Path = steps
	}
	for n = 1; rest != "" && n > 0; rest = rest[n:] {
		if _, n = parseStep(rest); n == 0 {
			_, n = parseBracket(rest)
		}
	}
	switch tail := strings.TrimLeftFunc(rest, blank); {
	case tail == "" && rest != "":
		return ref, "there is space after it"
	case rest == "" && text != s:
		return ref, "there is space before it"
	case rest == "":
		return Reference{}, "" // it is one
	case len(path) > len(tail) && tail != path, rest[0] == '.', rest[0] == '[':
		return ref, "it cannot be read at " + strconv.Quote(clip(rest, 40))
	case len(tail) < len(rest) && ref.Path != nil && strings.IndexFunc(tail, blank) < 0:
		return ref, "there is space in it"
	}
	return Reference{}, ""
}

// blank reports whether a character cannot be seen.
func blank(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }

// active says whether a string stands for something else: a reference for a
// value, or an escape, a reference with more than one @ before it, for the
// same with one @ less. What is malformed is escaped likewise: it may be refused
// without.
func active(s string) (ref Reference, isRef, isEscape bool) {
	text := strings.TrimLeftFunc(s, blank)
	at := span(text, func(c byte) bool { return c == '@' })
	if at == 0 || at == 1 && text != s {
		return Reference{}, false, false
	}
	ref, ok := ParseReference(text[at-1:])
	if !ok && at > 1 {
		_, why := almost(text[at-1:])
		return Reference{}, false, why != ""
	}
	return ref, ok && at == 1, ok && at > 1
}

// HasReference says whether there may be a reference or an escape in args, or what
// was meant as one; it only looks for the beginning of such a string.
func HasReference(args []byte) bool {
	for _, sign := range []string{"@", `\u0040`} {
		for rest := args; ; {
			at := bytes.Index(rest, []byte(sign))
			if at < 0 {
				break
			}
			if beginsString(args[:len(args)-len(rest)+at]) {
				return true
			}
			rest = rest[at+len(sign):]
		}
	}
	return false
}

// beginsString reports whether there is nothing to see after the last quote.
func beginsString(b []byte) bool {
	for len(b) > 0 {
		if b[len(b)-1] == '"' {
			return true
		}
		n := 0
		if r, size := utf8.DecodeLastRune(b); blank(r) {
			n = size
		} else if at := bytes.LastIndexByte(b[max(0, len(b)-6):], '\\'); at >= 0 {
			at += max(0, len(b)-6)
			if n = blankEscape(b[at:]); at+n != len(b) {
				n = 0
			}
		}
		if n == 0 {
			return false
		}
		b = b[:len(b)-n]
	}
	return false
}

// blankEscape is the length of the escape that begins b and stands for a character
// that cannot be seen; 0 if none does.
func blankEscape(b []byte) int {
	if len(b) < 2 || b[0] != '\\' {
		return 0
	}
	if strings.IndexByte("tnrf", b[1]) >= 0 {
		return 2
	}
	if b[1] == 'u' && len(b) >= 6 {
		if r, err := strconv.ParseUint(string(b[2:6]), 16, 32); err == nil && blank(rune(r)) {
			return 6
		}
	}
	return 0
}

// atSign is where the @ is that begins a raw string, but for what cannot be seen,
// and its length, in either spelling; 0 if another character does.
func atSign(raw []byte) (start, size int) {
	for i := 1; i < len(raw)-1; {
		if raw[i] == '@' {
			return i, 1
		}
		if bytes.HasPrefix(raw[i:], []byte(`\u0040`)) {
			return i, len(`\u0040`)
		}
		n := blankEscape(raw[i:])
		if r, size := utf8.DecodeRune(raw[i:]); n == 0 && blank(r) {
			n = size
		}
		if n == 0 {
			return 0, 0
		}
		i += n
	}
	return 0, 0
}
