package policy

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/store"
)

// What a later release remembers with a condition that is not known here does not
// count: a person is asked. It stays until it is decided anew, or all is forgotten
// by somebody who may approve.
func TestDecisionsOfALaterRelease(t *testing.T) {
	st, err := store.Open(t.Context(), store.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	b, err := st.Bucket(t.Context(), store.BucketOptions{Name: "policy"})
	if err != nil {
		t.Fatal(err)
	}
	plain := func(tool string) Remembered {
		a := wants("", tool)
		a.Kind = KindTool
		r, _ := remembered(&a, ForTool)
		r.Approve, r.By = true, "alice"
		return r
	}
	put := func(r Remembered, more string) string {
		t.Helper()
		data, err := json.Marshal(r)
		if err == nil {
			_, err = b.Put(t.Context(), r.key(), []byte(strings.Replace(string(data), "{", "{"+more, 1)), 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		return r.key()
	}
	known, narrow, other := plain("read"), plain("write"), plain("other")
	put(known, "")
	keys := []string{put(narrow, `"onlyIn":"/tmp",`), put(other, `"onlyIn":"/tmp",`)}
	d := desk(t, st, DeskOptions{})
	defer d.Attend("alice", "")()
	if q, done := ask(t.Context(), d, wants("", "read")); q.ID != "" || !(<-done).dec.Approve {
		t.Error("what is known does not count")
	}
	q, done := ask(t.Context(), d, wants("", "write"))
	if q.ID == "" {
		t.Fatalf("nobody was asked: %+v", <-done)
	}
	if v, err := b.Get(t.Context(), keys[0]); err != nil || !strings.Contains(string(v.Data), "onlyIn") {
		t.Errorf("it was not kept: %q, %v", v.Data, err)
	}
	if err := d.Decide(alice, q.ID, Decision{Approve: true, Remember: ForTool}); err != nil {
		t.Fatal(err)
	}
	<-done
	if q, done := ask(t.Context(), d, wants("", "write")); q.ID != "" || !(<-done).dec.Approve {
		t.Error("what was decided anew does not count")
	}
	bare := &auth.Principal{Name: "alice", Via: auth.ViaToken}
	for _, step := range []struct {
		what  string
		do    func() error
		stays bool
	}{
		{"forgotten by who may not approve", func() error { _, err := d.ForgetFor(t.Context(), bare, "alice", ""); return err }, true},
		{"forgotten for another", func() error { _, err := d.Forget(t.Context(), "bob", ""); return err }, true},
		{"forgotten by who may", func() error { _, err := d.ForgetFor(t.Context(), alice, "alice", ""); return err }, false},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		// Bury takes its time: what follows a removal may be the note of it.
		v, err := b.Get(t.Context(), keys[1])
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		if stays := strings.Contains(string(v.Data), "onlyIn"); stays != step.stays {
			t.Errorf("%s: it stays: %v, want %v", step.what, stays, step.stays)
		}
	}
}
