package suspect

import (
	"fmt"
	"strings"
	"unicode"
)

// class is what kind of character nobody sees a rune is; "" for one that is
// seen. Which of them are innocent depends on what stands beside them.
func class(r rune) string {
	switch {
	case r >= 0xE0000 && r <= 0xE007F:
		return "tag characters"
	case r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069:
		return "characters that change the direction of text"
	case r >= 0xFE00 && r <= 0xFE0F, r >= 0xE0100 && r <= 0xE01EF:
		return "variation selectors"
	case r >= 0x200B && r <= 0x200F, r >= 0x2060 && r <= 0x2064, r == 0xFEFF, r == 0x061C, r == 0x180E,
		r == 0x115F, r == 0x1160, r == 0x3164, r == 0xFFA0, r == 0x00AD:
		return "invisible characters"
	case r < 0x20 && r != '\n' && r != '\r' && r != '\t', r >= 0x7F && r <= 0x9F:
		return "control characters"
	}
	return ""
}

// hidden flags characters that nobody sees, where no script needs them.
func (f *flags) hidden(text string) {
	runes := []rune(text)
	counts := map[string]int{}
	var order []string
	for i, r := range runes {
		c := class(r)
		if c == "" || innocent(runes, i, c) {
			continue
		}
		if counts[c]++; counts[c] == 1 {
			order = append(order, c)
		}
	}
	for _, c := range order {
		f.add(Hidden, "it has %s (%d)", c, counts[c])
	}
}

// innocent reports whether a hidden character has an honest use where it
// stands: emoji that are joined, scripts that need joiners and marks, flags.
func innocent(runes []rune, i int, class string) bool {
	var before, after rune
	if i > 0 {
		before = runes[i-1]
	}
	if i+1 < len(runes) {
		after = runes[i+1]
	}
	switch r := runes[i]; {
	case r == 0xFEFF:
		return i == 0 // the mark at the beginning of a file
	case r == 0x00AD:
		return unicode.IsLetter(before) && unicode.IsLetter(after)
	case r == 0x200C || r == 0x200D:
		return joins(before) && joins(after)
	case r == 0x200E || r == 0x200F || r == 0x061C:
		return strings.ContainsFunc(string(runes), rightToLeft)
	case class == "variation selectors" && r >= 0xE0100:
		return unicode.Is(unicode.Han, before)
	case class == "variation selectors":
		return before > 0xFF || strings.ContainsRune("#*0123456789©®", before) && r >= 0xFE0E
	case class == "tag characters":
		return flagOf(runes, i)
	}
	return false
}

// joins reports whether a character may stand beside a joiner: it is an emoji,
// or of a script whose letters join. A hidden one may not, save the selector
// that makes an emoji of a symbol.
func joins(r rune) bool {
	return r == 0xFE0F || r > 0xFF && class(r) == "" && !unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic)
}

func rightToLeft(r rune) bool {
	return unicode.In(r, unicode.Arabic, unicode.Hebrew, unicode.Syriac, unicode.Thaana)
}

// flagOf reports whether a tag character is part of the flag of a region: the
// black flag, at most six tags of small letters and digits, and their end.
func flagOf(runes []rune, i int) bool {
	start := i
	for start > 0 && runes[start-1] >= 0xE0000 && runes[start-1] <= 0xE007F {
		start--
	}
	end := i
	for end+1 < len(runes) && runes[end+1] >= 0xE0000 && runes[end+1] <= 0xE007F {
		end++
	}
	return start > 0 && runes[start-1] == 0x1F3F4 && runes[end] == 0xE007F && end-start <= 6
}

// Visible writes characters that nobody sees as escapes, for people who have to
// judge a text.
func Visible(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return class(r) != "" }) {
		return text
	}
	var b strings.Builder
	runes := []rune(text)
	for i, r := range runes {
		if c := class(r); c != "" && !innocent(runes, i, c) {
			fmt.Fprintf(&b, "\\u{%x}", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// plainText is a text without what is hidden in it, in small letters and with
// single spaces: as a model may read it.
func plainText(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case r >= 0xE0020 && r <= 0xE007E:
			return r - 0xE0000 // a tag character is one of ASCII in disguise
		case class(r) != "":
			return -1
		case r == '’':
			return '\''
		}
		return unicode.ToLower(r)
	}, text)
	return strings.Join(strings.Fields(text), " ")
}
