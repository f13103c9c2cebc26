package main

import (
	"math"
	"slices"
)

// spread is what the rounds say about one number.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// summarise returns the zero spread for no values. The median of an even
// count is the mean of the middle two.
func summarise(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	s := slices.Sorted(slices.Values(values))
	mid := s[len(s)/2]
	if len(s)%2 == 0 {
		mid = (s[len(s)/2-1] + mid) / 2
	}
	return spread{Median: mid, Min: s[0], Max: s[len(s)-1]}
}

// undecided reports whether it cannot be told yet on which side of the limit the
// median lies: of a hundred runs like this one, about five have it outside of
// the values that are looked at.
func undecided(values []float64, limit float64) bool {
	n := len(values)
	if n == 0 {
		return false
	}
	s := slices.Sorted(slices.Values(values))
	low := max(0, int((float64(n)-1.96*math.Sqrt(float64(n)))/2))
	return s[low] <= limit && s[n-1-low] > limit
}

// ratios divides round by round. Rounds where either side is missing or the
// divisor is zero are left out: a pair was measured within seconds, so its
// ratio does not see the machine drift from round to round.
func ratios(over, under map[int]sample, of func(sample) float64) []float64 {
	var out []float64
	for round, a := range over {
		b, ok := under[round]
		if ok && of(b) > 0 {
			out = append(out, of(a)/of(b))
		}
	}
	return out
}
