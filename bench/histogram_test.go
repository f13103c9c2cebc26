package main

import (
	"math"
	"testing"
	"time"
)

func TestHistogramQuantile(t *testing.T) {
	var a, b histogram
	for i := 1; i <= 1000; i++ {
		h := &a
		if i%2 == 0 {
			h = &b
		}
		h.record(time.Duration(i) * time.Microsecond)
	}
	a.merge(&b)
	for q, want := range map[float64]time.Duration{
		0: time.Microsecond, 0.5: 500 * time.Microsecond, 0.99: 990 * time.Microsecond, 1: time.Millisecond,
	} {
		if got := a.quantile(q); math.Abs(float64(got-want)) > 0.016*float64(want) {
			t.Errorf("quantile(%v) = %v, want %v within 1.6 %%", q, got, want)
		}
	}
	if a.total != 1000 {
		t.Errorf("total = %d, want 1000", a.total)
	}
	if got := new(histogram).quantile(0.5); got != 0 {
		t.Errorf("quantile of nothing = %v, want 0", got)
	}
}

func TestBucketsCoverAllValues(t *testing.T) {
	last := -1
	for v := uint64(0); v < 1<<44; v = v + v/100 + 1 {
		b := bucketOf(v)
		if b < last || b >= len(new(histogram).counts) {
			t.Fatalf("bucketOf(%d) = %d after %d", v, b, last)
		}
		last = b
		if mid := bucketMiddle(b); v < 1<<41 && math.Abs(float64(mid)-float64(v)) > 0.016*float64(v) {
			t.Fatalf("bucket %d of %d stands for %d", b, v, mid)
		}
	}
	new(histogram).record(-time.Second) // a clock that stepped back must not panic
}
