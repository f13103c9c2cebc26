package catalog

import (
	"math"
	"strings"
	"sync/atomic"
	"time"
)

// Figures are what is known of the calls of one tool.
type Figures struct {
	OK     int64         `json:"ok,omitempty"`
	Failed int64         `json:"failed,omitempty"`
	Reused int64         `json:"reused,omitempty"` // of OK: answered by a result of a call before
	Mean   time.Duration `json:"mean,omitempty"`   // the moving average of response times
}

func (f Figures) calls() int64 { return f.OK + f.Failed }

// Plus is what is known together. Who made more calls knows the time better.
func (f Figures) Plus(g Figures) Figures {
	sum := Figures{OK: f.OK + g.OK, Failed: f.Failed + g.Failed, Reused: f.Reused + g.Reused}
	if n := sum.calls(); n > 0 {
		sum.Mean = time.Duration((float64(f.Mean)*float64(f.calls()) + float64(g.Mean)*float64(g.calls())) / float64(n))
	}
	return sum
}

// Stat counts the calls of one tool. It outlives changes of the catalogue.
type Stat struct {
	ok, failed atomic.Int64
	reused     atomic.Int64
	mean       atomic.Uint64 // bits of a float64 of seconds

	others atomic.Pointer[Figures] // of other hubs; nil for none
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

// Own are the figures of this hub's calls.
func (s *Stat) Own() Figures {
	return Figures{OK: s.ok.Load(), Failed: s.failed.Load(), Reused: s.reused.Load(),
		Mean: time.Duration(math.Float64frombits(s.mean.Load()) * float64(time.Second))}
}

// Figures are those of all hubs.
func (s *Stat) Figures() Figures {
	own := s.Own()
	if others := s.others.Load(); others != nil {
		return own.Plus(*others)
	}
	return own
}

// Counts returns how many calls succeeded and failed.
func (s *Stat) Counts() (ok, failed int64) {
	f := s.Figures()
	return f.OK, f.Failed
}

// resume goes on from what this hub counted before.
func (s *Stat) resume(f Figures) {
	s.ok.Add(f.OK)
	s.failed.Add(f.Failed)
	s.reused.Add(f.Reused)
	s.mean.CompareAndSwap(0, math.Float64bits(f.Mean.Seconds()))
}

// Learn tells of the calls of an upstream's tools, by the tools' names: those
// that this hub counted before it was started, which is told once, or else those
// of all other hubs.
func (c *Catalog) Learn(upstream string, tools map[string]Figures, own bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, f := range tools {
		ref := upstream + ":" + name
		if own {
			c.statOf(ref).resume(f)
			continue
		}
		c.others[ref] = &f
		c.statOf(ref).others.Store(&f)
	}
}

// Learned are the figures of this hub's calls of tools that were called, by
// upstream and name.
func (c *Catalog) Learned() map[string]map[string]Figures {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]map[string]Figures{}
	for ref, s := range c.stats {
		f := s.Own()
		if f.calls() == 0 {
			continue
		}
		upstream, name, _ := strings.Cut(ref, ":")
		if out[upstream] == nil {
			out[upstream] = map[string]Figures{}
		}
		out[upstream][name] = f
	}
	return out
}
