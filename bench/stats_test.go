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
