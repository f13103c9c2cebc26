// Package event owns what a person may want to see happen: records of calls,
// of the state of upstreams and Sessions, of tasks, runs, turns and decisions,
// and of faults.
//
// A Bus numbers records in their order and keeps the last of them in memory.
// Emit never blocks and never fails. Whoever follows too slowly loses detail,
// the records of single calls, before anything else, and is told how many.
// What is worth telling only while somebody looks is told while Watched: then
// a hub that nobody watches pays for nothing.
//
// It keeps nothing across restarts, and nobody's arguments or results.
package event

import (
	"crypto/rand"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Types of records. Those of runs and steps are the journal's own, after
// RunPrefix and StepPrefix.
const (
	CallStarted     = "call.started"  // while somebody watches
	CallProgress    = "call.progress" // while somebody watches, a few a second for each call
	CallDone        = "call.done"
	CallOwn         = "call.own"      // while somebody watches: a request that the hub made for itself is over
	CallHeard       = "call.heard"    // while somebody watches: what a server or a client said that belongs to no request
	CallAnswered    = "call.answered" // while somebody watches: a client's request that the hub answered by itself
	CallSaid        = "call.said"     // while somebody watches: a notification that the hub sent
	TaskCreated     = "task.created"
	TaskDone        = "task.done"
	TurnStarted     = "turn.started"
	TurnEnded       = "turn.ended"
	RunPrefix       = "run."
	StepPrefix      = "step."
	UpstreamState   = "upstream.state"
	UpstreamCatalog = "upstream.catalog"
	SessionOpened   = "session.opened"
	SessionEnded    = "session.ended"
	ValueStored     = "session.stored"
	ValueRemoved    = "session.removed"
	ModuleSwitch    = "session.module"
	PolicyAsked     = "policy.asked"   // a person is asked whether a call may be made
	PolicyDecided   = "policy.decided" // how it was decided
	// DefinitionChanged is about a tool, prompt or template that somebody should
	// look at, or of which somebody has said what becomes of it.
	DefinitionChanged = "upstream.definition"
	Fault             = "error"
	Health            = "health"
)

// Levels of records. A record without one is of Info.
const (
	Debug   = "debug"
	Info    = "info"
	Warning = "warning"
	Error   = "error"
)

// Record is one thing that happened. Empty members are left out.
type Record struct {
	Seq       uint64    `json:"seq"`
	Time      time.Time `json:"time"`
	Type      string    `json:"type"`
	Level     string    `json:"level,omitempty"`
	Session   string    `json:"session,omitempty"`
	Principal string    `json:"principal,omitempty"`
	Call      string    `json:"call,omitempty"`
	Parent    string    `json:"parent,omitempty"`
	Trace     string    `json:"trace,omitempty"`
	Upstream  string    `json:"upstream,omitempty"`
	Tool      string    `json:"tool,omitempty"`
	Method    string    `json:"method,omitempty"` // of a call
	Agent     string    `json:"agent,omitempty"`
	Run       string    `json:"run,omitempty"`
	Step      string    `json:"step,omitempty"`
	Task      string    `json:"task,omitempty"`
	TookUS    int64     `json:"took_us,omitempty"`
	Bytes     int       `json:"bytes,omitempty"`
	Kind      string    `json:"kind,omitempty"`
	Data      any       `json:"data,omitempty"` // names and figures, never what passed
}

// detail reports whether a record may go first: there is one of it, or more,
// for each call.
func (r *Record) detail() bool { return strings.HasPrefix(r.Type, "call.") }

// Bus keeps the last records.
type Bus struct {
	name     string
	watchers atomic.Int32
	hear     atomic.Pointer[func(*Record)]
	lingers  atomic.Int64 // unix nanoseconds until when somebody counts as watching; 0: not at all

	mu      sync.Mutex
	next    uint64
	size    uint64
	ring    []Record      // grows up to size, so that a hub at rest pays for nothing
	lasting []Record      // the last that are no detail, some of which the ring has no more
	oldest  int           // of lasting, once it is full
	more    chan struct{} // closed when there is a new record; nil if nobody waits
	pulse   pulse         // how calls did
}

// maxLasting is how many records are kept that are no detail.
const maxLasting = 1024

// New returns a bus that keeps the last n records; 0 means 4,096.
func New(n int) *Bus {
	if n == 0 {
		n = 4096
	}
	return &Bus{name: rand.Text()[:12], size: uint64(n)}
}

// Name tells this bus from those that were before it: each numbers its records
// from the beginning.
func (b *Bus) Name() string { return b.name }

// Follows reports whether there is a way on after a number: that it is one of
// this bus, as far as name, which may be empty, and the number itself tell.
func (b *Bus) Follows(name string, seq uint64) bool {
	return (name == "" || name == b.name) && seq <= b.Last()
}

// linger is how long somebody who has looked counts as watching: who polls
// comes again.
const linger = 30 * time.Second

// Watch says that somebody watches, until stop is called and a while longer.
func (b *Bus) Watch() (stop func()) {
	b.watchers.Add(1)
	return sync.OnceFunc(func() {
		b.lingers.Store(time.Now().Add(linger).UnixNano())
		b.watchers.Add(-1)
	})
}

// Watched reports whether what only those who watch want to know is worth
// telling.
func (b *Bus) Watched() bool {
	if b.watchers.Load() > 0 {
		return true
	}
	until := b.lingers.Load()
	if until == 0 {
		return false
	}
	if time.Now().UnixNano() < until {
		return true
	}
	b.lingers.CompareAndSwap(until, 0)
	return false
}

// Emit adds a record and numbers it. Time is set if it is not.
func (b *Bus) Emit(r Record) {
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	lasts := !r.detail()
	b.mu.Lock()
	b.next++
	r.Seq = b.next
	if uint64(len(b.ring)) < b.size {
		b.ring = append(b.ring, r)
	} else {
		b.ring[(b.next-1)%b.size] = r
	}
	switch {
	case lasts:
		b.last(r)
	case r.Type == CallDone:
		b.pulse.count(&r)
	}
	if b.more != nil {
		close(b.more)
		b.more = nil
	}
	b.mu.Unlock()
	if !lasts {
		return
	}
	if f := b.hear.Load(); f != nil {
		heard := r // a copy of its own, so that records of calls need no memory
		(*f)(&heard)
	}
}

// Hear makes f be called with each record that is not about a single call, on
// the goroutine of who emits it. f must not block and must not keep the record.
func (b *Bus) Hear(f func(*Record)) { b.hear.Store(&f) }

// last keeps a record that is no detail. Called with mu held.
func (b *Bus) last(r Record) {
	if len(b.lasting) < maxLasting {
		b.lasting = append(b.lasting, r)
		return
	}
	b.lasting[b.oldest] = r
	b.oldest = (b.oldest + 1) % maxLasting
}

// Page is what follows a number.
type Page struct {
	Records []Record
	Next    uint64          // to go on after
	Lost    uint64          // records of any kind between where it began and Next that are not there any more
	More    <-chan struct{} // closed when there is more than this
}

// Read returns at most n records that follow seq and pass f, oldest first.
func (b *Bus) Read(seq uint64, n int, f *Filter) Page {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := Page{Next: seq}
	first := uint64(1)
	if b.next > b.size {
		first = b.next - b.size + 1
	}
	if seq+1 < first && !b.remember(&p, first, n, f) {
		p.More = closed
		return p
	}
	for p.Next < b.next && len(p.Records) < n {
		if r := &b.ring[p.Next%b.size]; f.Passes(r) {
			p.Records = append(p.Records, *r)
		}
		p.Next++
	}
	if p.Next < b.next {
		p.More = closed
		return p
	}
	if b.more == nil {
		b.more = make(chan struct{})
	}
	p.More = b.more
	return p
}

// remember puts into p what is left from before first, which the ring begins
// with. It reports whether that was all. Called with mu held.
func (b *Bus) remember(p *Page, first uint64, n int, f *Filter) bool {
	at := func(i int) *Record { return &b.lasting[(b.oldest+i)%len(b.lasting)] }
	i := sort.Search(len(b.lasting), func(i int) bool { return at(i).Seq > p.Next })
	for ; i < len(b.lasting) && at(i).Seq < first; i++ {
		if len(p.Records) == n {
			return false
		}
		r := at(i)
		p.Lost += r.Seq - p.Next - 1
		p.Next = r.Seq
		if f.Passes(r) {
			p.Records = append(p.Records, *r)
		}
	}
	p.Lost += first - 1 - p.Next
	p.Next = first - 1
	return true
}

var closed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// After returns the records that follow seq, oldest first, at most n, how many
// are lost between seq and the last of them, and a channel that is closed when
// there are more than these.
func (b *Bus) After(seq uint64, n int) (out []Record, lost uint64, more <-chan struct{}) {
	p := b.Read(seq, n, nil)
	return p.Records, p.Lost, p.More
}

// Last is the number of the newest record.
func (b *Bus) Last() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next
}
