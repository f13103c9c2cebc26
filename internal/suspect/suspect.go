// Package suspect finds text that tries to instruct the model that reads it:
// characters nobody sees, names made to be taken for another, and phrases that
// no honest definition needs.
//
// It is pure. A flag is a reason to look, not a verdict: what follows from it is
// for others to decide.
package suspect

import (
	"fmt"
	"slices"
	"strings"
)

// Flag is one thing that is suspicious about a text.
type Flag struct {
	Code   string `json:"code"`
	Reason string `json:"reason"` // for people
}

// The codes of flags.
const (
	Hidden    = "hidden_characters"
	LookAlike = "look_alike"
	Mention   = "mentions_other_server"
	Override  = "overrides_instructions"
	Secrecy   = "hides_from_user"
	Markup    = "hidden_markup"
)

// maxFlags bounds what is said of one definition.
const maxFlags = 8

// Texts says what is suspicious about the texts of one definition by
// themselves. Its name is the first of them.
func Texts(name string, texts []string) []Flag {
	var found flags
	if why := mixed(name); why != "" {
		found.add(LookAlike, "its name %s", why)
	}
	for _, text := range append([]string{name}, texts...) {
		found.hidden(text)
		found.phrases(text)
	}
	return found
}

type flags []Flag

// add adds a flag, once of each reason.
func (f *flags) add(code, format string, args ...any) {
	n := Flag{Code: code, Reason: fmt.Sprintf(format, args...)}
	if len(*f) < maxFlags && !slices.Contains(*f, n) {
		*f = append(*f, n)
	}
}

// cut shortens what is quoted in a reason, and shows what is hidden in it.
func cut(text string) string {
	text = Visible(strings.Join(strings.Fields(text), " "))
	if r := []rune(text); len(r) > 80 {
		return string(r[:79]) + "…"
	}
	return text
}
