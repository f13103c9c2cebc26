package incident

import (
	"strings"

	"github.com/stoahub/stoa/internal/wire"
)

// The bounds of what Mask looks for and at.
const (
	maskable = 4        // shorter texts are in many a word, and tell nothing
	maxArgs  = 64 << 10 // beyond it a text is left out whole
	dots     = "•••"
)

// Mask is a text about a call without the values of its arguments: servers say
// back what they were sent. Of arguments that are too many to look at it makes
// a text that tells nothing.
func Mask(text string, args []byte) string {
	if len(args) > maxArgs {
		return "what was said is left out: the arguments were too large to look for them in it"
	}
	text = clip(text, maxMessage)
	if len(args) == 0 {
		return text
	}
	mask(&text, args)
	return text
}

func mask(text *string, value []byte) {
	hide := func(s string) {
		if len(s) >= maskable && strings.Contains(*text, s) {
			*text = strings.ReplaceAll(*text, s, dots)
		}
	}
	if len(value) == 0 {
		return
	}
	switch value[0] {
	case '{':
		for _, f := range wire.Members(value) {
			mask(text, f.Value)
		}
	case '[':
		elems, _ := wire.Elements(value)
		for _, e := range elems {
			mask(text, e)
		}
	case '"':
		if s, ok := wire.String(value); ok {
			hide(s)
			hide(string(value[1 : len(value)-1])) // as it was written
			for line := range strings.Lines(s) {  // it may be quoted in part
				hide(strings.TrimSpace(line))
			}
		}
	case 't', 'f', 'n':
	default:
		hide(string(value))
	}
}
