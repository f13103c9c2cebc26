package main

import (
	"math/bits"
	"time"
)

const (
	subBits    = 6 // 64 buckets per power of two: within 1.6 % of the value
	subBuckets = 1 << subBits
	maxExp     = 36 // values up to 2^42 ns, over an hour
)

// histogram counts durations in buckets whose width grows with the value, so
// that recording allocates nothing. It is not safe for concurrent use: each
// connection has its own, merged at the end.
type histogram struct {
	counts [(maxExp + 1) * subBuckets]uint32
	total  uint64
}

func bucketOf(ns uint64) int {
	if ns < subBuckets {
		return int(ns)
	}
	exp := bits.Len64(ns) - subBits - 1
	if exp >= maxExp {
		return (maxExp+1)*subBuckets - 1
	}
	return (exp+1)*subBuckets + int(ns>>exp) - subBuckets
}

// bucketMiddle is the value that stands for a bucket.
func bucketMiddle(i int) uint64 {
	if i < subBuckets {
		return uint64(i)
	}
	exp := i/subBuckets - 1
	return uint64(subBuckets+i%subBuckets)<<exp + 1<<exp/2
}

func (h *histogram) record(d time.Duration) {
	h.counts[bucketOf(uint64(max(d, 0)))]++
	h.total++
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
}

// quantile returns the smallest recorded value that at least the share q of
// all values do not exceed; 0 when nothing was recorded.
func (h *histogram) quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	want := max(uint64(q*float64(h.total)+0.999999), 1)
	var seen uint64
	for i, n := range h.counts {
		if seen += uint64(n); seen >= want {
			return time.Duration(bucketMiddle(i))
		}
	}
	return time.Duration(bucketMiddle(len(h.counts) - 1))
}
