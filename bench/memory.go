package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// The names of Prometheus' Go collector; the bare role uses the same.
const (
	metricHeap   = "go_memstats_heap_alloc_bytes"
	metricStack  = "go_memstats_stack_inuse_bytes"
	metricLastGC = "go_memstats_last_gc_time_seconds"
)

var errNoMetrics = errors.New("no Go memory metrics on /metrics")

// reading is one look at a process's memory.
type reading struct {
	bytes  float64 // heap allocated and stack in use
	lastGC float64
}

// parseMetrics reads the three numbers from Prometheus' text format.
func parseMetrics(b []byte) (reading, error) {
	want := map[string]float64{metricHeap: -1, metricStack: -1, metricLastGC: -1}
	for line := range bytes.Lines(b) {
		fields := bytes.Fields(line)
		if len(fields) < 2 {
			continue
		}
		// OpenTelemetry's exporter may add labels that name its scope.
		name, _, _ := bytes.Cut(fields[0], []byte("{"))
		if _, ok := want[string(name)]; !ok {
			continue
		}
		v, err := strconv.ParseFloat(string(fields[len(fields)-1]), 64)
		if err != nil {
			return reading{}, fmt.Errorf("metric %s: %w", name, err)
		}
		want[string(name)] = v
	}
	if want[metricHeap] < 0 || want[metricStack] < 0 || want[metricLastGC] < 0 {
		return reading{}, errNoMetrics
	}
	return reading{bytes: want[metricHeap] + want[metricStack], lastGC: want[metricLastGC]}, nil
}

const (
	settleCollections = 4
	settleTime        = 20 * time.Second
)

// settle returns the live memory of a process. A scrape of the hub collects no
// garbage, and an idle process collects by itself only every two minutes. So
// nudge makes it allocate until it has collected a few times (the first two
// only empty its pools), and the smallest reading is taken: the heap right
// after a collection is what is live. The bare role collects on each scrape
// and settles at once.
func settle(ctx context.Context, scrape func(context.Context) (reading, error), nudge func() error) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	first, err := scrape(ctx)
	if err != nil {
		return 0, err
	}
	// What was read before the last of the collections may hold what pools
	// have not yet given up, so only later readings count.
	last, collections, lowest := first.lastGC, 0, 0.0
	for collections < settleCollections*2 {
		if err := nudge(); err != nil {
			return 0, err
		}
		r, err := scrape(ctx)
		if ctx.Err() != nil {
			return 0, fmt.Errorf("the process collected its garbage %d times in %v, want %d", collections, settleTime, settleCollections*2)
		}
		if err != nil {
			return 0, err
		}
		if r.lastGC != last {
			last = r.lastGC
			collections++
		}
		if collections >= settleCollections && (lowest == 0 || r.bytes < lowest) {
			lowest = r.bytes
		}
	}
	return lowest, nil
}
