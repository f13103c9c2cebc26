package policy

import (
	"slices"
	"strings"
)

// A URI can be written in many ways, and servers differ in which of them they
// take for the same. A rule looks at a URI as it came and as it may be understood:
// one that allows has to match each way, for one that asks or denies one is
// enough.

// spellings are the ways to read a URI besides the one in which it came.
type spellings struct {
	whole []string // all of it: an allow rule has to match these as well
	bare  []string // without query and fragment, which some servers do not look at
}

func spellingsOf(text string) (s spellings) {
	u := parseURI(text)
	normal, plain := u.normal(), u.plain()
	add := func(to *[]string, one string) {
		if one != text && !slices.Contains(*to, one) {
			*to = append(*to, one)
		}
	}
	add(&s.whole, normal.text())
	add(&s.whole, plain.text())
	for _, one := range []uri{normal, plain} {
		one.query, one.fragment = "", ""
		add(&s.bare, one.text())
		if one.path = strings.TrimRight(one.path, "/ "); one.path != "" {
			add(&s.bare, one.text())
		}
	}
	return s
}

// Spellings are a URI, and the other ways in which a server may be written to
// about what it stands for.
func Spellings(text string) []string {
	s := spellingsOf(text)
	return slices.Concat([]string{text}, s.whole, s.bare)
}

// uri is a URI in its parts. Query and fragment begin with their sign.
type uri struct {
	scheme, authority, path, query, fragment string

	hasAuthority bool
}

