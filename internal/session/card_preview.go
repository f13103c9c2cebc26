package session

import (
	"bytes"
	"unicode/utf8"

	"github.com/stoahub/stoa/internal/wire"
)

const (
	previewDepth = 8   // levels of a preview: each may be walked once more, so that time stays linear
	previewRows  = 3   // rows of an array that are enough to see its shape
	rowShare     = 120 // bytes that make another row in part worth while
	valueShare   = 24  // bytes that the value of a key gets at least, if it needs them
	longName     = 80  // a key with more bytes is shown in part
)

// Preview shows raw in at most budget bytes: as text if it is text, else as
// JSON of the same shape, with the first rows of arrays, the first keys of
// objects and head and tail of long texts, and with strings that begin with …
// where something is left out. A value that fits is shown as it is. A budget
// of fewer than five bytes, or of what is not JSON, gives nothing.
func Preview(raw []byte, budget int) []byte {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil
	}
	if raw[0] == '"' {
		s, _ := wire.String(raw)
		return []byte(shorten(s, budget, plainCost, true))
	}
	if len(raw) <= budget {
		return raw
	}
	return preview(raw, budget, 0)
}

// preview shows raw, which is not empty, as JSON in at most budget bytes.
func preview(raw []byte, budget, depth int) []byte {
	switch {
	case len(raw) <= budget:
		return raw
	case raw[0] == '"':
		s, _ := wire.String(raw)
		return quoted(shorten(s, budget-2, jsonCost, false), budget)
	case raw[0] != '{' && raw[0] != '[':
		return quoted(shorten(string(raw), budget-2, jsonCost, false), budget)
	}
	kids, total := childrenOf(raw, budget/2)
	if depth < previewDepth {
		var out []byte
		if raw[0] == '{' {
			out = previewObject(kids, total, budget, depth)
		} else {
			out = previewArray(kids, total, budget, depth)
		}
		if out != nil {
			return out
		}
	}
	if raw[0] == '{' {
		return leftOut("{… "+count(total, "key")+"}", "{…}", budget)
	}
	return leftOut("[… "+count(total, "element")+"]", "[…]", budget)
}

// leftOut is the first of two texts that fits.
func leftOut(long, short string, budget int) []byte {
	for _, s := range []string{long, short, "…"} {
		if len(s)+2 <= budget {
			return quoted(s, budget)
		}
	}
	return nil
}

func quoted(s string, budget int) []byte {
	if q := wire.Quote(s); len(q) <= budget {
		return q
	}
	return nil
}

// A child is one element or member.
type child struct {
	name  []byte // raw, with its quotes; nil for an element
	value []byte
}

// childrenOf returns the first children of a container, at most limit, and how
// many there are.
func childrenOf(raw []byte, limit int) (kids []child, total int) {
	add := func(n wire.Node) {
		if total++; total <= limit {
			c := child{value: raw[n.Start:n.End]}
			if n.Name != nil {
				c.name = bytes.TrimRight(raw[n.NameAt:n.Start], " \t\r\n:")
			}
			kids = append(kids, c)
		}
	}
	_ = wire.Walk(raw, func(n wire.Node) wire.Next {
		if n.Depth == 0 {
			return wire.Into
		}
		if n.End > 0 {
			add(n)
		}
		return wire.Over
	}, func(n wire.Node) wire.Next {
		if n.Depth == 1 {
			add(n)
		}
		return wire.Into
	})
	return kids, total
}

// previewObject shows the keys, as many as fit, and divides what is left among
// their values. It is nil if not one key fits.
func previewObject(kids []child, total, budget, depth int) []byte {
	const shape = len(`{}`)
	kept, names := 0, 0
	for room := budget - shape; kept < len(kids); kept++ {
		k := &kids[kept]
		if len(k.name) > longName {
			s, _ := wire.String(k.name)
			k.name = wire.Quote(clip(s, longName/2))
		}
		name := len(k.name) + len(`:,`)
		rest := 0
		if kept+1 < total {
			rest = len(moreKeys(total-kept-1)) + 1
		}
		need := name + min(len(k.value), valueShare)
		if need+rest > room {
			break
		}
		room -= need
		names += name
	}
	if kept == 0 {
		return nil
	}
	more := ""
	room := budget - shape - names
	if kept < total {
		more = "," + moreKeys(total-kept)
		room -= len(more)
	}
	out := append(make([]byte, 0, budget), '{')
	shares := divide(kids[:kept], room)
	spare := 0
	for i, k := range kids[:kept] {
		if i > 0 {
			out = append(out, ',')
		}
		value := preview(k.value, shares[i]+spare, depth+1)
		spare += shares[i] - len(value)
		out = append(append(append(out, k.name...), ':'), value...)
	}
	return append(append(out, more...), '}')
}

