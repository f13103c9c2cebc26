package hub_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/store"
)

// planTally is what the journals say of all runs.
type planTally struct{ runs, done, failed, unsure, calls, again int }

// checkJournals holds the journals against what the upstream was sent: every
// request was noted before it was sent, none was made after its result was
// recorded, what bears no repetition was sent once, and every run is over or
// says truly why it is not.
func checkJournals(t *testing.T, st *store.Store, web *peer.HTTPServer) (sum planTally) {
	t.Helper()
	l, err := st.Log(t.Context(), store.LogOptions{Name: "plan", Subjects: []string{"evt.plan.>"}})
	if err != nil {
		t.Fatal(err)
	}
	journals := map[string][]plan.Event{}
	if err := l.Scan(t.Context(), "", 0, func(e store.Entry) error {
		var ev plan.Event
		if err := json.Unmarshal(e.Data, &ev); err != nil {
			return err
		}
		journals[e.Subject] = append(journals[e.Subject], ev)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	sent := map[string]int{}
	for _, r := range web.Requests() {
		if r.Method != "tools/call" {
			continue
		}
		_, key, _ := bytes.Cut(r.Body, []byte(`"stoa/idempotencyKey":"`))
		key, _, _ = bytes.Cut(key, []byte(`"`))
		sent[string(key)]++
		sum.calls++
	}
	for subject, events := range journals {
		s, err := plan.Replay(events)
		if err != nil {
			t.Errorf("%s: %v", subject, err)
			continue
		}
		sum.runs++
		checkRun(t, s, events, sent, &sum)
	}
	for key, n := range sent {
		t.Errorf("%d calls under %q are in no journal", n, key)
	}
	return sum
}

// checkRun holds one journal to what was sent, and takes it off.
func checkRun(t *testing.T, s *plan.State, events []plan.Event, sent map[string]int, sum *planTally) {
	t.Helper()
	type call struct {
		step string
		item int
		kind plan.CallKind
	}
	begun, done, key, all := map[string]int{}, map[call]bool{}, map[call]string{}, map[call]map[string]bool{}
	for _, e := range events {
		c := call{e.Step, e.Item, e.Kind}
		switch e.Type {
		case plan.CallStarted:
			begun[e.Key]++
			key[c] = e.Key
			if all[c] == nil {
				all[c] = map[string]bool{}
			}
			all[c][e.Key] = true
			if done[c] {
				t.Errorf("%s: %v is called after its result was recorded", s.Created.Run, c)
			}
		case plan.CallDone:
			done[c] = true
			if key[c] != "" && sent[key[c]] == 0 {
				t.Errorf("%s: %v is recorded and was never sent", s.Created.Run, c)
			}
		}
	}
	for c, keys := range all { // whatever the key, it is one call
		total, used := 0, 0
		for k := range keys {
			if total += sent[k]; sent[k] > 0 {
				used++
			}
		}
		tool := s.Created.Plan.Step(c.step).Tool
		if c.kind == plan.OwnCall && tool != "up__again" && total > 1 {
			t.Errorf("%s: %v of %s bears no repetition and was sent %d times under %v", s.Created.Run, c, tool, total, keys)
		}
		if used > 1 { // none of those that may be repeated fails
			t.Errorf("%s: %v was sent under several keys: %v", s.Created.Run, c, keys)
		}
	}
	for k, n := range begun {
		if sent[k] > n {
			t.Errorf("%s: %s was begun %d times and sent %d times", s.Created.Run, k, n, sent[k])
		}
		if sent[k] > 1 {
			sum.again++
		}
		delete(sent, k)
	}
	switch s.Status {
	case plan.Finished:
		sum.done++
	case plan.Failed:
		sum.failed++
		if s.Failure == nil || !strings.Contains(s.Failure.Message, "not today") {
			t.Errorf("%s failed without a true reason: %+v", s.Created.Run, s.Failure)
		}
	case plan.Paused:
		sum.unsure++
		id := s.Pause.Step
		if st := s.Steps[id]; st == nil || len(st.Items) == 0 || !strings.Contains(s.Pause.Reason, "not known") || !anyUnknown(st) {
			t.Errorf("%s is paused without a true reason: %+v", s.Created.Run, s.Pause)
		}
	default:
		t.Errorf("%s is %s", s.Created.Run, s.Status)
	}
}

// anyUnknown says whether nobody knows what became of a call that bears no
// repetition, or that was cut off too often.
func anyUnknown(st *plan.StepState) bool {
	for i := range st.Items {
		if it := &st.Items[i]; it.Phase == plan.ItemUnknown && (!it.Safe || it.Cuts > 4) {
			return true
		}
	}
	return false
}
