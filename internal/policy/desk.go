package policy

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/store"
)

// Asker has a person decide about a call. A decision that comes with an error
// never approves.
type Asker func(ctx context.Context, a Approval) (Decision, error)

// DeskOptions bound a desk. A zero value means what stands beside it.
type DeskOptions struct {
	Expiry     time.Duration // how long a person has to answer; 5 min
	Linger     time.Duration // how long somebody who left is still counted on; 30 s
	Max        int           // approvals of one principal that wait at once; 64
	SessionTTL time.Duration // how long a decision for a Session holds if nothing ends that; 24 h
	Events     *event.Bus    // nil: none
	Logger     *slog.Logger  // nil discards
	// Console is the address of the console, "" if there is none now; optional.
	Console func() string
}

// Desk is where people are asked.
type Desk struct {
	opts  DeskOptions
	kept  *memory
	board atomic.Pointer[Board] // nil: there is no other desk
	wg    sync.WaitGroup
	stop  chan struct{}

	mu       sync.Mutex
	expiry   time.Duration
	pending  map[string]*pending
	order    []*pending // pending, in the order of asking
	ended    []ended    // the last that were decided
	there    map[place]*presence
	revision uint64
	changed  chan struct{} // closed when something is asked or decided; nil if nobody waits
	watchers map[*func()]struct{}
	closed   bool
}

// pending is an approval that waits.
type pending struct {
	Approval
	done     chan Decision // of one
	deciding bool          // somebody has decided, and that is being written
	late     bool          // its time ended meanwhile
	settled  bool
}

// ended is an approval that was decided, so that who comes late is told.
type ended struct {
	id, principal string
	decision      Decision
}

const keptEnded = 1024

// OpenDesk opens a desk over what st remembers; nil means that decisions are
// remembered in memory.
func OpenDesk(ctx context.Context, st *store.Store, o DeskOptions) (*Desk, error) {
	if o.Expiry == 0 {
		o.Expiry = 5 * time.Minute
	}
	if o.Linger == 0 {
		o.Linger = 30 * time.Second
	}
	if o.Max == 0 {
		o.Max = 64
	}
	if o.SessionTTL == 0 {
		o.SessionTTL = 24 * time.Hour
	}
	d := &Desk{stop: make(chan struct{}), opts: o, expiry: o.Expiry, pending: map[string]*pending{}, there: map[place]*presence{}}
	if err := d.openMemory(ctx, st); err != nil {
		return nil, err
	}
	return d, nil
}

// SetExpiry changes how long people have to answer what is asked from now on;
// 0 means 5 min.
func (d *Desk) SetExpiry(expiry time.Duration) {
	if expiry == 0 {
		expiry = 5 * time.Minute
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expiry = expiry
}

// Close denies what still waits. Nothing is asked afterwards.
func (d *Desk) Close() {
	if d.close() {
		close(d.stop)
	}
	d.wg.Wait()
	d.kept.Close()
}

// Join has people at other hubs see what waits here, and answer it, and people
// here what waits there. It is called once, before anybody is asked.
func (d *Desk) Join(b *Board) {
	d.board.Store(b)
	d.wg.Go(func() {
		for known := uint64(0); ; {
			select {
			case <-d.stop:
				return
			case <-b.wake:
			}
			news := b.news.Load()
			d.mu.Lock()
			d.abandon()
			if news != known {
				d.announce()
			}
			d.mu.Unlock()
			known = news
		}
	})
}

// close reports whether it was open.
func (d *Desk) close() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	open := !d.closed
	d.closed = true
	for _, p := range append([]*pending(nil), d.order...) {
		d.settle(p, Decision{Reason: ReasonAborted})
	}
	for at, v := range d.there {
		if v.timer != nil {
			v.timer.Stop()
		}
		if b := d.board.Load(); b != nil && open {
			b.stay(at, false) // nobody is asked here any more
		}
	}
	return open
}

