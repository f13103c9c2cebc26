package main

import (
	"context"
	"errors"
	"testing"
)

func TestParseMetrics(t *testing.T) {
	in := "# HELP go_memstats_heap_alloc_bytes Bytes.\n# TYPE go_memstats_heap_alloc_bytes gauge\n" +
		"go_memstats_heap_alloc_bytes 1.5e+06\ngo_memstats_stack_inuse_bytes{otel_scope=\"x\"} 500000\n" +
		"go_memstats_heap_alloc_bytes_total 9\ngo_memstats_last_gc_time_seconds 1.7e+09\n"
	got, err := parseMetrics([]byte(in))
	if want := (reading{bytes: 2e6, lastGC: 1.7e9}); err != nil || got != want {
		t.Errorf("parseMetrics = %+v, %v; want %+v", got, err, want)
	}
	if _, err := parseMetrics([]byte("up 1\n")); !errors.Is(err, errNoMetrics) {
		t.Errorf("without the metrics: %v, want %v", err, errNoMetrics)
	}
	if _, err := parseMetrics([]byte("go_memstats_heap_alloc_bytes much\n")); err == nil {
		t.Error("a metric that is no number was accepted")
	}
}

// A process whose heap grows with each nudge and falls to what is live with
// each third one settles at what is live once its pools are empty.
func TestSettle(t *testing.T) {
	nudges := 0
	scrape := func(context.Context) (reading, error) {
		live := 100.0
		if nudges < 6 {
			live = 90 // before the pools' memory shows: must not win
		}
		return reading{bytes: live + float64(nudges%3)*10, lastGC: float64(nudges / 3)}, nil
	}
	got, err := settle(t.Context(), scrape, func() error { nudges++; return nil })
	if err != nil || got != 100 {
		t.Errorf("settle = %v, %v; want 100", got, err)
	}
}

func TestSettleGivesUp(t *testing.T) {
	broken := errors.New("refused")
	_, err := settle(t.Context(), func(context.Context) (reading, error) { return reading{}, nil }, func() error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("settle = %v, want the nudge's error", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = settle(ctx, func(context.Context) (reading, error) { return reading{}, nil }, func() error { return nil })
	if err == nil {
		t.Error("settle found a value in a process that never collects")
	}
}
