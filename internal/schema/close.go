package schema

import (
	"slices"
	"strings"
)

// maxCloseName bounds the names that are compared for closeness, and
// maxCloseNames how many: the comparison is quadratic in the one and linear
// in the other, and the names are foreign.
const (
	maxCloseName  = 64
	maxCloseNames = 500
)

func keys(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// closest returns the candidate that name is probably a misspelling of, or "".
// Names that differ only in case, hyphens and underscores are the closest.
func closest(name string, candidates []string) string {
	if len(name) > maxCloseName || len(candidates) > maxCloseNames {
		return ""
	}
	folded := fold(name)
	best, bestAt := "", 3 // never more than two edits
	for _, c := range candidates {
		if c == name || len(c) > maxCloseName {
			continue
		}
		d := edits(folded, fold(c))
		// Two of four letters changed is another word.
		if d < bestAt && d*3 <= max(len(folded), len(c)) {
			best, bestAt = c, d
		}
	}
	return best
}

var folder = strings.NewReplacer("_", "", "-", "", ".", "")

func fold(s string) string { return folder.Replace(strings.ToLower(s)) }

// edits counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b.
func edits(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
