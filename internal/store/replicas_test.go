package store_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// Opening what is there never lowers its replicas, and raises them where more are
// configured, also of logs that are acknowledged early. A command changes nothing.
func TestReplicasAreNeverLowered(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster takes seconds to start")
	}
	c := storetest.StartCluster(t)
	nc, err := nats.Connect(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	// As an earlier release has made it. How it is written cannot be changed.
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "early", Subjects: []string{"early.>"}, PersistMode: jetstream.AsyncPersistMode, AllowDirect: true}); err != nil {
		t.Fatal(err)
	}
	open := func(replicas int, keep bool) (*store.Store, map[string]int) {
		t.Helper()
		s := storetest.Open(t, store.Options{URL: c.URL, Replicas: replicas, Keep: keep})
		found := map[string]int{}
		for _, name := range []string{"log", "written", "early"} {
			l, err := s.Log(t.Context(), store.LogOptions{Name: name, Subjects: []string{name + ".>"}, Async: name != "log"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.AppendAny(t.Context(), name+".x", []byte("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Last(t.Context(), name+".x"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Bucket(t.Context(), store.BucketOptions{Name: "values"}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"log", "written", "early", "bucket_values", "bucket_version"} {
			st, err := js.Stream(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			found[name] = st.CachedInfo().Config.Replicas
		}
		return s, found
	}
	for _, step := range []struct {
		replicas    int
		keep        bool
		want, early int
		more        int
	}{
		{1, false, 1, 1, 0},
		{3, true, 1, 1, 0}, // a command
		{3, false, 3, 1, 0},
		{1, false, 3, 1, 3},
		{1, true, 3, 1, 0}, // a command says nothing of it
	} {
		s, found := open(step.replicas, step.keep)
		for name, n := range found {
			want := step.want
			if name == "early" {
				want = step.early
			}
			if n != want {
				t.Errorf("%+v: %s has %d replicas, want %d", step, name, n, want)
			}
		}
		if _, more := s.Replicas(); more != step.more {
			t.Errorf("%+v: %d replicas are known of, want %d", step, more, step.more)
		}
	}
}
