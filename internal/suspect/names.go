package suspect

import (
	"strings"
	"unicode"
)

// Names are those of the tools of all servers, to compare one server's
// definitions with the others'.
type Names struct {
	owners map[string][]string // the servers that have a tool, by its name
	alike  map[string][]string // names, by what they look like
}

// NewNames returns the names of tools, which are given by server.
func NewNames(byServer map[string][]string) *Names {
	n := &Names{owners: map[string][]string{}, alike: map[string][]string{}}
	for server, names := range byServer {
		for _, name := range names {
			if len(n.owners[name]) == 0 {
				s := skeleton(name)
				n.alike[s] = append(n.alike[s], name)
			}
			n.owners[name] = append(n.owners[name], server)
		}
	}
	return n
}

// has reports whether a server has a tool of that name.
func (n *Names) has(server, name string) bool {
	for _, s := range n.owners[name] {
		if s == server {
			return true
		}
	}
	return false
}

// Against says what is suspicious about a definition of a server beside those
// of other servers: a name that looks like one of theirs, and texts that speak
// of their tools.
func (n *Names) Against(server, name string, texts []string) []Flag {
	if n == nil {
		return nil
	}
	var found flags
	for _, other := range n.alike[skeleton(name)] {
		if other != name && !n.has(server, other) {
			found.add(LookAlike, "its name looks like %s of the server %s and is another", other, n.owners[other][0])
		}
	}
	for _, text := range texts {
		for word := range strings.FieldsFuncSeq(text, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-' && r != ':'
		}) {
			n.mention(&found, server, strings.Trim(word, ":-_"))
		}
	}
	return found
}

// mention flags a word that names a tool of another server, and is none that
// people use otherwise.
func (n *Names) mention(found *flags, server, word string) {
	for _, sep := range []string{"__", ":"} {
		if other, tool, ok := strings.Cut(word, sep); ok && other != server && n.has(other, tool) {
			found.add(Mention, "it speaks of %s, a tool of another server", word)
			return
		}
	}
	owners := n.owners[word]
	if len(owners) == 0 || !distinct(word) || n.has(server, word) {
		return
	}
	found.add(Mention, "it speaks of %s, a tool of the server %s", word, owners[0])
}

// distinct reports whether a word is a name rather than a word of a language:
// it has several parts.
func distinct(word string) bool {
	if len(word) < 5 {
		return false
	}
	small := false
	for i, r := range word {
		if i > 0 && (r == '_' || r == '-' || small && unicode.IsUpper(r)) {
			return true
		}
		small = unicode.IsLower(r)
	}
	return false
}

// mixed says which scripts a name mixes of which nobody mixes letters, but to
// make one name look like another; "" for none.
func mixed(name string) string {
	scripts := []struct {
		name  string
		table *unicode.RangeTable
	}{{"Latin", unicode.Latin}, {"Cyrillic", unicode.Cyrillic}, {"Greek", unicode.Greek}, {"Armenian", unicode.Armenian}, {"Cherokee", unicode.Cherokee}, {"Coptic", unicode.Coptic}}
	var found []string
	for _, s := range scripts {
		if strings.ContainsFunc(name, func(r rune) bool { return unicode.Is(s.table, r) }) {
			found = append(found, s.name)
		}
	}
	if len(found) < 2 {
		return ""
	}
	return "mixes letters of " + strings.Join(found, " and ")
}

// lookalikes are letters that look like those of ASCII.
var lookalikes = map[rune]rune{
	'а': 'a', 'с': 'c', 'ԁ': 'd', 'е': 'e', 'һ': 'h', 'і': 'i', 'ј': 'j', 'ӏ': 'l', 'о': 'o', 'р': 'p', 'ԛ': 'q', 'ѕ': 's', 'х': 'x', 'у': 'y', 'ԝ': 'w', 'к': 'k', 'в': 'b', 'м': 'm', 'т': 't', 'н': 'h',
	'α': 'a', 'ο': 'o', 'ρ': 'p', 'ν': 'v', 'ι': 'i', 'κ': 'k', 'τ': 't', 'υ': 'u', 'χ': 'x', 'ϲ': 'c',
	'ı': 'i', 'ɡ': 'g', 'ʟ': 'l', 'ǃ': 'l', 'օ': 'o', 'ո': 'n', 'ս': 'u', 'հ': 'h', 'ɑ': 'a',
	'0': 'o', '1': 'l', '|': 'l',
}

// skeleton is what a name looks like.
func skeleton(name string) string {
	out := strings.Map(func(r rune) rune {
		if class(r) != "" {
			return -1
		}
		if r == 'I' {
			return 'l'
		}
		if r >= 0xFF01 && r <= 0xFF5E { // the wide forms of ASCII
			r -= 0xFEE0
		}
		r = unicode.ToLower(r)
		if to, ok := lookalikes[r]; ok {
			return to
		}
		return r
	}, name)
	return strings.ReplaceAll(out, "rn", "m")
}
