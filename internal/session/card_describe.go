package session

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stoahub/stoa/internal/wire"
)

// rowsRead is of how many rows of an array the keys are told.
const rowsRead = 20

// Describe says what a value is: its type, one of object, array, text, number,
// boolean and null or the MIME type of an image and the like, and one phrase
// about its shape. What is not JSON is null.
func Describe(raw []byte) (typ, summary string) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "null", "null"
	}
	if mime, size, ok := media(raw); ok {
		return mime, mime + ", " + sizeText(size)
	}
	switch raw[0] {
	case '{':
		keys, total := keysOf(raw)
		return "object", strings.TrimPrefix(objectText(keys, total), "an ")
	case '[':
		return "array", arrayText(raw)
	case '"':
		s, _ := wire.String(raw)
		return "text", textText(s)
	case 't', 'f':
		return "boolean", string(raw)
	case 'n':
		return "null", "null"
	}
	return "number", "number " + clip(string(raw), 40)
}

// media recognises a content block, alone or in a list of one, whose data is
// Base64: the type is all that can be said of it in words.
func media(raw []byte) (mime string, size int, ok bool) {
	if raw[0] == '[' {
		kids, total := childrenOf(raw, 1)
		if total != 1 || kids[0].value[0] != '{' {
			return "", 0, false
		}
		raw = kids[0].value
	}
	if raw[0] != '{' || !bytes.Contains(raw, []byte(`"mimeType"`)) {
		return "", 0, false
	}
	mime, _ = wire.String(wire.Get(raw, "mimeType"))
	data := wire.Get(raw, "data")
	if data == nil {
		data = wire.Get(raw, "blob")
	}
	if mime == "" || len(mime) > 80 || len(data) < 2 || data[0] != '"' {
		return "", 0, false
	}
	return mime, (len(data) - 2) * 3 / 4, true
}

// objectText says what an object holds.
func objectText(keys []string, total int) string {
	if total == 0 {
		return "an empty object"
	}
	return "an object with " + count(total, "key") + ": " + listText(keys, total)
}

// arrayText says what an array holds: how many of what, and the keys of its
// first rows.
func arrayText(raw []byte) string {
	kinds := map[byte]int{}
	var keys []string
	seen := map[string]bool{}
	total := 0
	_ = wire.Walk(raw, func(n wire.Node) wire.Next {
		switch n.Depth {
		case 0:
			return wire.Into
		case 1:
			total++
			if n.Kind == 'f' {
				n.Kind = 't'
			}
			kinds[n.Kind]++
			if n.Kind == '{' && n.Index < rowsRead {
				return wire.Into
			}
			return wire.Over
		}
		if len(keys) < maxKeysRead && !seen[string(n.Name)] {
			seen[string(n.Name)] = true
			keys = append(keys, string(n.Name))
		}
		return wire.Over
	}, nil)
	if total == 0 {
		return "empty array"
	}
	text := "array of "
	if len(kinds) == 1 {
		for kind, n := range kinds {
			text += count(n, kindNames[kind])
		}
	} else {
		text += count(total, "element") + ": "
		var parts []string
		for _, kind := range []byte("{[\"0tn") {
			if n := kinds[kind]; n > 0 {
				parts = append(parts, count(n, kindNames[kind]))
			}
		}
		text += strings.Join(parts, ", ")
	}
	if len(keys) > 0 {
		text += " with keys " + listText(keys, len(keys))
	}
	return text
}

var kindNames = map[byte]string{'{': "object", '[': "array", '"': "text", '0': "number", 't': "boolean", 'n': "null"}

// textText says how long a text is.
func textText(s string) string {
	if s == "" {
		return "empty text"
	}
	return "text of " + count(utf8.RuneCountInString(s), "character") + ", " + count(linesIn(s), "line")
}

// linesIn counts lines; the last may lack its end.
func linesIn(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && s[len(s)-1] != '\n' {
		n++
	}
	return n
}

// listText lists the first of total names.
func listText(names []string, total int) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == maxKeysTold || b.Len() > 600 {
			b.WriteString("… " + number(total-i) + " more")
			break
		}
		b.WriteString(clip(name, 60))
	}
	return b.String()
}

// leafText says what a value without parts is.
func leafText(raw []byte) string {
	switch raw[0] {
	case '"':
		return "text"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// count writes n with its noun in the right number.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return number(n) + " " + noun
}

// number writes n with commas between the thousands.
func number(n int) string {
	s := strconv.Itoa(n)
	if n < 0 {
		return s
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// sizeText writes a number of bytes for a person.
func sizeText(n int) string {
	switch {
	case n < 1<<10:
		return count(n, "byte")
	case n < 10<<10:
		return strconv.FormatFloat(float64(n)/(1<<10), 'f', 1, 64) + " KB"
	case n < 1<<20:
		return strconv.Itoa(n>>10) + " KB"
	}
	return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MB"
}
