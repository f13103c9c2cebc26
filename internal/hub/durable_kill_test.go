package hub_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// A writer stores values through a hub that is killed under it and keeps count
// of what must be there. Nobody else writes its names.
type writer struct {
	d       *durable
	http    *http.Client
	id      int
	session string
	rnd     *rand.Rand
	acked   *atomic.Int64
	unsure  *atomic.Int64
	names   map[string]*fate
	n       int
}

// fate is what may have become of one name.
type fate struct {
	sent  map[int]string // all data that was ever sent, by number
	acked []int          // since it was removed for certain
	may   map[int]bool   // what it may be now; -1 means removed
}

// data names its writer, its name and its number, and is of any length.
func (w *writer) data(name string) string {
	w.n++
	pad := w.rnd.IntN(200)
	switch w.rnd.IntN(60) {
	case 0:
		pad = store.MaxEntry + w.rnd.IntN(100_000)
	case 1, 2, 3:
		pad = w.rnd.IntN(20_000)
	}
	return fmt.Sprintf(`{"writer":%d,"name":"%s","n":%d,"pad":"%s"}`, w.id, name, w.n, strings.Repeat(string(rune('a'+w.n%26)), pad))
}

func (w *writer) step() error {
	name := fmt.Sprintf("w%d_%d", w.id, w.rnd.IntN(6))
	f := w.names[name]
	if f == nil {
		f = &fate{sent: map[int]string{}, may: map[int]bool{-1: true}}
		w.names[name] = f
	}
	if w.rnd.IntN(20) == 0 {
		return w.remove(name, f)
	}
	data := w.data(name)
	f.sent[w.n] = data
	_, err := w.d.tool(w.http, w.session, "context_add", `{"name":"`+name+`","data":`+data+`}`)
	switch {
	case err == nil:
		w.acked.Add(1)
		f.acked, f.may = append(f.acked, w.n), map[int]bool{w.n: true}
	case errors.Is(err, errRefused):
		return err
	default:
		w.unsure.Add(1)
		f.may[w.n] = true
		return w.wait()
	}
	return nil
}

func (w *writer) remove(name string, f *fate) error {
	_, err := w.d.tool(w.http, w.session, "context_remove", `{"name":"`+name+`"}`)
	switch {
	case err == nil:
		f.acked, f.may = nil, map[int]bool{-1: true}
	case errors.Is(err, errRefused):
		if !f.may[-1] {
			return fmt.Errorf("%s is gone: %w", name, err)
		}
		f.acked, f.may = nil, map[int]bool{-1: true}
	default:
		f.acked = nil // it may have been
		f.may[-1] = true
		return w.wait()
	}
	return nil
}

// wait waits until a hub answers again.
func (w *writer) wait() error {
	end := time.Now().Add(await.Patience)
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		_, err := w.d.tool(w.http, w.session, "context_list", `{}`)
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("no hub answers: %w", err)
		}
	}
	return nil
}

// check holds what the hub has against what was acknowledged, and against what
// was ever sent.
func (w *writer) check(t *testing.T) {
	for name, f := range w.names {
		a, err := w.d.tool(w.http, w.session, "context_history", `{"name":"`+name+`"}`)
		if errors.Is(err, errRefused) {
			if !f.may[-1] {
				t.Errorf("%s was acknowledged and is not there: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var h struct{ Versions []struct{ Version int } }
		if err := json.Unmarshal(a.Data, &h); err != nil {
			t.Fatal(err)
		}
		there := map[int]bool{}
		oldest := 1 << 60
		for i, v := range h.Versions {
			a, err := w.d.tool(w.http, w.session, "context_get", fmt.Sprintf(`{"name":%q,"version":%d,"whole":true}`, name, v.Version))
			if err != nil {
				t.Errorf("%s, version %d: %v", name, v.Version, err)
				continue
			}
			var is struct{ N int }
			if err := json.Unmarshal(a.Data, &is); err != nil || f.sent[is.N] != string(a.Data) || there[is.N] {
				t.Errorf("%s, version %d: nobody sent %.100s, or it is there twice", name, v.Version, a.Data)
			}
			if i == 0 && !f.may[is.N] {
				t.Errorf("%s is number %d, it may be %v", name, is.N, f.may)
			}
			there[is.N] = true
			oldest = min(oldest, is.N)
		}
		if len(h.Versions) < 10 {
			oldest = 0 // none was dropped
		}
		for _, n := range f.acked {
			if n >= oldest && !there[n] {
				t.Errorf("%s: number %d was acknowledged and is not among %v", name, n, there)
			}
		}
	}
}

// TestKilledHub kills the hub at random moments under eight clients. What was
// acknowledged is there after each restart, and nothing else.
func TestKilledHub(t *testing.T) {
	hubtest.Parallel(t)
	killedWithValues(t, storetest.Folder(), soak(3, 60), soak(200, 10_000))
}

func killedWithValues(t *testing.T, f storetest.Form, kills, count int) {
	wanted := int64(count)
	d := newDurableIn(t, "", f)
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	var acked, unsure atomic.Int64
	var wg sync.WaitGroup
	writers := make([]*writer, 8)
	for i := range writers {
		w := &writer{d: d, http: &http.Client{Transport: &http.Transport{}}, id: i, session: fmt.Sprint("shared", i/2), rnd: rand.New(rand.NewPCG(seed, uint64(i))), acked: &acked, unsure: &unsure, names: map[string]*fate{}}
		writers[i] = w
		t.Cleanup(w.http.CloseIdleConnections)
		wg.Go(func() {
			for acked.Load() < wanted {
				if err := w.step(); err != nil {
					t.Errorf("writer %d: %v", w.id, err)
					return
				}
			}
		})
	}
	d.killOften(t, f, "session", kills, wanted, &acked, rand.New(rand.NewPCG(seed, 99)))
	wg.Wait()
	d.kill(t)
	d.start(t)
	for _, w := range writers {
		w.check(t)
	}
	said := d.said(t)
	for _, bad := range []string{"damaged", "cannot be read", "panic"} {
		if strings.Contains(said, bad) {
			t.Errorf("a hub said that something is %s", bad)
		}
	}
	t.Logf("%d acknowledged, %d of unknown fate, %d kills", acked.Load(), unsure.Load(), kills+1)
}
