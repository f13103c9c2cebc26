package roster

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

func TestMain(m *testing.M) {
	storetest.Child()
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, st *store.Store, self Hub, o Options) *Roster {
	t.Helper()
	r, err := Open(t.Context(), st, self, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func ids(hubs []Hub) []string {
	var out []string
	for _, h := range hubs {
		out = append(out, h.ID)
	}
	return out
}

// Hubs on one server know each other: who comes, what it changes, who leaves,
// and who dies without a word.
func TestHubsKnowEachOther(t *testing.T) {
	s := storetest.StartServer(t)
	connect := func() *store.Store { return storetest.Open(t, store.Options{URL: s.URL}) }
	changed := make(chan struct{}, 100)
	a := open(t, connect(), Hub{ID: "a", Config: map[string]string{"policy": "1"}}, Options{Changed: func() { changed <- struct{}{} }})
	defer a.Close()
	if others := a.Others(); len(others) > 0 {
		t.Fatalf("the first hub knows %v", others)
	}
	b := open(t, connect(), Hub{ID: "b", Config: map[string]string{"policy": "1", "server files": "2"}}, Options{})
	await.Until(t, "both know each other", func() bool {
		return slices.Equal(ids(a.Others()), []string{"b"}) && slices.Equal(ids(b.Others()), []string{"a"})
	})
	<-changed
	self, other := a.Self(), a.Others()[0]
	if got := self.Differs(&other); !slices.Equal(got, []string{"server files"}) {
		t.Errorf("they differ in %v", got)
	}
	b.Set(func(h *Hub) { h.Config = map[string]string{"policy": "2"} })
	await.Until(t, "a change is known", func() bool {
		others := a.Others()
		return len(others) == 1 && slices.Equal(self.Differs(&others[0]), []string{"policy"})
	})
	<-changed
	b.Close()
	await.Until(t, "who leaves is gone", func() bool { return len(a.Others()) == 0 })

	dead := connect()
	c := open(t, dead, Hub{ID: "c"}, Options{Life: time.Second})
	await.Until(t, "the third hub is known", func() bool { return slices.Equal(ids(a.Others()), []string{"c"}) })
	if err := dead.Close(); err != nil { // as if it were killed
		t.Fatal(err)
	}
	await.Until(t, "who died is gone", func() bool { return len(a.Others()) == 0 })
	c.Close()
}

// Two that have the same id, as where a data folder was copied, learn of each
// other; a hub that is started again takes what it left for no other.
func TestTwin(t *testing.T) {
	s := storetest.StartServer(t)
	connect := func() *store.Store { return storetest.Open(t, store.Options{URL: s.URL}) }
	began := time.Now()
	dead := connect()
	before := open(t, dead, Hub{ID: "a", Pid: 1, Started: began}, Options{})
	watcher := open(t, connect(), Hub{ID: "watcher"}, Options{})
	defer watcher.Close()
	await.Until(t, "it is known", func() bool { return slices.Equal(ids(watcher.Others()), []string{"a"}) })
	if err := dead.Close(); err != nil { // as if it were killed
		t.Fatal(err)
	}
	before.Close()
	a := open(t, connect(), Hub{ID: "a", Pid: 2, Started: began.Add(time.Minute)}, Options{})
	defer a.Close()
	await.Until(t, "it is known again", func() bool {
		others := watcher.Others()
		return len(others) == 1 && others[0].Pid == 2
	})
	if twin, ok := a.Twin(); ok {
		t.Errorf("what it was before is taken for %+v", twin)
	}
	copied := open(t, connect(), Hub{ID: "a", Host: "other", Pid: 2, Started: began.Add(time.Hour)}, Options{Life: time.Second})
	defer copied.Close()
	await.Until(t, "the first learns of the other", func() bool { twin, ok := a.Twin(); return ok && twin.Host == "other" })
	a.Set(func(h *Hub) { h.Version = "2" })
	await.Until(t, "the other learns of the first", func() bool { twin, ok := copied.Twin(); return ok && twin.Version == "2" })
}

func TestFingerprint(t *testing.T) {
	one := Fingerprint(map[string]any{"a": 1, "b": []string{"x"}})
	if two := Fingerprint(map[string]any{"b": []string{"x"}, "a": 1}); one != two {
		t.Errorf("the same config has the fingerprints %s and %s", one, two)
	}
	if other := Fingerprint(map[string]any{"a": 1, "b": []string{"y"}}); one == other {
		t.Errorf("another config has the same fingerprint %s", one)
	}
}
