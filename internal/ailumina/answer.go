package ailumina

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"github.com/stoahub/stoa/internal/fault"
)

// Answer gathers what an agent says. The zero value is an empty answer.
//
// Sentences follow each other as they come. An agent may send what it has
// streamed once more as a whole chat message: that is not said twice, but its
// form is kept, since the spaces between sentences are often in it alone. What
// differs in more than spaces is another message, on a line of its own.
type Answer struct {
	text  []byte
	from  int  // where the sentences begin that no chat message has covered yet
	whole bool // the last thing that came was a chat message
}

// Text is the answer so far.
func (a *Answer) Text() string { return string(a.text) }

// Add takes an event of the answer. It fails if the answer becomes longer than
// AnswerBytes.
func (a *Answer) Add(e Event) error {
	if e.Kind == Sentence && e.Notice {
		if n := len(a.text) - e.Void; n >= a.from {
			a.text = a.text[:n]
		}
		return nil
	}
	switch e.Kind {
	case Sentence:
		if a.whole && e.Text != "" {
			a.newLine()
			a.from, a.whole = len(a.text), false
		}
		a.text = append(a.text, e.Text...)
	case Chat:
		// Some agents send the whole conversation, the question included.
		if e.Role == "assistant" || e.Role == "model" {
			a.chat(e.Text)
		}
	}
	if len(a.text) > AnswerBytes {
		return fault.New(fault.Limit, "", "The answer is longer than %d bytes", AnswerBytes)
	}
	return nil
}

func (a *Answer) chat(said string) {
	text := []byte(said)
	if blank(text) {
		return
	}
	streamed := a.text[a.from:]
	switch {
	case !blank(streamed) && begins(text, streamed): // all that was streamed, or more
		a.text = append(a.text[:a.from], text...)
	case !blank(streamed) && ends(streamed, text): // the last of it
	case a.repeated(text):
		a.text = append(a.text[:0], text...)
	default:
		a.newLine()
		a.text = append(a.text, text...)
	}
	a.from, a.whole = len(a.text), true
}

// repeated reports whether text is everything that was said so far. Where it is
// much shorter it cannot be, and then nothing is compared: many short messages
// after a long one must not cost the length of that each.
func (a *Answer) repeated(text []byte) bool {
	return a.from > 0 && 2*len(text) >= len(a.text) && begins(a.text, text) && begins(text, a.text)
}

// newLine begins a new line, unless the text is at the beginning of one.
func (a *Answer) newLine() {
	if n := len(a.text); n > 0 && a.text[n-1] != '\n' {
		a.text = append(a.text, '\n')
	}
}

func blank(text []byte) bool { return len(bytes.TrimLeftFunc(text, unicode.IsSpace)) == 0 }

// begins reports whether whole begins with part, spaces aside.
func begins(whole, part []byte) bool {
	for {
		part, whole = bytes.TrimLeftFunc(part, unicode.IsSpace), bytes.TrimLeftFunc(whole, unicode.IsSpace)
		if len(part) == 0 || len(whole) == 0 {
			return len(part) == 0
		}
		p, n := utf8.DecodeRune(part)
		w, m := utf8.DecodeRune(whole)
		if p != w {
			return false
		}
		part, whole = part[n:], whole[m:]
	}
}

// ends reports whether whole ends with part, spaces aside. It looks at no more
// of whole than that takes.
func ends(whole, part []byte) bool {
	for {
		part, whole = bytes.TrimRightFunc(part, unicode.IsSpace), bytes.TrimRightFunc(whole, unicode.IsSpace)
		if len(part) == 0 || len(whole) == 0 {
			return len(part) == 0
		}
		p, n := utf8.DecodeLastRune(part)
		w, m := utf8.DecodeLastRune(whole)
		if p != w {
			return false
		}
		part, whole = part[:len(part)-n], whole[:len(whole)-m]
	}
}
