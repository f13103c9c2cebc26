package main

import (
	"fmt"
	"strconv"
	"strings"
)

// table is the outcome for people, in Markdown.
func table(rows []row) string {
	var b strings.Builder
	b.WriteString("| conversation | servers | calls | re-sent, plain B | with handles B | ratio | written by the model, plain B | with handles B | all that is sent, ratio |\n")
	b.WriteString("|---|---|---:|---:|---:|---:|---:|---:|---:|\n")
	var sum row
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %d, %d | %s |\n", r.task, strings.Join(r.servers, ", "), r.plain.calls, r.handles.calls, figures(r))
		sum.plain.add(r.plain)
		sum.handles.add(r.handles)
	}
	fmt.Fprintf(&b, "| all | | %d, %d | %s |\n", sum.plain.calls, sum.handles.calls, figures(sum))
	b.WriteString("\nDefinitions of the tools, sent with every request:\n\n| servers | `/mcp` B | `/s/…/mcp` B | ratio |\n|---|---:|---:|---:|\n")
	seen := map[string]bool{}
	for _, r := range rows {
		if names := strings.Join(r.servers, ", "); !seen[names] {
			seen[names] = true
			fmt.Fprintf(&b, "| %s | %s | %s | %.2f |\n", names, grouped(r.plain.tools), grouped(r.handles.tools), ratio(r.handles.tools, r.plain.tools))
		}
	}
	return b.String()
}

func figures(r row) string {
	p, h := r.plain, r.handles
	return fmt.Sprintf("%s | %s | %.2f | %s | %s | %.2f", grouped(p.resent), grouped(h.resent), ratio(h.resent, p.resent),
		grouped(p.written), grouped(h.written), ratio(h.sent, p.sent))
}

func ratio(a, b int) float64 { return float64(a) / float64(b) }

// grouped writes a number with commas.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}