// Ask returns what is decided about a call. If that is remembered it is said at
// once. Else asked, which may be nil and must not block, is called with the
// whole record, and Ask waits for a person's decision, the approval's end or
// that of ctx, which is returned as an error. If nobody attends, or all have
// left for longer than the desk lingers, the call is denied. A decision that
// comes with an error never approves.
//
// a.Args are kept until Ask returns and must not be changed meanwhile.
func (d *Desk) Ask(ctx context.Context, a Approval, asked func(Approval)) (Decision, error) {
	if a.Kind == "" {
		a.Kind = KindTool
	}
	if err := ctx.Err(); err != nil {
		return d.refused(&a, ReasonAborted), context.Cause(ctx)
	}
	switch dec, err := d.recall(ctx, &a); {
	case err != nil && ctx.Err() != nil:
		return d.refused(&a, ReasonAborted), context.Cause(ctx)
	case err != nil:
		return d.refused(&a, ReasonFailed), err
	case dec != nil:
		d.record(event.PolicyDecided, &a, dec)
		return *dec, nil
	}
	p, dec, err := d.enter(a)
	if p == nil {
		return dec, err
	}
	if asked != nil {
		asked(p.Approval)
	}
	return d.wait(ctx, p)
}

// wait waits until p is decided.
func (d *Desk) wait(ctx context.Context, p *pending) (Decision, error) {
	timer := time.NewTimer(time.Until(p.Expires))
	defer timer.Stop()
	for {
		select {
		case dec := <-p.done:
			return dec, nil
		case <-timer.C:
			d.expire(p)
		case <-ctx.Done():
			d.mu.Lock()
			d.settle(p, Decision{Reason: ReasonAborted})
			d.mu.Unlock()
			// Whoever was quicker has decided, but the call is over.
			dec := <-p.done
			dec.Approve = false
			return dec, context.Cause(ctx)
		}
	}
}

// recall returns the decision that is remembered about a, or nil.
func (d *Desk) recall(ctx context.Context, a *Approval) (*Decision, error) {
	r, err := d.said(ctx, a)
	if r == nil || err != nil {
		return nil, err
	}
	return &Decision{Approve: r.Approve, Remember: r.Scope, By: r.By, Reason: ReasonRemembered, Time: time.Now()}, nil
}

// Recall returns what would be decided about a call without asking anybody, or
// nil.
func (d *Desk) Recall(ctx context.Context, a Approval) (*Remembered, error) {
	if a.Kind == "" {
		a.Kind = KindTool
	}
	return d.said(ctx, &a)
}

// said returns what is remembered about a, or nil. A denial counts more than
// an approval. Where several models act, what was said of any of them that
// denies counts; an approval has to be of them together, or of each.
func (d *Desk) said(ctx context.Context, a *Approval) (*Remembered, error) {
	found, err := d.recallOf(ctx, a, *a)
	if err != nil {
		return nil, err
	}
	each := found
	if len(a.Agents) > 1 && (found == nil || found.Approve) {
		if each, err = d.recallEach(ctx, a); err != nil {
			return nil, err
		}
		if each == nil || each.Approve && found != nil {
			each = found
		}
	}
	return each, nil
}

// recallEach returns a denial of any of the models that act in a, or an approval
// if there is one of each.
func (d *Desk) recallEach(ctx context.Context, a *Approval) (*Remembered, error) {
	var last *Remembered
	lacking := false
	for _, name := range a.Agents {
		alone := *a
		alone.Agent, alone.Agents = name, nil
		found, err := d.recallOf(ctx, a, alone)
		if err != nil || found != nil && !found.Approve {
			return found, err
		}
		if found == nil {
			lacking = true
			continue
		}
		last = found
	}
	if lacking {
		return nil, nil
	}
	return last, nil
}

// recallOf returns what is remembered about one that stands for a, or nil.
func (d *Desk) recallOf(ctx context.Context, a *Approval, one Approval) (*Remembered, error) {
	var found *Remembered
	for _, scope := range scopes {
		r, ok := remembered(&one, scope)
		if !ok {
			continue
		}
		got, err := d.lookUp(ctx, r)
		if err != nil {
			return nil, fault.New(fault.Storage, a.Tool, "whether it may be called could not be looked up, so it is not").Because(err)
		}
		switch {
		case got == nil:
		case !got.covers(a):
			a.outlived()
		case found == nil || found.Approve && !got.Approve:
			found = got
		}
	}
	return found, nil
}

