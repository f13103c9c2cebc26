// Package event owns what a person may want to see happen: records of calls,
// of the state of upstreams and Sessions, and of faults.
//
// A Bus numbers records in their order and keeps the last of them in memory.
// Emit never blocks and never fails. Whoever follows too slowly loses records,
// and is told how many.
package event

import (
	"sync"
	"time"
)

// Types of records.
const (
	CallDone      = "call.done"
	TaskDone      = "task.done"
	TurnStarted   = "turn.started"
	TurnEnded     = "turn.ended"
	UpstreamState = "upstream.state"
	SessionEnded  = "session.ended"
	ValueStored   = "session.stored"
	ValueRemoved  = "session.removed"
	ModuleSwitch  = "session.module"
	PolicyAsked   = "policy.asked"   // a person is asked whether a call may be made
	PolicyDecided = "policy.decided" // what came of it
	Fault         = "error"
	Health        = "health"
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
	Agent     string    `json:"agent,omitempty"`
	Run       string    `json:"run,omitempty"`
	Step      string    `json:"step,omitempty"`
	Task      string    `json:"task,omitempty"`
	TookUS    int64     `json:"took_us,omitempty"`
	Bytes     int       `json:"bytes,omitempty"`
	Kind      string    `json:"kind,omitempty"`
	Data      any       `json:"data,omitempty"` // names and figures, never what passed
}

// Bus keeps the last records.
type Bus struct {
	mu   sync.Mutex
	next uint64
	size uint64
	ring []Record      // grows up to size, so that a hub at rest pays for nothing
	more chan struct{} // closed when there is a new record; nil if nobody waits
}

// New returns a bus that keeps the last n records; 0 means 4,096.
func New(n int) *Bus {
	if n == 0 {
		n = 4096
	}
	return &Bus{size: uint64(n)}
}

// Emit adds a record and numbers it. Time is set if it is not.
func (b *Bus) Emit(r Record) {
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	b.mu.Lock()
	b.next++
	r.Seq = b.next
	if uint64(len(b.ring)) < b.size {
		b.ring = append(b.ring, r)
	} else {
		b.ring[(b.next-1)%b.size] = r
	}
	if b.more != nil {
		close(b.more)
		b.more = nil
	}
	b.mu.Unlock()
}

// After returns the records that follow seq, oldest first, at most n, how many
// between seq and them are lost, and a channel that is closed when there are
// more than these.
func (b *Bus) After(seq uint64, n int) (out []Record, lost uint64, more <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	size := b.size
	first := uint64(1)
	if b.next > size {
		first = b.next - size + 1
	}
	if seq+1 < first {
		lost = first - seq - 1
		seq = first - 1
	}
	for seq < b.next && len(out) < n {
		out = append(out, b.ring[seq%size])
		seq++
	}
	if seq < b.next {
		now := make(chan struct{})
		close(now)
		return out, lost, now
	}
	if b.more == nil {
		b.more = make(chan struct{})
	}
	return out, lost, b.more
}

// Last is the number of the newest record.
func (b *Bus) Last() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next
}
