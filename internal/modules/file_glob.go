package modules

import (
	"path"
	"regexp"
	"strings"

	"github.com/stoahub/stoa/internal/fault"
)

// glob is a pattern of names: * and ? stay within a name, ** crosses folders,
// [a-z] and {a,b} are choices. Without a slash it is matched with the last
// name of a path only. Nil matches all.
type glob struct {
	re   *regexp.Regexp
	base bool
}

func newGlob(pattern string) (*glob, error) {
	if pattern == "" {
		return nil, nil
	}
	expr, err := globExpr(pattern)
	if err == nil {
		var re *regexp.Regexp
		if re, err = regexp.Compile(expr); err == nil {
			return &glob{re: re, base: !strings.Contains(pattern, "/")}, nil
		}
	}
	e := fault.New(fault.InvalidArguments, "glob", "%q cannot be read as a pattern of names", pattern)
	e.Hint = "Use *, ?, **, [a-z] and {a,b}, for example **/*.go."
	return nil, e.Because(err)
}

func (g *glob) match(name string) bool {
	if g == nil {
		return true
	}
	if g.base {
		name = path.Base(name)
	}
	return g.re.MatchString(name)
}

// globExpr makes an expression of a pattern, which takes linear time whatever
// the pattern.
func globExpr(p string) (string, error) {
	var b strings.Builder
	b.WriteString(`^(?s:`)
	open := 0
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case strings.HasPrefix(p[i:], "**/"):
			b.WriteString(`(?:.*/)?`)
			i += 2
		case strings.HasPrefix(p[i:], "**"):
			b.WriteString(`.*`)
			i++
		case c == '*':
			b.WriteString(`[^/]*`)
		case c == '?':
			b.WriteString(`[^/]`)
		case c == '[':
			class, n := globClass(p[i:])
			if n == 0 {
				return "", path.ErrBadPattern
			}
			b.WriteString(class)
			i += n - 1
		case c == '{':
			b.WriteString(`(?:`)
			open++
		case c == '}' && open > 0:
			b.WriteString(`)`)
			open--
		case c == ',' && open > 0:
			b.WriteString(`|`)
		case c == '\\' && i+1 < len(p):
			i++
			b.WriteString(regexp.QuoteMeta(p[i : i+1]))
		case c < 0x80:
			b.WriteString(regexp.QuoteMeta(p[i : i+1]))
		default:
			b.WriteByte(c) // a part of a rune
		}
	}
	if open > 0 {
		return "", path.ErrBadPattern
	}
	return b.String() + `)$`, nil
}

// globClass reads a choice of characters at the beginning of p, and says how
// long it is; 0 means that it does not end.
func globClass(p string) (expr string, n int) {
	body := p[1:]
	not := ""
	if len(body) > 0 && (body[0] == '!' || body[0] == '^') {
		not, body = "^", body[1:]
	}
	end := strings.IndexByte(body, ']')
	if end == 0 && len(body) > 1 {
		end = 1 + strings.IndexByte(body[1:], ']') // a bracket that comes first is meant itself
	}
	if end <= 0 {
		return "", 0
	}
	in := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `^`, `\^`, `&`, `\&`).Replace(body[:end])
	return "[" + not + in + "]", 1 + len(not) + end + 1
}
