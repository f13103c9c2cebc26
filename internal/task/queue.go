package task

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/fault"
)

// Priority says whose turn comes sooner. None waits for ever: of ten turns a
// full queue gives six to High, three to Normal and one to Low.
type Priority int8

const (
	Normal Priority = iota
	High
	Low
	priorities
)

var weights = [priorities]int{Normal: 3, High: 6, Low: 1}

// ParsePriority reads a priority as people write it; empty means Normal.
func ParsePriority(s string) (Priority, error) {
	switch s {
	case "", "normal":
		return Normal, nil
	case "high":
		return High, nil
	case "low":
		return Low, nil
	}
	return Normal, fmt.Errorf("priority %q: use high, normal or low", s)
}

func (p Priority) String() string { return [...]string{"normal", "high", "low"}[p] }

// ErrFull is the answer of Enter when as many callers wait as may.
var ErrFull = errors.New("the queue is full")

// Queue lets a bounded number of callers run at once and a bounded number wait
// for their turn. Among those of one priority the turn goes round between
// flows, and within a flow to who came first.
type Queue struct {
	mu          sync.Mutex
	concurrency int
	capacity    int
	levels      [priorities]level
	arrived     list.List // of *waiter, in the order of their coming
	told        int       // waiters that want to know their place
	slots       map[string]*Slot
	running     int
	done        int64
	failed      int64
	took        time.Duration // of all that ended
}

// level holds the waiters of one priority.
type level struct {
	credit int
	flows  map[string]*list.Element
	ring   list.List // of *flow; the front has the next turn
	n      int
}

// flow is what waits on behalf of one client.
type flow struct {
	name    string
	waiting list.List // of *waiter
}

type waiter struct {
	Ticket
	turn  chan struct{} // closed when a slot was handed over, under mu
	slot  *Slot
	place *list.Element // in arrived
	own   *list.Element // in its flow
	moved chan int      // holds the newest place, if somebody wants to know
}

// Ticket is how a caller comes to a queue.
type Ticket struct {
	Flow     string // who is served in turn: a session or client
	Priority Priority
	Call     string   // names the slot, for calls that come of this one; empty for none
	Above    []string // the calls that this one comes of
	// Moved is called, on the goroutine of Enter, with the caller's place among
	// those who wait, 1 being the first, whenever it changes. nil means that
	// nobody wants to know.
	Moved func(place int)
}

// New returns a queue for concurrency running and capacity waiting callers. It
// panics on a concurrency below one or a negative capacity.
func New(concurrency, capacity int) *Queue {
	if concurrency < 1 || capacity < 0 {
		panic(fmt.Sprintf("task: queue of concurrency %d and capacity %d", concurrency, capacity))
	}
	return &Queue{concurrency: concurrency, capacity: capacity, slots: map[string]*Slot{}}
}

// Slot is the right to run.
type Slot struct {
	q      *Queue
	call   string
	shared bool // it is an ancestor's
	began  time.Time
	left   bool // guarded by q.mu
}

// Enter takes a slot, waiting for it if need be, and returns ErrFull or the
// cause of ctx's end. A caller that comes of one which has a slot of this
// queue shares that slot: it would otherwise wait for itself.
func (q *Queue) Enter(ctx context.Context, t Ticket) (*Slot, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	q.mu.Lock()
	for _, call := range t.Above {
		if q.slots[call] != nil {
			q.mu.Unlock()
			return &Slot{q: q, shared: true}, nil
		}
	}
	// A free slot implies that nobody waits: Leave hands slots over.
	if q.running < q.concurrency {
		s := q.grant(t.Call)
		q.mu.Unlock()
		return s, nil
	}
	if q.arrived.Len() >= q.capacity {
		q.mu.Unlock()
		return nil, ErrFull
	}
	w := q.join(t)
	place := q.arrived.Len()
	q.mu.Unlock()
	return q.wait(ctx, w, place)
}

// Await is Enter with bounded patience and with errors for callers: queue_full
// with how the queue stands, or timeout, both about subject.
func (q *Queue) Await(ctx context.Context, subject string, patience time.Duration, t Ticket) (*Slot, error) {
	wait, cancel := context.WithTimeoutCause(ctx, patience, &fault.Error{Kind: fault.Timeout, Subject: subject, Msg: fmt.Sprintf("waited %v in the queue, and was not begun", patience), Harmless: true,
		Hint: "Call again later, or have queue.timeoutMs or queue.concurrency of the server raised."})
	defer cancel()
	slot, err := q.Enter(wait, t)
	if errors.Is(err, ErrFull) {
		s := q.Status()
		return nil, fault.New(fault.QueueFull, subject, "the queue is full: %d wait, %d run", s.Queued, s.Running).
			With("queued", s.Queued).With("running", s.Running).With("concurrency", s.Concurrency).With("capacity", s.Capacity)
	}
	return slot, err
}

