package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/stoahub/stoa/internal/store/storetest"
)

func TestMain(m *testing.M) {
	storetest.Child()
	goleak.VerifyTestMain(m)
}

// line fills a queue of concurrency 1 and returns the order in which the
// waiting are served.
func line(t *testing.T, tickets ...Ticket) (order []int) {
	synctest.Test(t, func(t *testing.T) {
		q := New(1, len(tickets))
		first, err := q.Enter(t.Context(), Ticket{})
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i, ticket := range tickets {
			wg.Go(func() {
				s, err := q.Enter(t.Context(), ticket)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				s.Leave(true)
			})
			synctest.Wait()
		}
		first.Leave(true)
		wg.Wait()
		if s := q.Status(); s.Queued != 0 || s.Running != 0 || s.Done != int64(len(tickets)+1) {
			t.Errorf("in the end: %+v", s)
		}
	})
	return order
}

func TestFlowsTakeTurns(t *testing.T) {
	a, b := Ticket{Flow: "a"}, Ticket{Flow: "b"}
	if got := line(t, a, a, a, b, b); !slices.Equal(got, []int{0, 3, 1, 4, 2}) {
		t.Errorf("order %v", got)
	}
}

func TestPriorities(t *testing.T) {
	var tickets []Ticket
	for _, p := range []Priority{Low, Normal, High} {
		for range 10 {
			tickets = append(tickets, Ticket{Flow: p.String(), Priority: p})
		}
	}
	got := line(t, tickets...)
	count := map[Priority]int{}
	for i, n := range got {
		if count[tickets[n].Priority]++; i == 9 {
			if count[High] != 6 || count[Normal] != 3 || count[Low] != 1 {
				t.Errorf("of the first ten turns: %v", count)
			}
		}
	}
}

func TestPlacesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(1, 10)
		first, _ := q.Enter(t.Context(), Ticket{})
		var places [3][]int
		var wg sync.WaitGroup
		release := make(chan struct{})
		for i := range places {
			wg.Go(func() {
				s, err := q.Enter(t.Context(), Ticket{Flow: "x", Moved: func(p int) { places[i] = append(places[i], p) }})
				if err != nil {
					t.Error(err)
					return
				}
				<-release
				s.Leave(true)
			})
			synctest.Wait()
		}
		first.Leave(true)
		synctest.Wait()
		release <- struct{}{}
		synctest.Wait()
		close(release)
		wg.Wait()
		for i, want := range [][]int{{1}, {2, 1}, {3, 2, 1}} {
			if !slices.Equal(places[i], want) {
				t.Errorf("caller %d was told %v, want %v", i, places[i], want)
			}
		}
	})
}

func TestFullAndGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(1, 1)
		first, _ := q.Enter(t.Context(), Ticket{Call: "one"})
		gone := errors.New("the caller is gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := q.Enter(ctx, Ticket{}); err != gone {
				t.Errorf("who left got %v", err)
			}
		})
		synctest.Wait()
		if _, err := q.Enter(t.Context(), Ticket{}); err != ErrFull {
			t.Errorf("a third got %v", err)
		}
		// What comes of the running call must not wait for it.
		inner, err := q.Enter(t.Context(), Ticket{Above: []string{"zero", "one"}})
		if err != nil {
			t.Fatal(err)
		}
		inner.Leave(true)
		if s := q.Status(); s.Running != 1 || s.Queued != 1 || s.Done != 0 {
			t.Errorf("with a nested call: %+v", s)
		}
		cancel(gone)
		wg.Wait()
		first.Leave(false)
		first.Leave(false)
		if s := q.Status(); s.Running != 0 || s.Queued != 0 || s.Done != 1 || s.Failed != 1 {
			t.Errorf("in the end: %+v", s)
		}
	})
}

// Under random callers that may give up at any time: never more run than may,
// each flow is served in its order, and nobody is forgotten.
func TestSchedules(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type caller struct {
			Ticket
			gives bool
		}
		n := rapid.IntRange(1, 40).Draw(rt, "callers")
		most := rapid.IntRange(1, 4).Draw(rt, "concurrency")
		callers := make([]caller, n)
		for i := range callers {
			callers[i] = caller{Ticket{Flow: fmt.Sprint(rapid.IntRange(0, 3).Draw(rt, "flow"))}, rapid.IntRange(0, 4).Draw(rt, "gives up") == 0}
		}
		synctest.Test(t, func(t *testing.T) {
			q := New(most, n)
			var running, peak atomic.Int64
			var mu sync.Mutex
			served := map[string][]int{}
			var wg sync.WaitGroup
			for i, c := range callers {
				ctx, cancel := context.WithCancel(t.Context())
				wg.Go(func() {
					defer cancel()
					s, err := q.Enter(ctx, c.Ticket)
					if err != nil {
						return
					}
					peak.Store(max(peak.Load(), running.Add(1)))
					mu.Lock()
					served[c.Flow] = append(served[c.Flow], i)
					mu.Unlock()
					<-time.After(time.Duration(i%3) * time.Millisecond)
					running.Add(-1)
					s.Leave(true)
				})
				synctest.Wait() // so that they come in this order
				if c.gives {
					cancel()
				}
			}
			wg.Wait()
			if peak.Load() > int64(most) {
				rt.Errorf("%d ran at once, %d may", peak.Load(), most)
			}
			total := 0
			for _, order := range served {
				total += len(order)
			}
			if s := q.Status(); s.Queued != 0 || s.Running != 0 || s.Done != int64(total) {
				rt.Errorf("%d were served, and in the end: %+v", total, s)
			}
			for flow, order := range served {
				if most == 1 && !slices.IsSorted(order) {
					rt.Errorf("flow %s was served in the order %v", flow, order)
				}
			}
			for i, c := range callers {
				if !c.gives && !slices.Contains(served[c.Flow], i) {
					rt.Errorf("caller %d of flow %s was never served", i, c.Flow)
				}
			}
		})
	})
}

func BenchmarkIdleQueue(b *testing.B) {
	q := New(1, 100)
	for b.Loop() {
		s, err := q.Enter(b.Context(), Ticket{Flow: "a", Call: "c"})
		if err != nil {
			b.Fatal(err)
		}
		s.Leave(true)
	}
}
