// Package shape owns how tools are made to fit what a provider takes: their
// names and the schemas of their arguments. A schema that cannot be made to
// fit is an error with the reason; nothing is sent in the hope that it passes,
// since one bad schema makes a provider refuse the whole request.
//
// What is lost on the way (a pattern, a bound) only makes the model freer: the
// arguments are checked against the tool's own schema when it is called.
package shape

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/stoahub/stoa/internal/llm"
)

// Names translates between our names of tools and those that a provider
// takes. It is made for one request.
type Names struct {
	rule Rule
	out  map[string]string
	back map[string]string
}

// Rule is what a provider demands of a name, beyond letters, digits and _.
type Rule struct {
	Max    int
	Also   string // further characters
	Letter bool   // it begins with a letter or _
}

// NewNames knows the names of the request's tools and of the calls in its
// history. A name that fits as it is keeps itself, whatever others become.
func NewNames(rule Rule, req llm.Request) *Names {
	n := &Names{rule: rule, out: map[string]string{}, back: map[string]string{}}
	var names []string
	for _, t := range req.Tools {
		names = append(names, t.Name)
	}
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			if p.Call != nil && p.Call.Name != "" {
				names = append(names, p.Call.Name)
			}
		}
	}
	for _, name := range names {
		if n.fit(name) == name && len(name) <= rule.Max {
			n.Out(name)
		}
	}
	for _, name := range names {
		n.Out(name)
	}
	return n
}

// Out returns the provider's name for ours.
func (n *Names) Out(name string) string {
	if s, ok := n.out[name]; ok {
		return s
	}
	s := n.fit(name)
	if other, taken := n.back[s]; taken && other != name || len(s) > n.rule.Max {
		sum := sha256.Sum256([]byte(name))
		end := "_" + hex.EncodeToString(sum[:4])
		s = s[:min(len(s), n.rule.Max-len(end))] + end
	}
	n.out[name], n.back[s] = s, name
	return s
}

func (n *Names) fit(name string) string {
	s := strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || strings.ContainsRune(n.rule.Also, r)) {
			return r
		}
		return '_'
	}, name)
	if s == "" || n.rule.Letter && !(s[0] == '_' || s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z') {
		s = "_" + s
	}
	return s
}

// Back returns our name for the provider's; one that we did not give stays as
// it is.
func (n *Names) Back(name string) string {
	if s, ok := n.back[name]; ok {
		return s
	}
	return name
}