// grant makes a slot. Called with mu held.
func (q *Queue) grant(call string) *Slot {
	q.running++
	s := &Slot{q: q, call: call, began: time.Now()}
	if call != "" {
		q.slots[call] = s
	}
	return s
}

// join puts a waiter in. Called with mu held.
func (q *Queue) join(t Ticket) *waiter {
	w := &waiter{Ticket: t, turn: make(chan struct{})}
	w.place = q.arrived.PushBack(w)
	if t.Moved != nil {
		w.moved = make(chan int, 1)
		q.told++
	}
	l := &q.levels[t.Priority]
	e := l.flows[t.Flow]
	if e == nil {
		if l.flows == nil {
			l.flows = map[string]*list.Element{}
		}
		e = l.ring.PushBack(&flow{name: t.Flow})
		l.flows[t.Flow] = e
	}
	w.own = e.Value.(*flow).waiting.PushBack(w)
	l.n++
	return w
}

// wait waits for the turn.
func (q *Queue) wait(ctx context.Context, w *waiter, place int) (*Slot, error) {
	if w.Moved != nil {
		w.Moved(place)
	}
	for {
		select {
		case <-w.turn:
			return w.slot, nil
		case p := <-w.moved:
			if p != place {
				place = p
				w.Moved(p)
			}
		case <-ctx.Done():
			q.abandon(w)
			return nil, context.Cause(ctx)
		}
	}
}

// abandon takes a waiter that gave up out. If its turn came in the same moment,
// the slot goes on to the next, or it would be lost.
func (q *Queue) abandon(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.slot != nil {
		q.end(w.slot)
		return
	}
	q.remove(w)
	q.tell()
}

// remove takes a waiter out of all lists. Called with mu held.
func (q *Queue) remove(w *waiter) {
	q.arrived.Remove(w.place)
	if w.moved != nil {
		q.told--
	}
	l := &q.levels[w.Priority]
	e := l.flows[w.Flow]
	f := e.Value.(*flow)
	f.waiting.Remove(w.own)
	l.n--
	if f.waiting.Len() == 0 {
		l.ring.Remove(e)
		delete(l.flows, f.name)
	}
}

// Leave gives the slot back. ok says whether the caller did what it came for.
// It may be called more than once.
func (s *Slot) Leave(ok bool) {
	if s.shared {
		return
	}
	q := s.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.left {
		return
	}
	if q.done++; !ok {
		q.failed++
	}
	q.took += time.Since(s.began)
	q.end(s)
}

// end frees a slot and hands it to whose turn it is. Called with mu held.
func (q *Queue) end(s *Slot) {
	s.left = true
	if s.call != "" && q.slots[s.call] == s {
		delete(q.slots, s.call)
	}
	q.running--
	if w := q.next(); w != nil {
		q.remove(w)
		w.slot = q.grant(w.Call)
		close(w.turn)
		q.tell()
	}
}

// next is whose turn it is: of the priority that is owed most, the flow that
// has waited longest for a turn. Called with mu held.
func (q *Queue) next() *waiter {
	best, sum := -1, 0
	for i := range q.levels {
		l := &q.levels[i]
		if l.n == 0 {
			l.credit = 0
			continue
		}
		l.credit += weights[i]
		sum += weights[i]
		if best < 0 || l.credit > q.levels[best].credit {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	l := &q.levels[best]
	l.credit -= sum
	e := l.ring.Front()
	l.ring.MoveToBack(e)
	return e.Value.(*flow).waiting.Front().Value.(*waiter)
}

// tell puts their new places where waiters find them. Called with mu held.
func (q *Queue) tell() {
	if q.told == 0 {
		return
	}
	place := 0
	for e := q.arrived.Front(); e != nil; e = e.Next() {
		place++
		w := e.Value.(*waiter)
		if w.moved == nil {
			continue
		}
		select {
		case <-w.moved: // nobody has looked yet
		default:
		}
		w.moved <- place
	}
}

// Status is one consistent picture of a queue.
type Status struct {
	Queued      int     `json:"queued"`
	Running     int     `json:"running"`
	Concurrency int     `json:"concurrency"`
	Capacity    int     `json:"capacity"`
	Done        int64   `json:"done"`
	Failed      int64   `json:"failed"`
	AverageMs   float64 `json:"averageMs"`
}

// Status returns how the queue stands.
func (q *Queue) Status() Status {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := Status{Queued: q.arrived.Len(), Running: q.running, Concurrency: q.concurrency, Capacity: q.capacity, Done: q.done, Failed: q.failed}
	if q.done > 0 {
		s.AverageMs = float64(q.took.Microseconds()) / float64(q.done) / 1000
	}
	return s
}
