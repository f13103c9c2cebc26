package storetest

import (
	"context"
	"sync"
	"testing"

	"github.com/stoahub/stoa/internal/store"
)

// Open opens a store with options that ends with the test; without a folder
// and a URL it is one over an empty folder.
func Open(t testing.TB, o store.Options) *store.Store {
	t.Helper()
	if o.Dir == "" && o.URL == "" {
		o.Dir = t.TempDir()
	}
	s, err := store.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return s
}

// The server and the cluster that tests share. They end with the test binary.
var (
	oneServer = sync.OnceValues(func() (*Server, error) {
		dir, err := tempDir()
		if err != nil {
			return nil, err
		}
		return startServer(dir, dir)
	})
	oneCluster = sync.OnceValues(func() (*Cluster, error) {
		dir, err := tempDir()
		if err != nil {
			return nil, err
		}
		return startCluster(dir, dir)
	})
)

// Each runs a test with an empty store of each kind: "embedded", "server" and,
// unless tests are to be short, "cluster". Tests of one binary share the
// server and the cluster, so f must not run beside another Each.
func Each(t *testing.T, f func(t *testing.T, s *store.Store)) {
	t.Run("embedded", func(t *testing.T) { f(t, Open(t, store.Options{})) })
	t.Run("server", func(t *testing.T) {
		s, err := oneServer()
		if err != nil {
			t.Fatal(err)
		}
		if err := wipe(s.URL); err != nil {
			t.Fatal(err)
		}
		f(t, Open(t, store.Options{URL: s.URL}))
	})
	t.Run("cluster", func(t *testing.T) {
		if testing.Short() {
			t.Skip("a cluster takes seconds to start")
		}
		c, err := oneCluster()
		if err != nil {
			t.Fatal(err)
		}
		if err := wipe(c.URL); err != nil {
			t.Fatal(err)
		}
		f(t, Open(t, c.Options()))
	})
}