func moreKeys(n int) string { return `"…":"` + count(n, "more key") + `"` }

// previewArray shows as many rows as fit whole. Where those are few, the next
// one is shown in part, and where there is none, the first ones are. It is nil
// if not even that fits.
func previewArray(kids []child, total, budget, depth int) []byte {
	room := budget - len(`[]`) - len(moreRows(total)) - 1
	kept, left := 0, room
	for kept < len(kids) && len(kids[kept].value)+1 <= left {
		left -= len(kids[kept].value) + 1
		kept++
	}
	inPart := 0
	switch {
	case kept >= previewRows || kept == len(kids):
	case kept > 0 && left >= rowShare:
		inPart = 1
	case kept == 0 && left > valueShare:
		inPart = min(previewRows, len(kids), max(1, left/rowShare))
	}
	if kept+inPart == 0 {
		return nil
	}
	out := append(make([]byte, 0, budget), '[')
	for _, k := range kids[:kept] {
		out = append(append(out, k.value...), ',')
	}
	spare := 0
	for i, share := range divide(kids[kept:kept+inPart], left-inPart) {
		value := preview(kids[kept+i].value, share+spare, depth+1)
		spare += share - len(value)
		out = append(append(out, value...), ',')
	}
	if shown := kept + inPart; shown < total {
		out = append(out, moreRows(total-shown)...)
	} else {
		out = out[:len(out)-1]
	}
	return append(out, ']')
}

func moreRows(n int) string { return `"… ` + number(n) + ` more"` }

// divide shares room among values: none gets more than it needs, and what the
// short ones leave goes to the long ones in equal parts.
func divide(kids []child, room int) []int {
	shares := make([]int, len(kids))
	for open := len(kids); open > 0; {
		level, settled := room/open, 0
		for i, k := range kids {
			if shares[i] == 0 && len(k.value) <= level {
				shares[i] = len(k.value)
				room -= shares[i]
				settled++
			}
		}
		if open -= settled; settled > 0 {
			continue
		}
		for i := range shares {
			if shares[i] == 0 {
				shares[i] = level
			}
		}
		return shares
	}
	return shares
}

// A cost is how many bytes a rune of n bytes takes where it is shown.
type cost func(r rune, n int) int

func plainCost(r rune, n int) int {
	if r == utf8.RuneError {
		return len("\ufffd")
	}
	return n
}

// jsonCost is what wire.AppendString makes of a rune.
func jsonCost(r rune, n int) int {
	switch {
	case r == '"' || r == '\\' || r == '\n' || r == '\r' || r == '\t':
		return 2
	case r < 0x20:
		return len(`\u0000`)
	}
	return plainCost(r, n)
}

// shorten returns s whole if it costs at most budget, else head and tail and
// between them how much is left out, or the head alone where there is no room
// for more, or "".
func shorten(s string, budget int, cost cost, lines bool) string {
	if _, fits := prefix(s, budget, cost); fits {
		return s
	}
	note := func(middle string) string {
		out := "… " + count(utf8.RuneCountInString(middle), "character") + " left out …"
		if lines {
			return "\n" + out + "\n"
		}
		return " " + out + " "
	}
	room := budget - len(note(s)) - 2 // a line break may cost two
	if room < 24 {
		if budget < len("…") {
			return ""
		}
		head, _ := prefix(s, budget-len("…"), cost)
		return s[:head] + "…"
	}
	tail := suffix(s, room/3, cost)
	head, _ := prefix(s[:len(s)-tail], room-room/3, cost)
	middle := s[head : len(s)-tail]
	return s[:head] + note(middle) + s[len(s)-tail:]
}

// prefix is the length of the longest beginning of s that costs at most
// budget, and whether that is all of s.
func prefix(s string, budget int, cost cost) (int, bool) {
	for i, r := range s {
		n := 1
		if r != utf8.RuneError {
			n = utf8.RuneLen(r)
		}
		if budget -= cost(r, n); budget < 0 {
			return i, false
		}
	}
	return len(s), budget >= 0
}

// suffix is the length of the longest end of s that costs at most budget.
func suffix(s string, budget int, cost cost) int {
	end := len(s)
	for end > 0 {
		r, n := utf8.DecodeLastRuneInString(s[:end])
		if budget -= cost(r, n); budget < 0 {
			break
		}
		end -= n
	}
	return len(s) - end
}
