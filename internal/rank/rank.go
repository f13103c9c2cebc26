// Package rank orders texts by how well they fit words: which tools a question
// is probably about. It knows words only, no meaning, and keeps nothing.
package rank

import (
	"math"
	"slices"
	"strings"
	"unicode"
)

// Doc is what is looked for: a name, which says most, and what it is about.
type Doc struct{ Name, Text string }

// The usual constants of BM25, and what a word of a name counts for.
const (
	k1       = 1.2
	b        = 0.75
	nameWord = 4
	maxWords = 400 // of one text
)

// Scores says how well each doc fits the query; 0 is not at all.
func Scores(query string, docs []Doc) []float64 {
	want := words(query)
	scores := make([]float64, len(docs))
	if len(want) == 0 {
		return scores
	}
	counts, lengths, total := make([]map[string]float64, len(docs)), make([]float64, len(docs)), 0.0
	among := map[string]float64{} // how many docs have the word
	for i, d := range docs {
		counts[i] = map[string]float64{}
		for _, w := range words(d.Name) {
			counts[i][w] += nameWord
		}
		for _, w := range words(d.Text) {
			counts[i][w]++
		}
		for w, n := range counts[i] {
			among[w]++
			lengths[i] += n
		}
		total += lengths[i]
	}
	mean := max(1, total/max(1, float64(len(docs))))
	slices.Sort(want)
	for _, w := range slices.Compact(want) {
		rare := math.Log(1 + (float64(len(docs))-among[w]+0.5)/(among[w]+0.5))
		for i := range docs {
			if n := counts[i][w]; n > 0 {
				scores[i] += rare * n * (k1 + 1) / (n + k1*(1-b+b*lengths[i]/mean))
			}
		}
	}
	return scores
}

// common words say nothing of what is meant.
var common = map[string]bool{"the": true, "and": true, "for": true, "with": true, "that": true, "this": true, "from": true, "are": true, "was": true,
	"you": true, "can": true, "will": true, "use": true, "its": true, "not": true, "all": true, "one": true, "what": true, "please": true, "tool": true,
	"to": true, "of": true, "in": true, "on": true, "is": true, "it": true, "or": true, "by": true, "as": true, "at": true, "an": true, "be": true, "do": true, "me": true, "my": true, "if": true}

// words are those of a text, in small letters, without endings that do not
// matter. Names are taken apart where their words begin.
func words(text string) []string {
	var out []string
	var word []rune
	end := func() {
		if w := stem(strings.ToLower(string(word))); len(w) > 1 && !common[w] && len(out) < maxWords {
			out = append(out, w)
		}
		word = word[:0]
	}
	for _, r := range text {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
			continue
		case unicode.IsUpper(r) && len(word) > 0 && unicode.IsLower(word[len(word)-1]):
			end()
		}
		word = append(word, r)
	}
	end()
	return out
}

// stem leaves the commonest English endings out, so that files and file, or
// reading and read, are one word. What it leaves need not be a word.
func stem(w string) string {
	for _, ending := range []string{"ies", "ing", "ed", "es", "s", "y", "e"} {
		if rest, ok := strings.CutSuffix(w, ending); ok && len(rest) >= 3 && !(ending == "s" && strings.HasSuffix(rest, "s")) {
			return rest
		}
	}
	return w
}
