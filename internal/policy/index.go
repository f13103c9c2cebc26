package policy

import (
	"math/bits"
	"slices"
)

// index finds the rules whose patterns can match a name without trying each:
// with a thousand rules that would be most of the time that a decision takes.
// It may name a rule that does not match, and never misses one that does.
type index struct {
	always        ruleSet // every name is theirs, or a pattern has to be tried
	exact         places
	prefix        places
	suffix        places
	prefixLengths []int // that occur
	suffixLengths []int
}

// places has the rules whose pattern looks for a text.
type places map[string][]int32

// ruleSet has a bit for each rule of a Set.
type ruleSet []uint64

func (s ruleSet) add(i int) { s[i/64] |= 1 << (i % 64) }

// newIndex indexes n rules by their patterns; every says that a rule is about
// all names.
func newIndex(n int, patterns func(i int) (list globs, every bool)) index {
	x := index{always: make(ruleSet, (n+63)/64), exact: places{}, prefix: places{}, suffix: places{}}
	for i := range n {
		list, every := patterns(i)
		if every {
			x.always.add(i)
		}
		for _, g := range list {
			switch g.how {
			case matchNothing:
			case matchExact:
				x.exact[g.text] = append(x.exact[g.text], int32(i))
			case matchPrefix:
				x.prefix[g.text] = append(x.prefix[g.text], int32(i))
			case matchSuffix:
				x.suffix[g.text] = append(x.suffix[g.text], int32(i))
			default:
				x.always.add(i)
			}
		}
	}
	x.prefixLengths, x.suffixLengths = lengths(x.prefix), lengths(x.suffix)
	return x
}

func lengths(m places) (out []int) {
	for text := range m {
		out = append(out, len(text))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// find adds the rules that can match a name.
func (x *index) find(name string, found ruleSet) {
	found.join(x.exact[name])
	for _, n := range x.prefixLengths {
		if n > len(name) {
			break
		}
		found.join(x.prefix[name[:n]])
	}
	for _, n := range x.suffixLengths {
		if n > len(name) {
			break
		}
		found.join(x.suffix[name[len(name)-n:]])
	}
}

func (s ruleSet) join(rules []int32) {
	for _, i := range rules {
		s.add(int(i))
	}
}

// keep leaves the rules that are in other as well, and says how many.
func (s ruleSet) keep(other ruleSet) (n int) {
	for i := range s {
		s[i] &= other[i]
		n += bits.OnesCount64(s[i])
	}
	return n
}

// all goes through the set, in the order of the rules.
func (s ruleSet) all(yield func(i int) bool) {
	for at, word := range s {
		for ; word != 0; word &= word - 1 {
			if !yield(at*64 + bits.TrailingZeros64(word)) {
				return
			}
		}
	}
}
