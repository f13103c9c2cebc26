package plan

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
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
	Face func(session string) mcp.Handler
	// Find finds a tool for a principal in a Session.
	Find func(ctx context.Context, who *auth.Principal, session, name string) (Tool, error)
	// Principal returns who has a name now, or nil: a run may be taken up again
	// when its owner's token is gone.
	Principal func(name string) *auth.Principal
	Sessions  *session.Registry
	Desk      *policy.Desk
	Events    *event.Bus    // nil: none
	Tracer    *obs.Tracer   // nil: none
	Logger    *slog.Logger  // nil: discard
	Lease     time.Duration // how long a hub that died keeps its runs; 0: 10 s
	Alone     bool          // no other hub can use the store, so that one that died keeps nothing
	Max       int           // runs that are kept of one Session; 0: 1,000
	// Keep is how long a run that is over is kept whose Session holds nothing,
	// so that no end of it is told; 0: for ever.
	Keep func() time.Duration
}

// Runs are the runs of a hub.
type Runs struct {
	o    RunsOptions
	disk *disk
	name string // of this hub, in leases

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	going  context.Context // ended by hush when nothing more is begun
	hush   context.CancelFunc
	last   uint64 // of the log, when it was read
	follow sync.Once

	mu       sync.Mutex
	all      map[string]*Run
	keys     map[string]*Run          // by owner and key
	starting map[string]chan struct{} // keys of which a run is being begun
	closing  bool
}

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
	o.Lease = cmp.Or(o.Lease, 10*time.Second)
	o.Max = cmp.Or(o.Max, 1000)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Runs{o: o, name: rand.Text(), all: map[string]*Run{}, keys: map[string]*Run{}, starting: map[string]chan struct{}{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.going, r.hush = context.WithCancel(r.ctx)
	if st == nil {
		return r, nil
	}
	var err error
	if r.disk, err = openDisk(ctx, st); err != nil {
		return nil, err
	}
	if err := r.read(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// read makes the runs that the log holds. One whose journal cannot be used is
// told of and left where it is.
func (r *Runs) read(ctx context.Context) error {
	broken := map[string]bool{}
	err := r.disk.log.Scan(ctx, "", 0, func(e store.Entry) error {
		sess, id := split(e.Subject)
		run := r.all[id]
		if run == nil {
			run = r.newRun(id, sess)
			r.all[id] = run
		}
		var ev Event
		err := json.Unmarshal(e.Data, &ev)
		if err == nil && !broken[id] {
			err = run.state.Apply(ev)
		}
		if err != nil && !broken[id] {
			broken[id] = true
			r.o.Logger.Error("the journal of a run cannot be used", "run", id, "seq", e.Seq, "err", err)
		}
		run.journal.seq, r.last = e.Seq, e.Seq
		return nil
	})
	for id := range broken {
		delete(r.all, id)
	}
	for _, run := range r.all {
		r.index(run)
	}
	if err != nil {
		return fmt.Errorf("read the journals of runs: %w", err)
	}
	return nil
}

func (r *Runs) newRun(id, sess string) *Run {
	return &Run{id: id, of: r, state: &State{}, journal: journal{disk: r.disk, session: sess, subject: subjectOf(sess, id)}, wake: make(chan struct{}, 1), changed: make(chan struct{}), busy: map[at]context.CancelFunc{}, cache: map[string]json.RawMessage{}, lists: map[string][][]byte{}}
}

// Start is what a run begins with.
type Start struct {
	Who     *auth.Principal
	Session string // its name
	Plan    *Plan
	Inputs  map[string]json.RawMessage
	Options Options
	Breaks  []Breakpoint
	Paused  bool       // it waits to be told to begin
	Key     string     // the same key twice is the same run; empty: no key
	Open    bool       // for Check: inputs may be lacking
	Trace   obs.Parent // what the run is part of
}

// Problems is a plan that cannot be run, and why.
type Problems struct{ List []Problem }

func (p *Problems) Error() string {
	text := ""
	for i, one := range p.List {
		if i > 0 {
			text += "; "
		}
		text += one.String()
	}
	return text
}

// Start begins a run, after all that can be checked has been.
func (r *Runs) Start(ctx context.Context, s Start) (*Run, error) {
	if s.Key != "" {
		run, done, err := r.byKey(ctx, s)
		if run != nil || err != nil {
			return run, err
		}
		defer done()
	}
	inputs, err := r.Check(ctx, s)
	if err != nil {
		return nil, err
	}
	created := &Created{Trace: r.traced(ctx, s.Trace), Run: newID(), Plan: *s.Plan, Options: s.Options, Session: s.Session, Owner: s.Who.Name, Paused: s.Paused, Key: s.Key, Inputs: map[string]Data{}, Breaks: s.Breaks}
	return r.begin(ctx, created, inputs, nil)
}

// Check says everything that would keep a run from being made, and returns its
// inputs with defaults.
func (r *Runs) Check(ctx context.Context, s Start) (map[string]json.RawMessage, error) {
	sess, err := r.session(s.Who.Name, s.Session)
	if err != nil {
		return nil, err
	}
	problems := Check(s.Plan, func(name string) bool { _, err := sess.Value(name); return err == nil })
	if len(problems) > 0 {
		return nil, &Problems{problems}
	}
	inputs, problems := CheckInputs(s.Plan, s.Inputs)
	if s.Open {
		problems = slices.DeleteFunc(problems, func(p Problem) bool {
			return s.Inputs[strings.TrimPrefix(p.Pointer, "/")] == nil && isInput(s.Plan, p.Pointer)
		})
	}
	for i := range problems {
		problems[i].Pointer = "/inputs" + problems[i].Pointer
	}
	find := func(name string) (Tool, error) { return r.o.Find(ctx, s.Who, s.Session, name) }
	known := func(ref session.Reference) []byte {
		data, ok := inputs[ref.Name]
		if !ok || ref.Session != "" {
			return nil
		}
		part, err := session.Dig(data, ref.Path)
		if err != nil {
			return nil
		}
		return part
	}
	problems = append(problems, Preflight(s.Plan, find, known)...)
	problems = append(problems, checkBreaks(s.Plan, s.Breaks)...)
	if len(problems) > 0 {
		return nil, &Problems{problems}
	}
	return inputs, nil
}

// isInput says whether a pointer of CheckInputs is to an input of the plan.
func isInput(p *Plan, pointer string) bool {
	return slices.ContainsFunc(p.Inputs, func(in Input) bool { return "/"+in.Name == pointer })
}

// traced is what a new run is part of. A span says that it begins, which those
// of the run are below, whichever hub drives it.
func (r *Runs) traced(ctx context.Context, p obs.Parent) obs.Parent {
	if r.o.Tracer == nil {
		if p.Trace() == "" {
			return obs.Parent{}
		}
		return p
	}
	_, span := r.o.Tracer.Start(ctx, "begin run", p)
	span.End("")
	return span.Parent()
}

func newID() string { return "run_" + rand.Text()[:20] }

// begin writes the first event of a run and drives it. pins are results that
// are taken over, by step.
func (r *Runs) begin(ctx context.Context, c *Created, inputs, pins map[string]json.RawMessage) (*Run, error) {
	sess, err := r.session(c.Owner, c.Session)
	if err != nil {
		return nil, err
	}
	run := r.newRun(c.Run, sess.ID())
	// All of it is one entry, which has room for so much of each.
	most := min(inline, store.MaxEntry/4/max(len(inputs)+len(pins), 1))
	put := func(into map[string]Data, from map[string]json.RawMessage) error {
		for name, raw := range from {
			d, err := run.journal.putOver(ctx, raw, most)
			if err != nil {
				return err
			}
			into[name] = *d
		}
		return nil
	}
	if len(pins) > 0 {
		c.Pinned = map[string]Data{}
	}
	if err := cmp.Or(put(c.Inputs, inputs), put(c.Pinned, pins)); err != nil {
		return nil, err
	}
	r.mu.Lock()
	if r.closing {
		r.mu.Unlock()
		return nil, fault.New(fault.Unreachable, "plan", "the hub is stopping")
	}
	r.all[run.id] = run
	r.mu.Unlock()
	run.mu.Lock()
	if err = run.record(ctx, Event{Type: RunCreated, Created: c, By: r.name}); err != nil {
		run.leave()
	}
	run.mu.Unlock()
	if err != nil {
		r.drop(context.WithoutCancel(ctx), run) // what nobody was told of must not be taken up
		return nil, err
	}
	r.index(run)
	r.drive(run)
	r.trim(run)
	return run, nil
}

func keyOf(owner, key string) string { return owner + "\x00" + key }

// index makes a run be found by its key.
func (r *Runs) index(run *Run) {
	run.mu.Lock()
	c := &run.state.Created
	key, owner := c.Key, c.Owner
	run.mu.Unlock()
	if key == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[keyOf(owner, key)] = run
}

// byKey finds the run that was begun with a key, once whoever begins one with
// it has done so. If there is none, the caller is who begins it, until done.
func (r *Runs) byKey(ctx context.Context, s Start) (run *Run, done func(), err error) {
	key := keyOf(s.Who.Name, s.Key)
	for {
		r.mu.Lock()
		run, other := r.keys[key], r.starting[key]
		if run == nil && other == nil {
			mine := make(chan struct{})
			r.starting[key] = mine
			r.mu.Unlock()
			return nil, func() {
				r.mu.Lock()
				delete(r.starting, key)
				r.mu.Unlock()
				close(mine)
			}, nil
		}
		r.mu.Unlock()
		if run != nil {
			return run, nil, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
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

// Find returns a run of a principal. id may be "current": the one of the
// Session that began last.
func (r *Runs) Find(who *auth.Principal, sess, id string) (*Run, error) {
	if id == "" || id == "current" {
		if all := r.Of(who.Name, sess); len(all) > 0 {
			return all[0], nil
		}
		return nil, &fault.Error{Kind: fault.InvalidArguments, Subject: "plan", Msg: "the session has no run", Hint: "Begin one with plan_execute."}
	}
	r.mu.Lock()
	run := r.all[id]
	r.mu.Unlock()
	if run != nil && run.Summary().Principal == who.Name {
		return run, nil
	}
	f := fault.New(fault.InvalidArguments, id, "there is no run %s", id)
	var ids []string
	for _, o := range r.Of(who.Name, sess) {
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
