package event

import (
	"math/bits"
	"time"
)

// The span and the grain of a Pulse.
const (
	PulseStep   = 5 * time.Second
	PulsePoints = 120
)

// latency buckets: four for each power of two of microseconds, up to over an
// hour.
const (
	grain   = 2
	buckets = 32 << grain
)

// beat is what calls did in one step of time.
type beat struct {
	at            int64 // the number of the step
	calls, failed uint32
	took          [buckets]uint32
}

// pulse counts calls by time. A hub that makes none pays for nothing: steps
// get their memory when a call falls into them.
type pulse [PulsePoints + 1]*beat

func bucketOf(us int64) int {
	n := uint64(max(us, 0))
	if n < 1<<grain {
		return int(n)
	}
	exp := bits.Len64(n) - grain - 1
	return min((exp+1)<<grain+int(n>>exp)-1<<grain, buckets-1)
}

// middle is the time in microseconds that stands for a bucket.
func middle(i int) int64 {
	if i < 1<<grain {
		return int64(i)
	}
	exp := i>>grain - 1
	return int64(1<<grain+i&(1<<grain-1))<<exp + 1<<exp/2
}

// count takes in a call that is over.
func (p *pulse) count(r *Record) {
	at := r.Time.UnixNano() / int64(PulseStep)
	b := p[at%int64(len(p))]
	switch {
	case b == nil:
		b = &beat{at: at}
		p[at%int64(len(p))] = b
	case b.at > at:
		return // of a time that is told no more
	case b.at < at:
		*b = beat{at: at}
	}
	b.calls++
	if r.Kind != "" {
		b.failed++
	}
	b.took[bucketOf(r.TookUS)]++
}

// quantile is the time that the share q of the calls did not exceed.
func (b *beat) quantile(q float64) int64 {
	want, seen := uint32(q*float64(b.calls)+0.999999), uint32(0)
	for i, n := range b.took {
		if seen += n; n > 0 && seen >= want {
			return middle(i)
		}
	}
	return 0
}

// Pulse is how many calls ended in each of the last steps of time, how many of
// them failed, and the times that half of them and 99 of 100 did not exceed,
// within an eighth; 0 where there were none.
type Pulse struct {
	End    time.Time // of the last step, which is over
	Calls  [PulsePoints]uint32
	Failed [PulsePoints]uint32
	P50    [PulsePoints]int64 // microseconds
	P95    [PulsePoints]int64
	P99    [PulsePoints]int64
}

// Pulse tells how calls did up to now.
func (b *Bus) Pulse(now time.Time) (out Pulse) {
	last := now.UnixNano()/int64(PulseStep) - 1
	out.End = time.Unix(0, (last+1)*int64(PulseStep))
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range out.Calls {
		at := last - PulsePoints + 1 + int64(i)
		one := b.pulse[at%int64(len(b.pulse))]
		if one == nil || one.at != at {
			continue
		}
		out.Calls[i], out.Failed[i] = one.calls, one.failed
		out.P50[i], out.P95[i], out.P99[i] = one.quantile(0.5), one.quantile(0.95), one.quantile(0.99)
	}
	return out
}
