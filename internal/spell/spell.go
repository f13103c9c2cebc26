// Package spell finds the known words that a misspelt one was probably meant
// to be. Words may be foreign: what is compared is bounded in length and
// number. It knows nothing of what the words stand for.
package spell

import (
	"slices"
	"strings"
)

// The bounds of what is compared: the work is quadratic in the one and linear
// in the other.
const (
	maxWord  = 64
	maxWords = 20000
	maxEdits = 3
)

// Nearest returns the one of words that word was probably meant to be, or "".
func Nearest(word string, words []string) string {
	if near := Near(word, words, 1); len(near) > 0 {
		return near[0]
	}
	return ""
}

// Near returns at most n of words, the nearest first. Words that differ only in
// case, hyphens, underscores and dots are nearest, since that is how the same
// word differs between systems; the word itself is not among them.
func Near(word string, words []string, n int) []string {
	if len(word) > maxWord || len(words) > maxWords {
		return nil
	}
	type found struct {
		word  string
		edits int
	}
	var all []found
	folded := fold(word)
	for _, w := range words {
		if w == word || len(w) > maxWord {
			continue
		}
		f := fold(w)
		// Of three letters one may be wrong: with two it is another word.
		limit := min(maxEdits, max(len(folded), len(f))/3)
		if d := len(f) - len(folded); d > limit || -d > limit {
			continue
		}
		if d := edits(folded, f); d <= limit {
			all = append(all, found{w, d})
		}
	}
	slices.SortStableFunc(all, func(a, b found) int { return a.edits - b.edits })
	var out []string
	for _, f := range all[:min(n, len(all))] {
		out = append(out, f.word)
	}
	return out
}

var folder = strings.NewReplacer("_", "", "-", "", ".", "")

func fold(s string) string { return folder.Replace(strings.ToLower(s)) }

// edits counts the insertions, deletions, replacements and swaps of neighbours
// that turn a into b.
func edits(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			differ := 1
			if a[i-1] == b[j-1] {
				differ = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+differ)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
