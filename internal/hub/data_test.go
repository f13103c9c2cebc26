package hub

import (
	"log/slog"
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
