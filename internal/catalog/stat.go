package catalog

import (
	"math"
	"sync/atomic"
	"time"
)

// Stat counts the calls of one tool. It outlives changes of the catalogue.
type Stat struct {
	ok, failed atomic.Int64
	reused     atomic.Int64  // of ok: answered by a result of a call before
	mean       atomic.Uint64 // bits of a float64 of seconds
}

// weight is how much the newest call counts in the moving average.
const weight = 0.1

// Add records one call.
func (s *Stat) Add(ok bool, took time.Duration) {
	if ok {
		s.ok.Add(1)
	} else {
		s.failed.Add(1)
	}
	sec := took.Seconds()
	for {
		old := s.mean.Load()
		next := sec
		if m := math.Float64frombits(old); old != 0 {
			next = m + weight*(sec-m)
		}
		if s.mean.CompareAndSwap(old, math.Float64bits(next)) {
			return
		}
	}
}

// Reuse records that a call was answered by the result of one before.
func (s *Stat) Reuse() { s.reused.Add(1) }

// Reused is how many calls were.
func (s *Stat) Reused() int64 { return s.reused.Load() }

// Counts returns how many calls succeeded and failed.
func (s *Stat) Counts() (ok, failed int64) { return s.ok.Load(), s.failed.Load() }

// Mean is the moving average of response times.
func (s *Stat) Mean() time.Duration {
	return time.Duration(math.Float64frombits(s.mean.Load()) * float64(time.Second))
}