// parseURI splits a URI as browsers and the libraries of most servers do: these
// take no notice of line breaks and tabs, nor of spaces around it.
func parseURI(text string) (u uri) {
	rest := strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(strings.TrimFunc(text, func(r rune) bool { return r <= ' ' }))
	if i := strings.IndexByte(rest, '#'); i >= 0 {
		rest, u.fragment = rest[:i], rest[i:]
	}
	if i := strings.IndexByte(rest, '?'); i >= 0 {
		rest, u.query = rest[:i], rest[i:]
	}
	// A single letter is a drive.
	if i := strings.IndexByte(rest, ':'); i > 1 && isScheme(rest[:i]) {
		u.scheme, rest = strings.ToLower(rest[:i]), rest[i+1:]
	}
	if u.ofTheWeb() {
		rest = strings.ReplaceAll(rest, `\`, "/")
	}
	switch {
	case u.ofTheWeb() && u.scheme != "file": // whatever slashes there are
		rest = "//" + strings.TrimLeft(rest, "/")
	case u.scheme == "file" && !strings.HasPrefix(rest, "//"):
		rest = "///" + strings.TrimLeft(rest, "/")
	}
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		u.hasAuthority = true
		if i := strings.IndexByte(after, '/'); i >= 0 {
			u.authority, rest = after[:i], after[i:]
		} else {
			u.authority, rest = after, ""
		}
		if rest == "" && u.ofTheWeb() {
			rest = "/"
		}
	}
	u.path = rest
	return u
}

// ofTheWeb reports whether the scheme is one that the URL standard of the web
// has exceptions for.
func (u *uri) ofTheWeb() bool {
	switch u.scheme {
	case "http", "https", "ws", "wss", "ftp", "file":
		return true
	}
	return false
}

func isScheme(s string) bool {
	for i, c := range []byte(s) {
		if isLetter(c) || i > 0 && (c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.') {
			continue
		}
		return false
	}
	return true
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// normal is the normal form that RFC 3986 describes: scheme and host in small
// letters, nothing percent-encoded that need not be, no dot segments, no empty
// query or fragment.
func (u uri) normal() uri {
	u.authority = lowerHost(decode(u.authority, unreserved))
	u.path = withoutDots(decode(u.path, unreserved))
	u.query, u.fragment = notEmpty(decode(u.query, unreserved)), notEmpty(decode(u.fragment, unreserved))
	return u
}

// plain is what a server may make of the normal form that decodes all of it and
// takes it for a path: without who logs in, the port that the scheme has anyway,
// and slashes that stand for none.
func (u uri) plain() uri {
	u = u.normal()
	u.authority = u.host()
	u.path = strings.ReplaceAll(decode(u.path, anything), `\`, "/")
	for strings.Contains(u.path, "//") {
		u.path = strings.ReplaceAll(u.path, "//", "/")
	}
	u.path = withoutDots(u.path)
	u.query, u.fragment = decode(u.query, anything), decode(u.fragment, anything)
	return u
}

// host is the authority without what does not tell it from others.
func (u *uri) host() string {
	host := decode(u.authority[strings.LastIndexByte(u.authority, '@')+1:], anything)
	if name, port, ok := strings.Cut(host, ":"); ok && !strings.Contains(port, ":") {
		usual := map[string]string{"http": "80", "ws": "80", "https": "443", "wss": "443", "ftp": "21"}[u.scheme]
		if port == "" || port == usual {
			host = name
		}
	}
	if u.scheme == "file" && host == "localhost" {
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func (u *uri) text() string {
	var b strings.Builder
	if u.scheme != "" {
		b.WriteString(u.scheme + ":")
	}
	if u.hasAuthority {
		b.WriteString("//" + u.authority)
	}
	b.WriteString(u.path + u.query + u.fragment)
	return b.String()
}

func notEmpty(part string) string {
	if len(part) == 1 {
		return ""
	}
	return part
}

func lowerHost(authority string) string {
	i := strings.LastIndexByte(authority, '@') + 1
	return authority[:i] + strings.ToLower(authority[i:])
}

// withoutDots resolves the segments . and .. of a path. What leads above its
// beginning ends there.
func withoutDots(path string) string {
	if !strings.Contains(path, ".") {
		return path
	}
	rest, rooted := strings.CutPrefix(path, "/")
	var kept []string
	segments := strings.Split(rest, "/")
	for i, s := range segments {
		switch s {
		case "..":
			kept = kept[:max(0, len(kept)-1)]
			fallthrough
		case ".":
			if i == len(segments)-1 {
				kept = append(kept, "")
			}
		default:
			kept = append(kept, s)
		}
	}
	path = strings.Join(kept, "/")
	if rooted {
		path = "/" + path
	}
	return path
}

func unreserved(c byte) bool {
	return isLetter(c) || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

func anything(byte) bool { return true }

// decode replaces the percent-encoded characters that which names, and writes the
// others in capitals.
func decode(s string, which func(byte) bool) string {
	if !strings.Contains(s, "%") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' || i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
			out = append(out, s[i])
			continue
		}
		if c := unhex(s[i+1])<<4 | unhex(s[i+2]); which(c) {
			out = append(out, c)
		} else {
			out = append(out, strings.ToUpper(s[i:i+3])...)
		}
		i += 2
	}
	return string(out)
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

// inForms are patterns of URIs as they came, and as they have to be to match a
// URI in another form. What stands for any text stays where it is.
func inForms(patterns []string) (out []string) {
	out = slices.Clone(patterns)
	for _, p := range patterns {
		i := strings.IndexAny(p, "*?")
		switch {
		case strings.ContainsAny(p, `[\`): // a set is no part of a URI
		case i < 0:
			out = append(out, spellingsOf(p).whole...)
		case i > 0:
			u := parseURI(p[:i])
			at := strings.LastIndexByte(u.path, '/') + 1
			rest := u.path[at:] + p[i:] // what is before the star may be a part of a segment
			u.path = u.path[:at]
			normal, plain := u.normal(), u.plain()
			out = append(out, literally(normal.text())+decode(rest, unreserved), literally(plain.text())+decode(rest, noSign))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// noSign names the characters that mean nothing in a pattern.
func noSign(c byte) bool { return !strings.ContainsRune(`*?[\`, rune(c)) }

// literally is a pattern that means a text.
func literally(text string) string {
	return strings.NewReplacer("*", `\*`, "?", `\?`, "[", `\[`, `\`, `\\`).Replace(text)
}