// refused is the decision about what was never asked.
func (d *Desk) refused(a *Approval, reason string) Decision {
	dec := Decision{Reason: reason, Time: time.Now()}
	d.record(event.PolicyDecided, a, &dec)
	return dec
}

// enter makes a an approval that waits. It returns nil if it cannot.
func (d *Desk) enter(a Approval) (*pending, Decision, error) {
	d.mu.Lock()
	now := time.Now()
	n := 0
	for _, p := range d.order {
		if p.Principal == a.Principal {
			n++
		}
	}
	reason := ""
	var err error
	switch {
	case d.closed:
		reason, err = ReasonFailed, fault.New(fault.Cancelled, a.Tool, "the hub is stopping, nobody can be asked")
	case !d.attended(a.Principal, a.Session, now):
		reason = ReasonNobody
	case n >= d.opts.Max:
		reason, err = ReasonFailed, fault.New(fault.Limit, a.Tool, "%d approvals wait for a person, which is as many as may", n)
	}
	if reason != "" {
		d.mu.Unlock()
		return nil, d.refused(&a, reason), err
	}
	a.ID = "a_" + strings.ToLower(rand.Text())
	a.Created = now
	a.Expires = now.Add(d.expiry)
	p := &pending{Approval: a, done: make(chan Decision, 1)}
	d.pending[a.ID] = p
	d.order = append(d.order, p)
	d.record(event.PolicyAsked, &a, nil)
	if b := d.board.Load(); b != nil {
		b.asked(a)
	}
	d.announce()
	d.mu.Unlock()
	return p, Decision{}, nil
}

// settle decides p, once. It is called with mu held.
func (d *Desk) settle(p *pending, dec Decision) bool {
	if p.settled {
		return false
	}
	p.settled = true
	dec.Time = time.Now()
	delete(d.pending, p.ID)
	for i, q := range d.order {
		if q == p {
			d.order = append(d.order[:i:i], d.order[i+1:]...)
			break
		}
	}
	short := dec
	short.Args = nil
	if d.ended = append(d.ended, ended{p.ID, p.Principal, short}); len(d.ended) > keptEnded {
		d.ended = append(d.ended[:0:0], d.ended[len(d.ended)-keptEnded/2:]...)
	}
	p.done <- dec
	if b := d.board.Load(); b != nil {
		b.settled(p.Approval, dec)
	}
	d.record(event.PolicyDecided, &p.Approval, &dec)
	d.announce()
	return true
}

func (d *Desk) expire(p *pending) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.deciding { // it came in time
		p.late = true
		return
	}
	d.settle(p, Decision{Reason: ReasonExpired})
}

// Trace is the data of the records of approvals: names, never what passes.
type Trace struct {
	ID       string    `json:"id,omitempty"`
	Kind     string    `json:"kind"`
	Turn     string    `json:"turn,omitempty"`
	Outcome  string    `json:"outcome,omitempty"`
	By       string    `json:"by,omitempty"`
	Remember Remember  `json:"remember,omitempty"`
	Edited   bool      `json:"edited,omitempty"`
	Expires  time.Time `json:"expires,omitzero"`
}

func (d *Desk) record(typ string, a *Approval, dec *Decision) {
	if d.opts.Events == nil {
		return
	}
	r := event.Record{Type: typ, Session: a.Session, Principal: a.Principal, Call: a.Call, Upstream: a.Upstream, Tool: a.Tool, Agent: a.Agent, Bytes: len(a.Args)}
	t := Trace{ID: a.ID, Kind: a.Kind, Turn: a.Turn}
	if dec == nil {
		t.Expires = a.Expires
	} else {
		t.Outcome, t.By, t.Remember, t.Edited = dec.Outcome(), dec.By, dec.Remember, dec.Args != nil
		if !a.Created.IsZero() {
			r.TookUS = dec.Time.Sub(a.Created).Microseconds()
		}
	}
	r.Data = t
	d.opts.Events.Emit(r)
}
