package cli

import (
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/upstream"
)

// Who looks at the servers sees which tools are refused, and why.
func TestOpenBreakersAreShown(t *testing.T) {
	st := upstream.Status{Name: "up", State: upstream.Connected, Breaker: "open", OpenTools: 3, OpenNames: []string{"read", "write"},
		BreakerError: "tools/call: HTTP status 500", OpenErrors: map[string]string{"write": "the disk is full"}}
	text := strings.Join((&serversListCmd{}).details(st), "\n")
	for _, want := range []string{"breaker: open", "calls of read, write and 1 more are refused", "last failure: tools/call: HTTP status 500", "write: last failure: the disk is full"} {
		if !strings.Contains(text, want) {
			t.Errorf("stoa servers does not say %q: %s", want, text)
		}
	}
	var d diagnosis
	d.condition(st, nil)
	if len(d.Findings) != 3 || d.well() {
		t.Errorf("stoa doctor: %+v", d.Findings)
	}
}
