package search

import (
	"slices"
	"strings"
	"unicode"
)

// maxWords bounds the words of a name that are looked at, since all subsets of
// them are.
const maxWords = 5

// words splits a name at what is no letter or digit and where small letters
// turn to capitals, and makes it lower case.
func words(name string) []string {
	var out []string
	var b strings.Builder
	flush := func() {
		if b.Len() > 0 {
			out = append(out, b.String())
			b.Reset()
		}
	}
	small := false
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush()
			small = false
			continue
		case unicode.IsUpper(r) && small:
			flush()
		}
		small = !unicode.IsUpper(r)
		b.WriteRune(unicode.ToLower(r))
	}
	flush()
	return out
}

// Alike says whether the words of one name are among those of the other.
func Alike(a, b string) bool {
	within := func(x, y []string) bool {
		return len(x) > 0 && !slices.ContainsFunc(x, func(w string) bool { return !slices.Contains(y, w) })
	}
	v, w := words(a), words(b)
	return within(v, w) || within(w, v)
}

// plain says whether a name is already as it is compared, which most are.
func plain(name string) bool {
	last := byte('_')
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && (c != '_' || last == '_') {
			return false
		}
		last = c
	}
	return last != '_'
}

// canonical is a name of these words as it is compared: "sourceCode" and
// "source-code" are the same.
func canonical(name string, w []string) string {
	if len(w) == 0 {
		return name // punctuation only: itself
	}
	return strings.Join(w, "_")
}

// sets returns the words as a set, and each set that lacks at least one of
// them, but for the empty one. Both are empty if there are too many words to
// take apart.
func sets(w []string) (whole string, parts []string) {
	set := slices.Compact(slices.Sorted(slices.Values(w)))
	if len(set) == 0 || len(set) > maxWords {
		return "", nil
	}
	for mask := 1; mask < 1<<len(set)-1; mask++ {
		var some []string
		for i, word := range set {
			if mask&(1<<i) != 0 {
				some = append(some, word)
			}
		}
		parts = append(parts, strings.Join(some, "_"))
	}
	return strings.Join(set, "_"), parts
}

// kinds are the types that a fact can stand for; nothing stands for all.
func kinds(f Fact) []string {
	switch t := strings.ToLower(f.Type); t {
	case "":
		return nil
	case "integer":
		return []string{"integer", "number"}
	default:
		return []string{t}
	}
}

// typesAgree says whether an input may be filled by a fact as far as types go:
// what is not said is no obstacle.
func typesAgree(in, fact Fact) bool {
	return in.Type == "" || fact.Type == "" || slices.Contains(kinds(fact), strings.ToLower(in.Type))
}
