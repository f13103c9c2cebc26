package plan

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/lease"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/spell"
	"github.com/stoahub/stoa/internal/store"
)

// RunsOptions are what runs work with.
type RunsOptions struct {
	// Face returns the handler by which calls of a Session are made, so that
	// they pass the same door as all others.
	Face func(session string) call.Face
	// Find finds a tool that an actor can see in a Session.
	Find func(ctx context.Context, by actor.Actor, session, name string) (Tool, error)
	// Principal returns who has a name now, or nil: a run may be taken up again
	// when its owner's token is gone.
	Principal call.Lookup
	Sessions  *session.Registry
	Desk      *policy.Desk
	Events    *event.Bus    // nil: none
	Tracer    *obs.Tracer   // nil: none
	Logger    *slog.Logger  // nil: discard
	Hub       string        // the name of this process among all on the same store; empty for a random one
	Before    string        // see lease.Options
	Lease     time.Duration // how long a hub that died keeps its runs; 0: lease.Life
	Alone     bool          // no other hub can use the store, so that one that died keeps nothing
	Max       int           // runs that are kept of one Session; 0: 1,000
	// Keep is how long a run that is over is kept whose Session holds nothing,
	// so that no end of it is told; 0: for ever.
	Keep func() time.Duration
	// ArgBytes bounds the arguments of a call with their references resolved,
	// as the door does; nil: 8 MiB.
	ArgBytes func() int
}

// mostPatience bounds how long a run that another hub began is left to it, and,
// as a quarter of it, how often it is seen whether that hub has let go. A hub that
// stops lets go at once; only one that died keeps its lease for long.
const mostPatience = 10 * time.Second

// Runs are the runs of a hub.
type Runs struct {
	o       RunsOptions
	log     journal.Log
	blobs   blobs
	journal *journal.Journal[*State, Event]
	leases  *lease.Book
	name    string // of this hub, in leases

	patience time.Duration // see mostPatience

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	going  context.Context // ended by hush when nothing more is begun
	hush   context.CancelFunc
	follow sync.Once

	mu       sync.Mutex
	all      map[string]*Run
	keys     map[string]*Run          // by owner and key
	starting map[string]chan struct{} // keys of which a run is being begun
	closing  bool
}

// Driven is how many runs this hub drives now.
func (r *Runs) Driven() int { return r.leases.Held() }

// Summary is what is known of a run at a glance.
type Summary struct {
	ID        string     `json:"id"`
	Title     string     `json:"title,omitempty"`
	Session   string     `json:"session,omitempty"`
	Principal string     `json:"principal"`
	Status    Status     `json:"status"`
	Steps     int        `json:"steps"`
	Done      int        `json:"done"`
	Events    int        `json:"events"` // of its journal
	Began     time.Time  `json:"began"`
	Ended     *time.Time `json:"ended,omitempty"`
	From      *Origin    `json:"from,omitempty"`
	Reason    string     `json:"reason,omitempty"`
}

// Open reads the runs that st holds; nil means that none are kept. Nothing is
// driven before Resume.
func Open(ctx context.Context, st *store.Store, o RunsOptions) (*Runs, error) {
	o.Lease, o.Hub = cmp.Or(o.Lease, lease.Life), cmp.Or(o.Hub, rand.Text())
	o.Max = cmp.Or(o.Max, 1000)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Alone = o.Alone || st == nil
	r := &Runs{o: o, name: o.Hub, patience: min(o.Lease, mostPatience), all: map[string]*Run{}, keys: map[string]*Run{}, starting: map[string]chan struct{}{}}
	var err error
	if r.leases, err = lease.Open(ctx, st, lease.Options{Bucket: "planlease", Hub: r.name, Before: o.Before, Life: o.Lease, Alone: o.Alone, Logger: o.Logger}); err != nil {
		return nil, err
	}
	if err := r.openJournal(ctx, st); err != nil {
		return nil, err
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.going, r.hush = context.WithCancel(r.ctx)
	r.journal.Each(func(x *entity) {
		x = x.Lock()
		defer x.Unlock()
		if x.Now().flaw != nil {
			r.unusable(x)
			return
		}
		r.adopt(x)
	})
	return r, nil
}

func (r *Runs) newRun(x *entity) *Run {
	sess, id := split(x.Key())
	return &Run{id: id, session: sess, of: r, x: x, state: &State{}, wake: make(chan struct{}, 1), changed: make(chan struct{}), busy: map[at]context.CancelFunc{}, cache: map[string]json.RawMessage{}, lists: map[string][][]byte{}}
}

// session returns the Session of a run. It need not hold anything yet.
func (r *Runs) session(principal, name string) (*session.Session, error) {
	s, err := r.o.Sessions.Bind(session.Binding{Principal: principal, Name: name})
	if err == nil && s == nil {
		err = &fault.Error{Kind: fault.SessionRequired, Subject: "plan", Msg: "runs belong to a session, and this request is bound to none", Hint: "Name one: the argument session, or the header Stoa-Session."}
	}
	return s, err
}

func (r *Runs) list() []*Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*Run, 0, len(r.all))
	for _, run := range r.all {
		out = append(out, run)
	}
	return out
}

// lookTime bounds how long a run is looked for in the store.
const lookTime = 5 * time.Second

// Find returns a run of a principal. id may be "current": the one of the
// Session that began last. That there is none is said once the log was asked:
// another hub may just have begun it.
func (r *Runs) Find(principal, sess, id string) (*Run, error) {
	run, err := r.find(principal, sess, id)
	if err == nil || r.o.Alone {
		return run, err
	}
	ctx, cancel := context.WithTimeout(r.ctx, lookTime)
	defer cancel()
	if err := r.CatchUp(ctx); err != nil {
		return nil, err
	}
	return r.find(principal, sess, id)
}

func (r *Runs) find(principal, sess, id string) (*Run, error) {
	if id == "" || id == "current" {
		if all := r.Of(principal, sess); len(all) > 0 {
			return all[0], nil
		}
		return nil, &fault.Error{Kind: fault.InvalidArguments, Subject: "plan", Msg: "the session has no run", Hint: "Begin one with plan_execute."}
	}
	r.mu.Lock()
	run := r.all[id]
	r.mu.Unlock()
	if run != nil && run.Summary().Principal == principal {
		return run, nil
	}
	f := fault.New(fault.InvalidArguments, id, "there is no run %s", id)
	var ids []string
	for _, o := range r.Of(principal, sess) {
		ids = append(ids, o.id)
	}
	f.Hint = "plan_status without a run lists those of the session."
	if near := spell.Near(id, ids, 1); len(near) > 0 {
		f.Hint = "Is " + near[0] + " meant?"
	}
	return nil, f
}

// Of returns the runs of a Session, the newest first.
func (r *Runs) Of(principal, sess string) []*Run {
	return r.All(func(s Summary) bool { return s.Principal == principal && (sess == "" || s.Session == sess) })
}

// All returns the runs that match, the newest first.
func (r *Runs) All(match func(Summary) bool) []*Run {
	var out []*Run
	for _, run := range r.list() {
		if match(run.Summary()) {
			out = append(out, run)
		}
	}
	began := make(map[*Run]time.Time, len(out))
	for _, run := range out {
		began[run] = run.Summary().Began
	}
	slices.SortFunc(out, func(a, b *Run) int { return cmp.Or(began[b].Compare(began[a]), cmp.Compare(a.id, b.id)) })
	return out
}
