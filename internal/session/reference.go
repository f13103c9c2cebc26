package session

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// maxName is the length of the longest name of a value.
const maxName = 64

// Reference is a string @[session:]name(.member|[index]|["any key"])* that
// stands for a stored value or a part of one. An index below 0 counts from the
// end.
type Reference struct {
	Session string // empty means the Session of the call
	Name    string
	Path    []Step
}

// Step goes from a value to one of its parts.
type Step struct {
	Member  string // of an object; for an index its digits where they are not as strconv writes them
	Index   int    // of an array, from 0; below 0, from its end: -1 is the last
	IsIndex bool
}

// At is the step to an element of an array.
func At(index int) Step { return Step{Index: index, IsIndex: true} }

// Member is the step to a member of an object.
func Member(name string) Step { return Step{Member: name} }

// ParseReference reads a reference. A string that is none, be it by one
// character, is plain text.
func ParseReference(s string) (Reference, bool) {
	rest, ok := strings.CutPrefix(s, "@")
	if !ok {
		return Reference{}, false
	}
	var r Reference
	if n := span(rest, isSessionByte); n > 0 && n < len(rest) && rest[n] == ':' {
		r.Session, rest = rest[:n], rest[n+1:]
	}
	n := span(rest, isNameByte)
	if n == 0 || n > maxName || !isNameStart(rest[0]) {
		return Reference{}, false
	}
	r.Name, rest = rest[:n], rest[n:]
	for rest != "" {
		step, n := parseStep(rest)
		if n == 0 {
			step, n = parseBracket(rest)
		}
		if n == 0 {
			return Reference{}, false
		}
		r.Path, rest = append(r.Path, step), rest[n:]
	}
	return r, true
}

// parseStep reads the step that begins s and returns its length, 0 if there is
// none.
func parseStep(s string) (Step, int) {
	switch s[0] {
	case '.':
		if n := memberLength(s[1:]); n > 0 {
			return Member(s[1 : 1+n]), 1 + n
		}
	case '[':
		sign := 0
		if len(s) > 1 && s[1] == '-' {
			sign = 1
		}
		n := span(s[1+sign:], isDigit)
		if end := 1 + sign + n; n > 0 && end < len(s) && s[end] == ']' {
			step := indexOf(s[1+sign : end])
			if sign == 1 {
				if n > 18 || step.Index == 0 || step.Member != "" {
					return Step{}, 0 // no array is so long, and there is one way to write the others
				}
				step.Index = -step.Index
			}
			return step, end + 1
		}
	}
	return Step{}, 0
}

// memberLength is the length of the member that begins s: letters and digits of
// any script, underscores and hyphens.
func memberLength(s string) int {
	for i, r := range s {
		if r == utf8.RuneError || r < utf8.RuneSelf && !isNameByte(byte(r)) || r >= utf8.RuneSelf && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) {
			return i
		}
	}
	return len(s)
}

// indexOf is the step to the element that digits name. No array is as long as
// what does not fit an int, so any number will do for it.
func indexOf(digits string) Step {
	i, err := strconv.Atoi(digits)
	if err != nil {
		return Step{Member: digits, Index: math.MaxInt, IsIndex: true}
	}
	if digits[0] == '0' && len(digits) > 1 {
		return Step{Member: digits, Index: i, IsIndex: true}
	}
	return At(i)
}

// String writes the reference as it is read. Members that the grammar has no
// form for are quoted as in a path.
func (r Reference) String() string {
	b := []byte("@")
	if r.Session != "" {
		b = append(append(b, r.Session...), ':')
	}
	return string(appendPath(append(b, r.Name...), r.Path))
}

// FormatPath writes path as ParsePath reads it; the empty path is "".
func FormatPath(path []Step) string { return string(appendPath(nil, path)) }

func appendPath(dst []byte, path []Step) []byte {
	for _, s := range path {
		switch {
		case s.IsIndex && s.Member != "":
			dst = append(append(append(dst, '['), s.Member...), ']')
		case s.IsIndex:
			dst = append(strconv.AppendInt(append(dst, '['), int64(s.Index), 10), ']')
		case s.Member != "" && span(s.Member, isNameByte) == len(s.Member):
			dst = append(append(dst, '.'), s.Member...)
		default:
			dst = append(wire.AppendString(append(dst, '['), s.Member), ']')
		}
	}
	return dst
}

// ParsePath reads a path: members and indices as in a reference, the first
// member with or without its dot, and ["any key"] for names that a reference
// cannot have. A plain member may hold whatever is no dot and no bracket. The
// empty path is the whole value.
func ParsePath(s string) ([]Step, error) {
	var path []Step
	for i := 0; i < len(s); {
		var step Step
		var n int
		switch {
		case s[i] == '[':
			step, n = parseBracket(s[i:])
		case s[i] == '.':
			if n = plainMember(s[i+1:]); n > 0 {
				step, n = Member(s[i+1:i+1+n]), n+1
			}
		case i == 0:
			n = plainMember(s)
			step = Member(s[:n])
		}
		if n == 0 {
			return nil, &fault.Error{
				Kind: fault.InvalidArguments, Subject: "path",
				Msg:  "it cannot be read at " + strconv.Quote(clip(s[i:], 40)),
				Hint: `Write members and indices as in .items[0].name, and names with other characters as in ["a key"].`,
			}
		}
		path, i = append(path, step), i+n
	}
	return path, nil
}

func plainMember(s string) int {
	if n := strings.IndexAny(s, ".[]"); n >= 0 {
		return n
	}
	return len(s)
}

// parseBracket reads [12], ["key"] or ['key'].
func parseBracket(s string) (Step, int) {
	if step, n := parseStep(s); n > 0 {
		return step, n
	}
	if len(s) < 4 {
		return Step{}, 0
	}
	switch s[1] {
	case '\'':
		if n := strings.Index(s[2:], "']"); n >= 0 {
			return Member(s[2 : 2+n]), n + 4
		}
	case '"':
		end := 2
		for ; end < len(s) && s[end] != '"'; end++ {
			if s[end] == '\\' {
				end++
			}
		}
		if end+1 >= len(s) || s[end+1] != ']' {
			return Step{}, 0
		}
		if name, ok := wire.String([]byte(s[1 : end+1])); ok {
			return Member(name), end + 2
		}
	}
	return Step{}, 0
}

// ValidName says whether a value may have that name, and if not, what is
// allowed.
func ValidName(name string) error {
	if name != "" && len(name) <= maxName && isNameStart(name[0]) && span(name, isNameByte) == len(name) {
		return nil
	}
	return &fault.Error{
		Kind: fault.InvalidArguments, Subject: "name",
		Msg:  strconv.Quote(clip(name, 80)) + " cannot be the name of a value",
		Hint: "Use 1 to 64 letters of a-z and A-Z, digits, underscores and hyphens, beginning with a letter or an underscore.",
	}
}

// span is the length of the run of bytes of a class that begins s.
func span(s string, class func(byte) bool) int {
	for i := range len(s) {
		if !class(s[i]) {
			return i
		}
	}
	return len(s)
}

func isDigit(c byte) bool       { return '0' <= c && c <= '9' }
func isNameStart(c byte) bool   { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' }
func isSessionByte(c byte) bool { return isNameStart(c) || isDigit(c) }
func isNameByte(c byte) bool    { return isSessionByte(c) || c == '-' }

// clip shortens s to at most n bytes for a message.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
