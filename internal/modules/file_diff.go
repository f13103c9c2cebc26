package modules

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

const (
	diffContext = 3        // equal lines around a change
	diffEffort  = 400      // lines that differ before they are shown as one block
	diffBytes   = 64 << 10 // of a diff that is shown
	diffLine    = 2000     // bytes of a line that are shown
)

// op is a line of a diff: ' ' in both, '-' only before, '+' only after.
type op struct {
	kind byte
	line []byte
}

// unifiedDiff shows how a text was changed: all of it, or at most diffBytes. It is
// empty if nothing was.
func unifiedDiff(name string, before, after []byte, whole bool) string {
	if bytes.Equal(before, after) {
		return ""
	}
	ops := diffLines(splitLines(before), splitLines(after))
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", name, name)
	oldLine, newLine := 1, 1
	for i := 0; i < len(ops); {
		if ops[i].kind == ' ' {
			i, oldLine, newLine = i+1, oldLine+1, newLine+1
			continue
		}
		start := max(0, i-diffContext)
		end := hunkEnd(ops, i)
		oldLine, newLine = oldLine-(i-start), newLine-(i-start)
		var hunk strings.Builder
		olds, news := 0, 0
		for _, o := range ops[start:end] {
			writeOp(&hunk, o, whole)
			if o.kind != '+' {
				olds++
			}
			if o.kind != '-' {
				news++
			}
		}
		fmt.Fprintf(&b, "@@ -%s +%s @@\n", span(oldLine, olds), span(newLine, news))
		if !whole && b.Len()+hunk.Len() > diffBytes {
			b.WriteString(strings.ToValidUTF8(hunk.String()[:max(0, diffBytes-b.Len())], ""))
			b.WriteString("\n… the diff is longer than is shown\n")
			return b.String()
		}
		b.WriteString(hunk.String())
		i, oldLine, newLine = end, oldLine+olds, newLine+news
	}
	return b.String()
}

func span(line, count int) string {
	if count == 0 {
		line-- // the line after which nothing is
	}
	if count == 1 {
		return fmt.Sprint(line)
	}
	return fmt.Sprintf("%d,%d", line, count)
}

// hunkEnd is where the changes that begin at i are followed by so many equal
// lines that the next change is another hunk.
func hunkEnd(ops []op, i int) int {
	last := i
	for j := i; j < len(ops) && j-last <= 2*diffContext; j++ {
		if ops[j].kind != ' ' {
			last = j
		}
	}
	return min(len(ops), last+1+diffContext)
}

func writeOp(b *strings.Builder, o op, whole bool) {
	line, ended := bytes.CutSuffix(o.line, []byte("\n"))
	b.WriteByte(o.kind)
	if !whole && len(line) > diffLine {
		line = append(bytes.ToValidUTF8(line[:diffLine], nil), "…"...)
	}
	b.Write(line)
	b.WriteByte('\n')
	if !ended {
		b.WriteString("\\ No newline at end of file\n")
	}
}

// splitLines cuts a text after each newline.
func splitLines(b []byte) [][]byte {
	lines := bytes.SplitAfter(b, []byte("\n"))
	if n := len(lines); len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	return lines
}

// diffLines finds what both have in common: what is equal at the ends first,
// and the shortest change of the rest if it is short enough to be looked for.
func diffLines(a, b [][]byte) []op {
	var ops []op
	head := 0
	for head < len(a) && head < len(b) && bytes.Equal(a[head], b[head]) {
		ops = append(ops, op{' ', a[head]})
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && bytes.Equal(a[len(a)-1-tail], b[len(b)-1-tail]) {
		tail++
	}
	ops = append(ops, shortest(a[head:len(a)-tail], b[head:len(b)-tail])...)
	for _, line := range a[len(a)-tail:] {
		ops = append(ops, op{' ', line})
	}
	return ops
}

// shortest is the greedy search for the shortest edit script: for each number
// of changes d, how far one gets on each diagonal k.
func shortest(a, b [][]byte) []op {
	most := min(len(a)+len(b), diffEffort)
	reach := make([]int, 2*most+2)
	var trace [][]int
	for d := 0; d <= most; d++ {
		trace = append(trace, append([]int(nil), reach...))
		for k := -d; k <= d; k += 2 {
			x := furthest(reach, most, k, d)
			for x < len(a) && x-k < len(b) && bytes.Equal(a[x], b[x-k]) {
				x++
			}
			reach[most+k] = x
			if x >= len(a) && x-k >= len(b) {
				return script(a, b, trace, most)
			}
		}
	}
	var ops []op
	for _, line := range a {
		ops = append(ops, op{'-', line})
	}
	for _, line := range b {
		ops = append(ops, op{'+', line})
	}
	return ops
}

// furthest is where diagonal k is entered by the d-th change: from above by a
// line of b, or from the left by a line of a.
func furthest(reach []int, mid, k, d int) int {
	if k == -d || k != d && reach[mid+k-1] < reach[mid+k+1] {
		if d == 0 {
			return 0
		}
		return reach[mid+k+1]
	}
	return reach[mid+k-1] + 1
}

// script goes the way back from the end.
func script(a, b [][]byte, trace [][]int, mid int) []op {
	var back []op
	x, y := len(a), len(b)
	equal := func(fromX, fromY int) {
		for x > fromX && y > fromY {
			x, y = x-1, y-1
			back = append(back, op{' ', a[x]})
		}
	}
	for d := len(trace) - 1; d > 0; d-- {
		reach, k := trace[d], x-y
		if k == -d || k != d && reach[mid+k-1] < reach[mid+k+1] {
			fromX := reach[mid+k+1]
			equal(fromX, fromX-(k+1))
			y--
			back = append(back, op{'+', b[y]})
		} else {
			fromX := reach[mid+k-1]
			equal(fromX, fromX-(k-1))
			x--
			back = append(back, op{'-', a[x]})
		}
	}
	equal(0, 0)
	slices.Reverse(back)
	return back
}
