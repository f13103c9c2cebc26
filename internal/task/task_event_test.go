package task

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stoahub/stoa/internal/journal"
)

// Whatever is tried on a Task, and in whatever order, it has one end, no key
// comes twice, and it waits for input exactly while something is open.
func TestApply(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := State{ID: "t_x"}
		seen := map[string]bool{}
		ends := 0
		for seq := uint64(1); seq < 40; seq++ {
			e := genEvent(t, &s)
			next, err := s.Apply(e, journal.Place{Seq: seq})
			if err != nil {
				if diff := cmp.Diff(s, next, cmp.AllowUnexported(State{})); diff != "" {
					t.Fatalf("a refused %s changed the task: %s", e.Kind, diff)
				}
				continue
			}
			if s.Status.Final() {
				t.Fatalf("%s followed the end", e.Kind)
			}
			if next.Status.Final() {
				ends++
			}
			if e.Kind == asked {
				for _, k := range e.Keys {
					if seen[k.Name()] {
						t.Fatalf("%q is asked twice", k.Name())
					}
					seen[k.Name()] = true
				}
			}
			if (next.Status == InputRequired) != (len(next.Open) > 0) {
				t.Fatalf("%s with open %v", next.Status, next.Open)
			}
			if next.Running && next.Status != Working {
				t.Fatalf("%s and running", next.Status)
			}
			s = next
		}
		if ends > 1 {
			t.Fatalf("%d ends", ends)
		}
	})
}

// genEvent draws an event that mostly, but not always, can follow.
func genEvent(t *rapid.T, s *State) *Event {
	e := &Event{Kind: rapid.SampledFrom([]string{created, started, started, asked, asked, answered, answered, answered, ended, "odd"}).Draw(t, "kind"), Time: time.Unix(1, 0)}
	if s.Status == "" && rapid.Bool().Draw(t, "first") {
		e.Kind = created
	}
	switch e.Kind {
	case created:
		if rapid.IntRange(0, 5).Draw(t, "work") > 0 {
			e.Work = &Work{Tool: "x"}
		}
		e.Running = rapid.Bool().Draw(t, "running")
	case asked:
		names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3, rapid.ID).Draw(t, "names")
		if e.Keys = s.keys(names); rapid.IntRange(0, 4).Draw(t, "stale") == 0 {
			e.Keys = (&State{}).keys(names)
		}
	case answered:
		for _, k := range s.Open {
			if rapid.Bool().Draw(t, "answer") {
				e.Given = append(e.Given, k.Name())
			}
		}
		if rapid.IntRange(0, 8).Draw(t, "foreign") == 0 {
			e.Given = append(e.Given, fmt.Sprint("x", len(e.Given)))
		}
	case ended:
		e.Status = rapid.SampledFrom([]Phase{Completed, Failed, Cancelled, Working, ""}).Draw(t, "status")
	}
	return e
}
