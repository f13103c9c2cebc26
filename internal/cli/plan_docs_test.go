package cli

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/plan"
)

// The manual shows one plan in both forms; both are plans, and the same.
func TestPlansOfTheManual(t *testing.T) {
	text, err := os.ReadFile("../../docs/plans.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []any
	for _, form := range []string{"yaml", "json"} {
		block := regexp.MustCompile("(?s)```" + form + "\n(.*?)```").FindSubmatch(text)
		if block == nil {
			t.Fatalf("there is no %s in the manual", form)
		}
		doc, err := config.ParseDocument("plan."+form, block[1])
		if err != nil {
			t.Fatal(err)
		}
		p, problems := plan.Decode(doc.JSON)
		if problems == nil {
			problems = plan.Check(p, nil)
		}
		if problems != nil {
			t.Errorf("%s: %v", form, misplaced(doc, problems))
		}
		var v any
		if err := json.Unmarshal(doc.JSON, &v); err != nil {
			t.Fatal(err)
		}
		got = append(got, v)
	}
	if diff := cmp.Diff(got[0], got[1]); diff != "" {
		t.Errorf("-yaml +json\n%s", diff)
	}
}
