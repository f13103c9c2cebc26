package guard

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// elapse moves the bubble's clock.
func elapse(d time.Duration) { <-time.After(d) }

func fail(b *Breaker, n int) {
	for range n {
		b.Failure("broken")
	}
}

func wantState(t *testing.T, b *Breaker, want State) {
	t.Helper()
	if got := b.State(); got != want {
		t.Fatalf("state %s, want %s", got, want)
	}
}

func wantAllow(t *testing.T, b *Breaker, retry time.Duration, ok bool) {
	t.Helper()
	gotRetry, gotOK := b.Allow()
	if gotRetry != retry || gotOK != ok {
		t.Fatalf("Allow() = %v, %v; want %v, %v", gotRetry, gotOK, retry, ok)
	}
}

func TestBreakerOpensAtTheFifthFailureAndCoolsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{})
		fail(b, 4)
		wantState(t, b, Closed)
		wantAllow(t, b, 0, true)
		fail(b, 1)
		wantState(t, b, Open)
		wantAllow(t, b, 30*time.Second, false)
		elapse(10 * time.Second)
		wantAllow(t, b, 20*time.Second, false)
		b.Success() // late answer of an earlier call
		wantState(t, b, Open)
		b.Failure("broken") // a late failure must not prolong the rest
		wantAllow(t, b, 20*time.Second, false)
		elapse(20 * time.Second)
		wantState(t, b, HalfOpen)
	})
}

func TestBreakerHalfOpenLetsOneProbeThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{})
		fail(b, 5)
		elapse(30 * time.Second)
		var allowed atomic.Int32
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, ok := b.Allow(); ok {
					allowed.Add(1)
				}
			})
		}
		wg.Wait()
		if allowed.Load() != 1 {
			t.Fatalf("%d probes, want 1", allowed.Load())
		}
		b.Failure("broken")
		wantState(t, b, Open)
		wantAllow(t, b, 30*time.Second, false)
	})
}

func TestBreakerReleasesASilentProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{})
		fail(b, 5)
		elapse(30 * time.Second)
		wantAllow(t, b, 0, true)
		elapse(29 * time.Second)
		wantAllow(t, b, time.Second, false)
		elapse(time.Second)
		wantAllow(t, b, 0, true)
		wantAllow(t, b, 30*time.Second, false)
	})
}

func TestBreakerRecoversGradually(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{Window: time.Hour})
		fail(b, 5)
		elapse(30 * time.Second)
		wantAllow(t, b, 0, true)
		b.Success()
		wantState(t, b, Closed)
		fail(b, 1) // four of five are still counted
		wantState(t, b, Open)
		elapse(30 * time.Second)
		wantAllow(t, b, 0, true)
		for range 5 {
			b.Success()
		}
		if b.touched.Load() {
			t.Fatal("a breaker with nothing counted still takes its lock")
		}
		fail(b, 4)
		wantState(t, b, Closed)
	})
}

func TestBreakerForgetsOldFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{})
		fail(b, 4)
		elapse(time.Minute)
		fail(b, 4)
		wantState(t, b, Closed)
		elapse(59 * time.Second)
		fail(b, 1)
		wantState(t, b, Open)
	})
}

func TestBreakerNegativeFailuresNeverOpens(t *testing.T) {
	b := New(Options{Failures: -1})
	fail(b, 1000)
	wantState(t, b, Closed)
}

func TestBreakersKeepOnePerKey(t *testing.T) {
	s := NewBreakers(Options{Failures: 1})
	s.Of("a").Failure("broken")
	wantState(t, s.Of("a"), Open)
	wantState(t, s.Of("b"), Closed)
	n := 0
	s.Each(func(string, *Breaker) { n++ })
	if n != 2 {
		t.Fatalf("%d breakers, want 2", n)
	}
	s.Drop("a")
	wantState(t, s.Of("a"), Closed)
}

func BenchmarkBreakerClosed(b *testing.B) {
	br := New(Options{})
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := br.Allow(); !ok {
			b.Fatal("refused")
		}
		br.Success()
	}
}

func BenchmarkBreakerClosedParallel(b *testing.B) {
	br := New(Options{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			br.Allow()
			br.Success()
		}
	})
}
