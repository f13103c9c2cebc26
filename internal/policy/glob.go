package policy

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// glob is a compiled pattern: * stands for any text, ? for one character,
// [a-z] for one of a set and [^a-z] for one that is not in it; \ takes the
// character after it literally. The syntax is that of path.Match, but a slash
// is a character like any other. The zero glob matches nothing.
type glob struct {
	how    byte
	text   string  // what an exact, prefix, suffix or inner pattern looks for
	tokens []token // of a pattern that is none of these
}

// How a glob matches. Most patterns that people write are one of the simple
// ones, which need no more than a comparison.
const (
	matchNothing byte = iota
	matchAll
	matchExact
	matchPrefix
	matchSuffix
	matchInner
	matchTokens
)

// token is one step of a pattern.
type token struct {
	kind   byte // tokenRune, tokenAny, tokenSet, tokenStar
	r      rune
	not    bool
	ranges []runeRange
}

type runeRange struct{ lo, hi rune }

const (
	tokenRune byte = iota
	tokenAny
	tokenSet
	tokenStar
)

var errPattern = errors.New("bad pattern")

// compileGlob reads a pattern. It fails where path.Match would.
func compileGlob(pattern string) (glob, error) {
	tokens, err := parseGlob(pattern)
	if err != nil {
		return glob{}, err
	}
	inner := tokens
	var before, after bool
	if len(inner) > 0 && inner[0].kind == tokenStar {
		before, inner = true, inner[1:]
	}
	if len(inner) > 0 && inner[len(inner)-1].kind == tokenStar {
		after, inner = true, inner[:len(inner)-1]
	}
	var text strings.Builder
	for _, t := range inner {
		// An invalid byte is read as U+FFFD, which would not compare equal.
		if t.kind != tokenRune || t.r == utf8.RuneError {
			return glob{how: matchTokens, tokens: tokens}, nil
		}
		text.WriteRune(t.r)
	}
	g := glob{how: matchExact, text: text.String()}
	switch {
	case before && (after || g.text == ""):
		g.how = matchInner
	case before:
		g.how = matchSuffix
	case after:
		g.how = matchPrefix
	}
	if g.text == "" && g.how != matchExact {
		g.how = matchAll
	}
	return g, nil
}

// parseGlob splits a pattern into tokens; consecutive stars become one.
func parseGlob(p string) (out []token, err error) {
	for p != "" {
		switch p[0] {
		case '*':
			if len(out) == 0 || out[len(out)-1].kind != tokenStar {
				out = append(out, token{kind: tokenStar})
			}
			p = p[1:]
		case '?':
			out = append(out, token{kind: tokenAny})
			p = p[1:]
		case '[':
			var t token
			if t, p, err = parseSet(p[1:]); err != nil {
				return nil, err
			}
			out = append(out, t)
		default:
			if p[0] == '\\' {
				if p = p[1:]; p == "" {
					return nil, errPattern
				}
			}
			r, n := utf8.DecodeRuneInString(p)
			out = append(out, token{kind: tokenRune, r: r})
			p = p[n:]
		}
	}
	return out, nil
}

// parseSet reads what follows the bracket of a set.
func parseSet(p string) (t token, rest string, err error) {
	t.kind = tokenSet
	if strings.HasPrefix(p, "^") {
		t.not, p = true, p[1:]
	}
	for {
		if strings.HasPrefix(p, "]") && len(t.ranges) > 0 {
			return t, p[1:], nil
		}
		var one runeRange
		if one.lo, p, err = parseMember(p); err != nil {
			return t, "", err
		}
		one.hi = one.lo
		if strings.HasPrefix(p, "-") {
			if one.hi, p, err = parseMember(p[1:]); err != nil {
				return t, "", err
			}
		}
		t.ranges = append(t.ranges, one)
	}
}

// parseMember reads one character of a set.
func parseMember(p string) (rune, string, error) {
	if p == "" || p[0] == '-' || p[0] == ']' {
		return 0, "", errPattern
	}
	if p[0] == '\\' {
		if p = p[1:]; p == "" {
			return 0, "", errPattern
		}
	}
	r, n := utf8.DecodeRuneInString(p)
	if r == utf8.RuneError && n == 1 || n == len(p) { // the set must be closed
		return 0, "", errPattern
	}
	return r, p[n:], nil
}

// match reports whether the pattern stands for all of s.
func (g *glob) match(s string) bool {
	switch g.how {
	case matchAll:
		return true
	case matchExact:
		return s == g.text
	case matchPrefix:
		return strings.HasPrefix(s, g.text)
	case matchSuffix:
		return strings.HasSuffix(s, g.text)
	case matchInner:
		return strings.Contains(s, g.text)
	case matchTokens:
		return matchSteps(g.tokens, s)
	}
	return false
}

// matchSteps matches with one place to return to, the last star: a star takes
// as little as it can, so what an earlier one takes never has to change.
func matchSteps(tokens []token, s string) bool {
	at, star, from := 0, -1, 0
	for i := 0; i < len(s); {
		if at < len(tokens) && tokens[at].kind == tokenStar {
			star, from = at, i
			at++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if at < len(tokens) && tokens[at].takes(r) {
			at++
			i += n
			continue
		}
		if star < 0 {
			return false
		}
		_, n = utf8.DecodeRuneInString(s[from:])
		from += n
		at, i = star+1, from
	}
	for at < len(tokens) && tokens[at].kind == tokenStar {
		at++
	}
	return at == len(tokens)
}

// takes reports whether the token, which is no star, stands for r.
func (t *token) takes(r rune) bool {
	switch t.kind {
	case tokenRune:
		return t.r == r
	case tokenAny:
		return true
	}
	for _, one := range t.ranges {
		if one.lo <= r && r <= one.hi {
			return !t.not
		}
	}
	return t.not
}

// globs are patterns of which one has to match.
type globs []glob

// compileGlobs compiles patterns. Those that are none match everything, which
// is for the caller to make safe; bad lists their indices.
func compileGlobs(patterns []string) (out globs, bad []int) {
	out = make(globs, len(patterns))
	for i, p := range patterns {
		g, err := compileGlob(p)
		if err != nil || p == "" {
			bad = append(bad, i)
			g = glob{how: matchAll}
		}
		out[i] = g
	}
	return out, bad
}

func (gs globs) match(s string) bool {
	for i := range gs {
		if gs[i].match(s) {
			return true
		}
	}
	return false
}

// matchNames reports whether a pattern matches one of the names that are there.
func (gs globs) matchNames(names ...string) bool {
	for i := range gs {
		if gs[i].how == matchAll {
			return true
		}
		for _, name := range names {
			if name != "" && gs[i].match(name) {
				return true
			}
		}
	}
	return false
}
