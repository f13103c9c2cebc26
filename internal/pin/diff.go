package pin

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/suspect"
	"github.com/stoahub/stoa/internal/wire"
)

// The bounds of a difference.
const (
	maxLines = 600 // of each of two texts that are compared line by line
	maxDiff  = 16 << 10
	around   = 2 // lines that are shown before and after what differs
)

// shown are the members of a definition that a difference is about, in the order
// in which people want to see them.
var shown = []string{"title", "description", "inputSchema", "outputSchema", "arguments", "annotations", "mimeType", "uriTemplate"}

// Diff says how a definition differs from the one before it, line by line, with
// what is hidden in texts made visible. Without one before, it is the whole
// definition.
func Diff(before, after []byte) string {
	var b strings.Builder
	for _, name := range shown {
		was, is := memberLines(before, name), memberLines(after, name)
		lines := compare(was, is)
		if len(lines) == 0 {
			continue
		}
		b.WriteString(name + ":\n")
		for _, l := range lines {
			b.WriteString(l + "\n")
		}
	}
	out := b.String()
	if len(out) > maxDiff {
		out = strings.ToValidUTF8(out[:maxDiff], "") + "\n… (cut: the difference is longer than can be shown)\n"
	}
	return out
}

// memberLines are the lines of a member: of a text as it is, of anything else
// as indented JSON with its members in order.
func memberLines(def []byte, name string) []string {
	raw := wire.Get(def, name)
	if raw == nil {
		return nil
	}
	text, ok := wire.String(raw)
	if !ok {
		var v any
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if d.Decode(&v) != nil {
			return []string{string(raw)}
		}
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if e.Encode(v) != nil {
			return []string{string(raw)}
		}
		text = strings.TrimSuffix(out.String(), "\n")
	}
	return strings.Split(suspect.Visible(text), "\n")
}

// compare marks the lines that went with - and those that came with +, with a
// few around them.
func compare(was, is []string) []string {
	if len(was) > maxLines || len(is) > maxLines {
		was, is = trimSame(was, is)
	}
	if len(was) > maxLines || len(is) > maxLines {
		return append(prefixed("- ", was), prefixed("+ ", is)...)
	}
	all, differs := align(was, is)
	if !differs {
		return nil
	}
	keep := make([]bool, len(all))
	for i, l := range all {
		if l[0] != ' ' {
			for j := max(0, i-around); j <= min(len(all)-1, i+around); j++ {
				keep[j] = true
			}
		}
	}
	var out []string
	for i, l := range all {
		switch {
		case keep[i]:
			out = append(out, l)
		case i > 0 && keep[i-1]:
			out = append(out, "  …")
		}
	}
	return out
}

func prefixed(mark string, lines []string) (out []string) {
	for _, l := range lines {
		out = append(out, mark+l)
	}
	return out
}

// trimSame takes off the lines that both begin with and both end with.
func trimSame(a, b []string) ([]string, []string) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}

// align lays two texts beside each other by their longest common part.
func align(was, is []string) (out []string, differs bool) {
	n, m := len(was), len(is)
	long := make([][]int, n+1)
	for i := range long {
		long[i] = make([]int, m+1)
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if was[i] == is[j] {
				long[i][j] = long[i+1][j+1] + 1
			} else {
				long[i][j] = max(long[i+1][j], long[i][j+1])
			}
		}
	}
	for i, j := 0, 0; i < n || j < m; {
		switch {
		case i < n && j < m && was[i] == is[j]:
			out = append(out, "  "+was[i])
			i, j = i+1, j+1
		case i < n && (j == m || long[i+1][j] >= long[i][j+1]):
			out, differs = append(out, "- "+was[i]), true
			i++
		default:
			out, differs = append(out, "+ "+is[j]), true
			j++
		}
	}
	return out, differs
}

// maxTextBytes bounds the texts of a definition that are looked at.
const maxTextBytes = 256 << 10

// textsOf are all texts of a definition that a model may read: descriptions,
// titles, and whatever its schemas say.
func textsOf(def []byte) []string {
	var out []string
	room := maxTextBytes
	add := func(text string) {
		if room -= len(text); room > 0 && text != "" {
			out = append(out, text)
		}
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			add(v)
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				add(name)
				walk(v[name])
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	if wire.Valid(def, wire.FromClient) != nil { // a member may be there twice
		var v any
		if json.Unmarshal(def, &v) == nil {
			walk(v)
		}
	}
	for _, name := range shown {
		var v any
		if raw := wire.Get(def, name); raw != nil && json.Unmarshal(raw, &v) == nil {
			walk(v)
		}
	}
	return out
}
