package cli

import (
	"bytes"
	"strings"
	"testing"
)

// Who calls a tool is told that the answer is that of a call before, and not on
// stdout.
func TestCallSaysThatAResultWasCached(t *testing.T) {
	for raw, cached := range map[string]bool{
		`{"content":[{"type":"text","text":"42"}],"_meta":{"stoa/cached":{"ageMs":1200,"ttlMs":5}}}`: true,
		`{"content":[{"type":"text","text":"42"}]}`:                                                  false,
	} {
		var out, errs bytes.Buffer
		if err := (&callCmd{Name: "x"}).show(std{strings.NewReader(""), &out, &errs}, []byte(raw)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(errs.String(), "cached result, 1200 ms old"); got != cached || out.String() != "42\n" {
			t.Errorf("%s: %q, %q", raw, out.String(), errs.String())
		}
	}
}
