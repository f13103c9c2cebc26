package pin

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// hub is a hub on a server that others use too.
type hub struct {
	*Book
	*Server
	n     news
	stirs chan struct{} // has room for one: Decided was called
}

func newHub(t *testing.T, url string, o ServerOptions) *hub {
	t.Helper()
	h := &hub{stirs: make(chan struct{}, 1)}
	b, err := Open(t.Context(), storetest.Open(t, store.Options{URL: url}), Options{Announce: h.n.add, Decided: func(string) {
		select {
		case h.stirs <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	h.Book, h.Server = b, b.Server(o)
	return h
}

// quiet forgets that Decided was called.
func (h *hub) quiet() {
	select {
	case <-h.stirs:
	default:
	}
}

// Two hubs on one store agree: what one pins, accepts or rejects, the other has,
// and is told so; so has one that is started later.
func TestTwoBooks(t *testing.T) {
	srv := storetest.StartServer(t)
	one, two := newHub(t, srv.URL, ServerOptions{Name: "up"}), newHub(t, srv.URL, ServerOptions{Name: "up"})
	if got := read(t, one.Server, def("look", "Looks.")) + ", " + read(t, two.Server, def("look", "Looks twice.")); got != "look accepted, look changed" {
		t.Fatal(got)
	}
	for _, accept := range []bool{true, false} {
		want := "look accepted"
		if !accept {
			want = "look rejected held"
		}
		by, other := one, two
		if accept {
			by, other = two, one
		}
		other.quiet()
		read(t, by.Server, def("look", "Looks twice."))
		decide(t, by.Book, accept, "up__look")
		<-other.stirs
		await.Until(t, "the other hub has what was decided", func() bool { return read(t, other.Server, def("look", "Looks twice.")) == want })
		if got := read(t, newHub(t, srv.URL, ServerOptions{Name: "up"}).Server, def("look", "Looks twice.")); got != want {
			t.Errorf("after a restart: %s, want %s", got, want)
		}
	}
}

// Both pin a server at the same time: one was first, and both go by that.
func TestTwoBooksPinAtOnce(t *testing.T) {
	srv := storetest.StartServer(t)
	one, two := newHub(t, srv.URL, ServerOptions{Name: "up"}), newHub(t, srv.URL, ServerOptions{Name: "up"})
	items := many(t, 10)
	for round := range 2 {
		o := ServerOptions{Name: "up", Identity: fmt.Sprint(round)}
		var wg sync.WaitGroup
		for _, b := range []*Book{one.Book, two.Book} {
			wg.Go(func() {
				got, err := b.Server(o).Review(catalog.Tool, items)
				if err != nil {
					t.Error(err)
				}
				for _, it := range got {
					if it.Standing.State != catalog.Accepted {
						t.Errorf("%s is %s", it.Name, it.Standing.State)
					}
				}
			})
		}
		wg.Wait()
	}
}

// many are definitions that take more than one shard.
func many(t *testing.T, n int) (items []*catalog.Item) {
	t.Helper()
	for i := range n {
		it, err := catalog.Parse(catalog.Tool, "up", fmt.Appendf(nil, `{"name":"tool_%d","inputSchema":{"type":"object"},"_meta":{"x":[%s1]}}`, i, strings.Repeat("1,", 7<<10)))
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, it)
	}
	return items
}

// What a viewer was given at one hub and is rejected at the other cannot be
// called at either, without being listed again.
func TestRejectedElsewhereForAViewer(t *testing.T) {
	srv := storetest.StartServer(t)
	one, two := newHub(t, srv.URL, ServerOptions{Name: "up"}), newHub(t, srv.URL, ServerOptions{Name: "up"})
	mine := def("look", "Looks at what is ann's.")
	for _, h := range []*hub{one, two} {
		read(t, h.Server, def("look", "Looks."))
		if got := variants(h.Server, "legacy ann", mine); got != "accepted" {
			t.Fatal(got)
		}
	}
	decide(t, one.Book, false, "up__look")
	await.Until(t, "it is held at the other hub", func() bool { return two.Server.Seen("legacy ann", catalog.Tool, "look").Held() })
	if got := variants(two.Server, "legacy ann", mine); got != "rejected held" {
		t.Errorf("listed again: %s", got)
	}
}

// What was rejected before anything could be pinned stays rejected, whichever hub
// pins the rest, and however large the server is.
func TestRejectedBeforeAllIsPinned(t *testing.T) {
	srv := storetest.StartServer(t)
	one, two := newHub(t, srv.URL, ServerOptions{Name: "up"}), newHub(t, srv.URL, ServerOptions{Name: "up"})
	items := many(t, 10)
	// As when the store could not be written to.
	one.Server.enter.Do(func() { one.Book.enter(one.Server) })
	now := map[string]*catalog.Item{}
	for _, it := range items {
		now[recordKey(catalog.Tool, it.Name)] = it.Reviewed(&catalog.Standing{Digest: catalog.Digest(it.Raw), State: catalog.Unchecked}, false)
	}
	one.Server.mu.Lock()
	one.keep(catalog.Tool, now)
	one.Server.mu.Unlock()
	for i := range 5 {
		decide(t, one.Book, false, fmt.Sprintf("up__tool_%d", i))
	}
	if err := two.values.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := two.Review(catalog.Tool, items)
	if err != nil {
		t.Fatal(err)
	}
	for i, it := range got {
		if want := i < 5; it.Standing.Held() != want {
			t.Errorf("%s is %s", it.Name, it.Standing.State)
		}
	}
}
