package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

func wantStatus(t *testing.T, l *Limiter, queued, running int) {
	t.Helper()
	q, r, _ := l.Status()
	if q != queued || r != running {
		t.Fatalf("queued %d, running %d; want %d, %d", q, r, queued, running)
	}
}

func TestLimiterBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(1, 1)
		ctx, cancel := context.WithCancel(t.Context())
		if err := l.Acquire(ctx); err != nil {
			t.Fatal(err)
		}
		second := make(chan error, 1)
		go func() { second <- l.Acquire(ctx) }()
		synctest.Wait()
		wantStatus(t, l, 1, 1)
		if err := l.Acquire(ctx); !errors.Is(err, ErrFull) {
			t.Fatalf("third: %v, want ErrFull", err)
		}
		cancel()
		if err := <-second; !errors.Is(err, context.Canceled) {
			t.Fatalf("second: %v, want context.Canceled", err)
		}
		wantStatus(t, l, 0, 1)
		l.Release()
		wantStatus(t, l, 0, 0)
		if err := l.Acquire(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("ended context: %v", err)
		}
		wantStatus(t, l, 0, 0)
	})
}

func TestLimiterZeroCapacityLetsNobodyWait(t *testing.T) {
	l := NewLimiter(1, 0)
	if err := l.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Acquire(t.Context()); !errors.Is(err, ErrFull) {
		t.Fatalf("%v, want ErrFull", err)
	}
	l.Release()
}

func TestLimiterPanicsOnMisuse(t *testing.T) {
	for name, f := range map[string]func(){
		"concurrency": func() { NewLimiter(0, 1) },
		"capacity":    func() { NewLimiter(1, -1) },
		"release":     func() { NewLimiter(1, 1).Release() },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

// TestLimiterGrantMeetsCancel makes a waiter's turn come and its context end
// before it can look at either, so that both branches of its choice are ready.
func TestLimiterGrantMeetsCancel(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			l := NewLimiter(1, 2)
			_ = l.Acquire(t.Context())
			ctx, cancel := context.WithCancel(t.Context())
			got := make(chan error, 1)
			go func() { got <- l.Acquire(ctx) }()
			synctest.Wait()
			l.Release()
			cancel()
			if err := <-got; err == nil {
				wantStatus(t, l, 0, 1)
				l.Release()
			}
			wantStatus(t, l, 0, 0)
		})
	}
}

// model runs random arrivals, departures and cancels against a Limiter and a
// plain list that says who should run.
type model struct {
	l       *Limiter
	n, cap  int
	running []int
	queue   []int
	cancel  map[int]context.CancelFunc
	result  map[int]chan error
	next    int
}

func (m *model) arrive(ctx context.Context) {
	id := m.next
	m.next++
	ctx, cancel := context.WithCancel(ctx)
	m.cancel[id], m.result[id] = cancel, make(chan error, 1)
	go func() { m.result[id] <- m.l.Acquire(ctx) }()
	synctest.Wait()
	switch {
	case len(m.running) < m.n:
		m.running = append(m.running, id)
	case len(m.queue) < m.cap:
		m.queue = append(m.queue, id)
	}
}

func (m *model) release(i int) {
	m.cancel[m.running[i]]()
	m.running = slices.Delete(m.running, i, i+1)
	m.l.Release()
	if len(m.queue) > 0 {
		m.running = append(m.running, m.queue[0])
		m.queue = m.queue[1:]
	}
	synctest.Wait()
}

func (m *model) giveUp(i int) {
	m.cancel[m.queue[i]]()
	m.queue = slices.Delete(m.queue, i, i+1)
	synctest.Wait()
}

func (m *model) check() error {
	q, r, c := m.l.Status()
	if q != len(m.queue) || r != len(m.running) || r > c {
		return fmt.Errorf("status %d queued %d running, want %d and %d", q, r, len(m.queue), len(m.running))
	}
	for _, id := range m.running {
		select {
		case err := <-m.result[id]:
			if err != nil {
				return fmt.Errorf("caller %d should run: %w", id, err)
			}
			m.result[id] <- nil
		default:
			return fmt.Errorf("caller %d should run but waits: not first come, first served", id)
		}
	}
	for _, id := range m.queue {
		if len(m.result[id]) != 0 {
			return fmt.Errorf("caller %d should wait but was answered", id)
		}
	}
	return nil
}

func TestLimiterProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(rt, "concurrency")
		capacity := rapid.IntRange(0, 6).Draw(rt, "capacity")
		// The whole schedule is drawn first: rapid must not be used inside the bubble.
		steps := rapid.SliceOfN(rapid.IntRange(0, 1<<20), 1, 60).Draw(rt, "steps")
		var failed error
		synctest.Test(t, func(t *testing.T) {
			m := &model{l: NewLimiter(n, capacity), n: n, cap: capacity,
				cancel: map[int]context.CancelFunc{}, result: map[int]chan error{}}
			for _, s := range steps {
				switch pick := s / 4; {
				case s%4 == 0 && len(m.running) > 0:
					m.release(pick % len(m.running))
				case s%4 == 1 && len(m.queue) > 0:
					m.giveUp(pick % len(m.queue))
				default:
					m.arrive(t.Context())
				}
				if failed = m.check(); failed != nil {
					break
				}
			}
			for _, cancel := range m.cancel {
				cancel()
			}
		})
		if failed != nil {
			rt.Fatal(failed)
		}
	})
}

func BenchmarkLimiterFree(b *testing.B) {
	l := NewLimiter(64, 64)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Acquire(ctx); err != nil {
			b.Fatal(err)
		}
		l.Release()
	}
}
