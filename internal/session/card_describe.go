package session

import (
	"strconv"
	"strings"
)

// objectText says what an object holds.
func objectText(keys []string, total int) string {
	if total == 0 {
		return "an empty object"
	}
	return "an object with " + keysText(keys, total)
}

// keysText lists the first keys of total.
func keysText(keys []string, total int) string {
	var b strings.Builder
	b.WriteString(count(total, "key") + ": ")
	for i, k := range keys {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == maxKeysTold || b.Len() > 600 {
			b.WriteString("… " + number(total-i) + " more")
			break
		}
		b.WriteString(clip(k, 60))
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
