package policy

import (
	"testing"

	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// Two hubs on one store agree about what is remembered: what one remembers the
// other asks nobody about, also if it is asking already, and what one takes back
// the other does not rest on any more, from that moment on.
func TestHubsShareWhatIsRemembered(t *testing.T) {
	s := storetest.StartServer(t)
	hub := func() *Desk {
		d := desk(t, storetest.Open(t, store.Options{URL: s.URL}), DeskOptions{})
		t.Cleanup(d.Attend("alice", ""))
		return d
	}
	a, b := hub(), hub()
	decide := func(by *Desk, approve bool) {
		t.Helper()
		q, done := ask(t.Context(), by, wants("s", "write"))
		if q.ID == "" {
			t.Fatalf("nobody was asked: %+v", <-done)
		}
		if err := by.Decide(alice, q.ID, Decision{Approve: approve, Remember: ForTool}); err != nil {
			t.Fatal(err)
		}
		if out := <-done; out.err != nil || out.dec.Approve != approve {
			t.Fatalf("decided: %+v", out)
		}
	}
	remembered := func(by *Desk, approve bool) {
		t.Helper()
		q, done := ask(t.Context(), by, wants("t", "write"))
		if q.ID != "" {
			t.Fatal("somebody was asked again")
		}
		if out := <-done; out.err != nil || out.dec.Approve != approve || out.dec.Reason != ReasonRemembered {
			t.Fatalf("remembered: %+v", out)
		}
	}
	forget := func(by *Desk) {
		t.Helper()
		if gone, err := by.Forget(t.Context(), "alice", ""); err != nil || len(gone) != 1 {
			t.Fatalf("forgot %+v, %v", gone, err)
		}
	}
	waiting, answered := ask(t.Context(), b, wants("t", "write"))
	if waiting.ID == "" {
		t.Fatal("nobody was asked")
	}
	decide(a, true)
	remembered(b, true)
	if out := <-answered; out.err != nil || !out.dec.Approve || out.dec.Reason != ReasonRemembered {
		t.Errorf("what waited at the other hub: %+v", out)
	}
	if all, err := b.Remembered(t.Context(), "alice"); err != nil || len(all) != 1 || all[0].Ref != "fs:write" {
		t.Errorf("the other lists %+v, %v", all, err)
	}
	forget(b)
	decide(a, false) // it asks again
	remembered(b, false)
	remembered(hub(), false) // as after a restart
	forget(hub())
	if all, err := a.Remembered(t.Context(), ""); err != nil || len(all) != 0 {
		t.Errorf("after it was forgotten elsewhere: %+v, %v", all, err)
	}
	if q, done := ask(t.Context(), hub(), wants("s", "write")); q.ID == "" {
		t.Fatalf("after a restart it is back: %+v", <-done)
	}
}
