package main

import "slices"

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
