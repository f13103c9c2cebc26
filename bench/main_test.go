package main

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseOptions(t *testing.T) {
	for _, tc := range []struct {
		name   string
		args   []string
		rounds int
		bad    bool
	}{
		{name: "defaults", rounds: 7},
		{name: "quick lowers the rounds", args: []string{"-quick"}, rounds: 2},
		{name: "given rounds win over quick", args: []string{"-quick", "-rounds", "5"}, rounds: 5},
		{name: "no rounds", args: []string{"-rounds", "0"}, bad: true},
		{name: "endless window", args: []string{"-duration", "2m"}, bad: true},
		{name: "more sessions than a hub holds", args: []string{"-idle", "10001"}, bad: true},
		{name: "broken expression", args: []string{"-only", "("}, bad: true},
		{name: "stray argument", args: []string{"full"}, bad: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o, err := parseOptions(tc.args)
			if (err != nil) != tc.bad {
				t.Fatalf("parseOptions(%q) error = %v, want an error: %v", tc.args, err, tc.bad)
			}
			if err == nil && o.Rounds != tc.rounds {
				t.Errorf("parseOptions(%q) rounds = %d, want %d", tc.args, o.Rounds, tc.rounds)
			}
		})
	}
}
