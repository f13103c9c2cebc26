package main

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSummarise(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   []float64
		want spread
	}{
		{"nothing", nil, spread{}},
		{"one", []float64{4}, spread{4, 4, 4}},
		{"odd", []float64{9, 1, 5}, spread{5, 1, 9}},
		{"even", []float64{8, 2, 4, 100}, spread{6, 2, 100}},
	} {
		if diff := cmp.Diff(tc.want, summarise(tc.in)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestRatiosPairRounds(t *testing.T) {
	at := func(us int) sample { return sample{Calls: 1, CPU: time.Duration(us) * time.Microsecond} }
	over := map[int]sample{0: at(20), 1: at(60), 2: at(7)}
	under := map[int]sample{0: at(10), 1: at(20), 3: at(1), 2: at(0)}
	got := ratios(over, under, sample.cpuPerCall)
	slices.Sort(got)
	if diff := cmp.Diff([]float64{2, 3}, got); diff != "" {
		t.Errorf("ratios (-want +got):\n%s", diff)
	}
}

// More rounds are needed while the limit lies among the middle values, and not
// when it lies clearly on one side.
func TestUndecided(t *testing.T) {
	for name, tc := range map[string]struct {
		values []float64
		limit  float64
		want   bool
	}{
		"nothing measured": {nil, 1.1, false},
		"below":            {[]float64{0.9, 0.95, 1, 1, 1.01, 1.02, 1.05}, 1.1, false},
		"above":            {[]float64{1.3, 1.35, 1.4, 1.5, 1.6, 1.6, 1.7}, 1.1, false},
		"around":           {[]float64{0.7, 0.9, 1, 1.12, 1.2, 1.3, 1.5}, 1.1, true},
		"one bad of many":  {[]float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 9}, 1.1, false},
		"a few of many":    {[]float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 9, 9, 9}, 1.1, false},
	} {
		if got := undecided(tc.values, tc.limit); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
