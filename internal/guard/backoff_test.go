package guard

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBackoffDoublesToItsMaximum(t *testing.T) {
	one := func() float64 { return 1 }
	b := NewBackoff(100*time.Millisecond, time.Second, one)
	var got []time.Duration
	for range 6 {
		got = append(got, b.Next()/time.Millisecond)
	}
	if d := cmp.Diff([]time.Duration{100, 200, 400, 800, 1000, 1000}, got); d != "" {
		t.Fatal(d)
	}
	b.Reset()
	if got := b.Next(); got != 100*time.Millisecond {
		t.Fatalf("after Reset %v", got)
	}
	if b.Attempts() != 1 {
		t.Fatalf("attempts %d", b.Attempts())
	}
}

func TestBackoffJitterStaysInTheUpperHalf(t *testing.T) {
	b := NewBackoff(time.Second, time.Minute, nil)
	for i := range 10_000 {
		step := min(time.Second<<min(i, 10), time.Minute)
		if d := b.Next(); d < step/2 || d > step {
			t.Fatalf("attempt %d: %v is outside of [%v, %v]", i, d, step/2, step)
		}
	}
}

func TestBackoffZeroValues(t *testing.T) {
	b := NewBackoff(0, 0, func() float64 { return 0 })
	for range 3 {
		if d := b.Next(); d != 50*time.Millisecond {
			t.Fatalf("%v", d)
		}
	}
}
