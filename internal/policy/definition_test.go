package policy

import (
	"testing"
	"time"
)

// An approval that is remembered holds for the definition that it was given for,
// one for a whole server for what was accepted then, and a denial for all.
func TestCovers(t *testing.T) {
	said := time.Now()
	before, after := said.Add(-time.Hour), said.Add(time.Hour)
	for name, tc := range map[string]struct {
		scope    Remember
		approve  bool
		was, is  string
		accepted time.Time
		want     bool
	}{
		"the same":                            {ForTool, true, "a", "a", before, true},
		"another":                             {ForTool, true, "a", "b", before, false},
		"another, in the session":             {ForSession, true, "a", "b", before, false},
		"from before definitions were pinned": {ForTool, true, "", "a", before, false},
		"not pinned":                          {ForTool, true, "", "", time.Time{}, true},
		"pinned then, not now":                {ForTool, true, "a", "", time.Time{}, false},
		"a denial":                            {ForTool, false, "a", "b", time.Time{}, true},
		"the server, another tool":            {ForUpstream, true, "a", "b", before, true},
		"the server, accepted since":          {ForUpstream, true, "a", "b", after, false},
		"the server, not accepted":            {ForUpstream, true, "a", "b", time.Time{}, false},
		"the server, what was asked for":      {ForUpstream, true, "a", "a", time.Time{}, true},
		"the server, before they were pinned": {ForUpstream, true, "", "b", before, false},
		"the server, denied":                  {ForUpstream, false, "a", "b", after, true},
	} {
		r := Remembered{Kind: KindTool, Scope: tc.scope, Approve: tc.approve, Digest: tc.was, Time: said}
		a := Approval{Kind: KindTool, Definition: Definition{Digest: tc.is, Accepted: tc.accepted}}
		if got := r.covers(&a); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
