package config

import (
	"fmt"
	"strings"
)

// Problem is one thing wrong with the configuration.
type Problem struct {
	File    string // or what else said it: "--listen", "env PORT"
	Line    int    // from 1; 0 where File has no lines
	Column  int    // in characters, from 1
	Pointer string // the JSON pointer of the value in the file
	Text    string // what is wrong
	Hint    string // what to do

	rank int // the order in which files were read
}

// String renders the problem in one line, beginning as compilers do so that
// editors can jump there.
func (p Problem) String() string { return render(p.File, p.Line, p.Column, p.Pointer, p.Text, p.Hint) }

// Problems are all the problems of a configuration, in the order of the files
// and their lines. It is the error of Load and Validate.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].String()
	}
	return strings.Join(lines, "\n")
}

// Note is something that a person may want to know of how the files were read;
// nothing is wrong.
type Note struct {
	File    string
	Line    int
	Column  int
	Pointer string
	Text    string
	Hint    string
}

func (n Note) String() string { return render(n.File, n.Line, n.Column, n.Pointer, n.Text, n.Hint) }

func render(file string, line, column int, pointer, text, hint string) string {
	var b strings.Builder
	if file != "" {
		b.WriteString(file)
		if line > 0 {
			fmt.Fprintf(&b, ":%d:%d", line, column)
		}
		b.WriteString(": ")
	}
	if pointer != "" {
		b.WriteString(pointer + ": ")
	}
	b.WriteString(text)
	if hint != "" {
		b.WriteString("; " + hint)
	}
	return b.String()
}

// nearest returns the word of words that key most likely was meant to be, or
// "". Case, dashes and underscores are not counted as mistakes, since they are
// how the same key differs between hosts.
func nearest(key string, words []string) string {
	plain := func(s string) []rune {
		return []rune(strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "").Replace(s)))
	}
	k := plain(key)
	if len(k) > 64 {
		return ""
	}
	best, limit := "", max(1, len(k)/3)+1
	for _, w := range words {
		if d := distance(k, plain(w)); d < limit {
			best, limit = w, d
		}
	}
	return best
}

// distance is the number of characters to insert, drop, replace or swap with
// their neighbour to make b of a.
func distance(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// didYouMean is the hint for an unknown word.
func didYouMean(key string, words []string) string {
	if w := nearest(key, words); w != "" {
		return fmt.Sprintf("did you mean %q?", w)
	}
	return "known here: " + strings.Join(words, ", ")
}
