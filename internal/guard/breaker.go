package guard

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// State is what a Breaker does with the next call.
type State string

// The states of a Breaker.
const (
	Closed   State = "closed"    // every call is let through
	Open     State = "open"      // no call is let through
	HalfOpen State = "half-open" // one call at a time is let through, as a probe
)

// Options tune a Breaker.
type Options struct {
	Failures int              // failures within Window that open it; 0 means 5, negative means it never opens
	Window   time.Duration    // how long a failure counts; 0 means 60 s
	Cooldown time.Duration    // how long it stays open, and how long a silent probe blocks the next; 0 means 30 s
	Now      func() time.Time // the clock; nil means time.Now
}

func (o Options) withDefaults() Options {
	if o.Failures == 0 {
		o.Failures = 5
	}
	if o.Window <= 0 {
		o.Window = time.Minute
	}
	if o.Cooldown <= 0 {
		o.Cooldown = 30 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Breaker counts the failures of one upstream or tool and refuses calls while
// there were too many of them lately. Every call that Allow let through should
// be followed by one Success or Failure; a call with no verdict (its caller
// gave up) may stay silent.
//
// While it is half-open, the first verdict to arrive decides, also that of a
// call from before: it says as much about the upstream as the probe would.
//
// Recovery is gradual: a success takes away one failure, not all, so that an
// upstream which came back half-way opens the breaker again at once.
type Breaker struct {
	opt     Options
	touched atomic.Bool // false: closed with nothing counted, the lock is not needed

	mu     sync.Mutex
	state  State       // Closed or Open or HalfOpen as of the last event
	counts []time.Time // when the failures that still count happened, oldest first; at most opt.Failures
	since  time.Time   // when it opened, or when the probe was let through
	why    string      // of the last failure that was counted
}

// New returns a closed Breaker.
func New(opt Options) *Breaker {
	return &Breaker{opt: opt.withDefaults(), state: Closed}
}

// Allow reports whether a call may be made now. If not, retryAfter is the
// longest time until the next one may.
func (b *Breaker) Allow() (retryAfter time.Duration, ok bool) {
	if !b.touched.Load() {
		return 0, true
	}
	return b.allow()
}

func (b *Breaker) allow() (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == Closed {
		return 0, true
	}
	// Open waits for the cool-down; half-open waits for the probe, and for no
	// longer than the same time, since a probe's caller may have gone away.
	now := b.opt.Now()
	if left := b.opt.Cooldown - now.Sub(b.since); left > 0 {
		return left, false
	}
	b.state, b.since = HalfOpen, now
	return 0, true
}

// Success records that a call reached its end. While open it changes nothing:
// it is the late answer of a call from before.
func (b *Breaker) Success() {
	if b.touched.Load() {
		b.success()
	}
}

func (b *Breaker) success() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == Open {
		return
	}
	b.state = Closed
	if len(b.counts) > 0 {
		b.counts = b.counts[1:]
	}
	b.forget()
	b.touched.Store(len(b.counts) > 0)
}

// Failure records that a call failed for a reason that counts, which is why.
func (b *Breaker) Failure(why string) {
	if b.opt.Failures < 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == Open {
		return
	}
	now := b.opt.Now()
	b.why = why
	b.forget()
	if len(b.counts) == b.opt.Failures {
		b.counts = b.counts[1:]
	}
	b.counts = append(b.counts, now)
	b.touched.Store(true)
	if b.state == HalfOpen || len(b.counts) == b.opt.Failures {
		b.state, b.since = Open, now
	}
}

// Why is the reason of the last failure; "" while none counts.
func (b *Breaker) Why() string {
	if !b.touched.Load() {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.why
}

// forget drops the failures that are older than the window. Called with mu held.
func (b *Breaker) forget() {
	if len(b.counts) == 0 {
		return
	}
	oldest := b.opt.Now().Add(-b.opt.Window)
	i := 0
	for i < len(b.counts) && !b.counts[i].After(oldest) {
		i++
	}
	b.counts = b.counts[i:]
}

// State says what would happen to a call now: a breaker whose cool-down is
// over is half-open although no probe was made yet.
func (b *Breaker) State() State {
	if !b.touched.Load() {
		return Closed
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == Open && b.opt.Now().Sub(b.since) >= b.opt.Cooldown {
		return HalfOpen
	}
	return b.state
}

// Breakers holds one Breaker per key, made on first use with the same Options.
// Keys are upstreams and tools of the catalogue, never text from a client, so
// that their number is bounded by what is connected.
type Breakers struct {
	opt Options
	m   sync.Map // string -> *Breaker
}

// NewBreakers returns an empty set.
func NewBreakers(opt Options) *Breakers { return &Breakers{opt: opt.withDefaults()} }

// Open returns the keys of those that let nothing through, in order.
func (s *Breakers) Open() (keys []string) {
	s.Each(func(key string, b *Breaker) {
		if b.State() == Open {
			keys = append(keys, key)
		}
	})
	slices.Sort(keys)
	return keys
}

// State says what would happen to a call of key now. It makes no Breaker.
func (s *Breakers) State(key string) State {
	if b, ok := s.m.Load(key); ok {
		return b.(*Breaker).State()
	}
	return Closed
}

// Why is the reason of the last failure of key; "" while none counts. It makes
// no Breaker.
func (s *Breakers) Why(key string) string {
	if b, ok := s.m.Load(key); ok {
		return b.(*Breaker).Why()
	}
	return ""
}

// Of returns the Breaker of key. A call should ask once and keep it, so that
// its verdict reaches the Breaker that let it through.
func (s *Breakers) Of(key string) *Breaker {
	if b, ok := s.m.Load(key); ok {
		return b.(*Breaker)
	}
	b, _ := s.m.LoadOrStore(key, New(s.opt))
	return b.(*Breaker)
}

// Drop forgets key, as when its upstream is removed or was reconnected.
func (s *Breakers) Drop(key string) { s.m.Delete(key) }

// Each calls f for every key in no particular order.
func (s *Breakers) Each(f func(key string, b *Breaker)) {
	s.m.Range(func(k, v any) bool {
		f(k.(string), v.(*Breaker))
		return true
	})
}
