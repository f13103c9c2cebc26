package hub

import (
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// A hub may be told to reload while it is starting: both tell where it is.
func TestWhereTheHubIsCanBeToldAtOnce(t *testing.T) {
	d, err := openData(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if err := d.announce([]string{"127.0.0.1:1"}, "hash"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if r, err := ReadRunning(d.path); err != nil || r.Address != "127.0.0.1:1" {
		t.Errorf("got %+v, %v", r, err)
	}
	d.close()
	if err := d.announce([]string{"127.0.0.1:2"}, "hash"); err != nil {
		t.Error(err)
	}
	if r, err := ReadRunning(d.path); err == nil {
		t.Errorf("after it was closed: %+v", r)
	}
}

// The process before is known to have ended if it has locked this very file. That
// of a copied folder may still run.
func TestProcessBefore(t *testing.T) {
	open := func(path string) *dataDir {
		t.Helper()
		d, err := openData(path, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	path, copied := t.TempDir(), t.TempDir()
	first := open(path)
	if first.before != "" {
		t.Errorf("before the first there was %q", first.before)
	}
	for _, name := range []string{"id", "hub.lock"} {
		b, err := os.ReadFile(filepath.Join(path, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(copied, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	twin := open(copied)
	defer twin.close()
	if twin.hub != first.hub || twin.process == first.process || twin.before != "" {
		t.Errorf("a copy of %q, which runs, is %q after %q", first.process, twin.process, twin.before)
	}
	first.close()
	next := open(path)
	defer next.close()
	if next.before != first.process || next.process == first.process {
		t.Errorf("after %q comes %q, which takes it for %q", first.process, next.process, next.before)
	}
}
