package task

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
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/lease"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/wire"
)

// Options say how Tasks are run and kept.
type Options struct {
	// Run does the work of a Task that begins, or begins again after a restart
	// of the hub.
	Run    Runner
	TTL    time.Duration // how long a Task is kept from its creation on; 0 means an hour
	Max    int           // unfinished Tasks of one principal; 0 means 256
	Kept   int           // Tasks in all, finished ones included; 0 means 10,000
	Logger *slog.Logger
	// Store opens the store when the first Task is made, for hubs that mostly
	// make none. It is used if Open is given no store.
	Store  func(context.Context) (*store.Store, error)
	Hub    string        // the name of this process among all on the same store; empty for a random one
	Before string        // see lease.Options
	Lease  time.Duration // how long a hub that died keeps its Tasks; 0 means lease.Life
	// Changed is called after each change that a client could see. It must not
	// block; nil means that nobody wants to know.
	Changed func(*Task)
}

// Registry holds the Tasks of a hub.
type Registry struct {
	opts Options
	ctx  context.Context
	stop context.CancelCauseFunc
	wg   sync.WaitGroup

	resumed sync.Once
	leaving atomic.Bool // nothing begins any more

	openMu sync.Mutex
	book   atomic.Pointer[book] // nil until the store is open
	leases *lease.Book          // of the Tasks that hubs run
	look   time.Duration        // see mostLook

	mu     sync.RWMutex
	tasks  map[string]*Task
	closed bool
}

// Task is one piece of work that outlives the request that began it.
type Task struct {
	r      *Registry
	id     string
	cancel context.CancelCauseFunc // of all its runs
	ctx    context.Context         // of all its runs

	mu      sync.RWMutex
	halt    context.CancelCauseFunc // of the run that goes on here; nil if none does
	state   State
	note    string        // what the upstream said last of its progress
	reached string        // and how far it has come: {"progress", "total"}, raw; "" if it did not say
	noted   time.Time     // when
	changed chan struct{} // closed with the next change
}

// Open returns the Tasks that st holds; with a nil store they are kept in the
// one that o.Store opens. Nothing runs before Resume. Close ends it; the store
// stays open.
func Open(ctx context.Context, st *store.Store, o Options) (*Registry, error) {
	if o.TTL == 0 {
		o.TTL = time.Hour
	}
	if o.Max == 0 {
		o.Max = 256
	}
	if o.Kept == 0 {
		o.Kept = 10_000
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func(*Task) {}
	}
	o.Lease, o.Hub = cmp.Or(o.Lease, lease.Life), cmp.Or(o.Hub, rand.Text())
	r := &Registry{opts: o, look: min(o.Lease/4, mostLook), tasks: map[string]*Task{}}
	var err error
	if r.leases, err = lease.Open(ctx, st, lease.Options{Bucket: "tasklease", Hub: o.Hub, Before: o.Before, Life: o.Lease, Alone: st == nil || st.Alone(), Logger: o.Logger}); err != nil {
		return nil, err
	}
	r.ctx, r.stop = context.WithCancelCause(context.Background())
	if st != nil {
		b, err := r.openBook(ctx, st)
		if err != nil {
			r.stop(nil)
			return nil, err
		}
		r.book.Store(b)
	}
	return r, nil
}

// errForgotten is why the run of a Task ends that was removed.
var errForgotten = fault.New(fault.Cancelled, "", "the task was removed")

// errStopping is why runs end when the hub does.
var errStopping = fault.New(fault.Cancelled, "", "the hub is stopping")

// Close ends all runs and waits for them. What was not finished is taken up by
// another hub on the same store, or by Resume when the hub is there again.
func (r *Registry) Close() {
	r.leaving.Store(true)
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop(errStopping)
	r.wg.Wait()
	r.openMu.Lock() // nobody is opening it
	defer r.openMu.Unlock()
	if b := r.book.Load(); b != nil {
		b.Close()
	}
}

// Drain waits until no Task of this hub is at work at an upstream, or ctx ends. What
// has not begun does not begin any more: it would only be cut short.
func (r *Registry) Drain(ctx context.Context) {
	r.leaving.Store(true)
	for {
		busy := slices.DeleteFunc(r.List(func(s *State) bool { return s.Running && !s.Status.Final() }), func(t *Task) bool { return !t.isRunHere() })
		if len(busy) == 0 {
			return
		}
		changed := busy[0].Changed()
		if s := busy[0].State(); !s.Running || s.Status.Final() || !busy[0].isRunHere() {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (r *Registry) task(id string) *Task {
	t := &Task{r: r, id: id, changed: make(chan struct{}), state: State{ID: id}}
	t.ctx, t.cancel = context.WithCancelCause(r.ctx)
	return t
}

// Create makes a Task and, when it is on disk, begins to run it. running says
// that the upstream may have the request already. A nil run means Options.Run.
func (r *Registry) Create(ctx context.Context, w Work, params []byte, running bool, run Runner) (*Task, error) {
	if w.TTL <= 0 {
		w.TTL = r.opts.TTL
	}
	if w.Key == "" {
		w.Key = strings.ToLower(rand.Text())
	}
	t := r.task(idPrefix + strings.ToLower(rand.Text()))
	if err := r.admit(t, w.Principal); err != nil {
		return nil, err
	}
	l, err := r.begin(ctx, t, &Event{Kind: created, Work: &w, Running: running}, params)
	if err != nil {
		r.mu.Lock()
		delete(r.tasks, t.ID())
		r.mu.Unlock()
		return nil, err
	}
	if run == nil {
		run = r.opts.Run
	}
	if !r.launch(t, l, run) {
		_ = t.Cancel(ctx, "the hub is stopping") // it would be run by the next one
		l.Release()
		return nil, errStopping
	}
	return t, nil
}

// begin makes a Task that this hub runs. It has the lease before others can know
// of the Task.
func (r *Registry) begin(ctx context.Context, t *Task, e *Event, params []byte) (*lease.Lease, error) {
	l, holder, err := r.leases.Try(ctx, t.ID())
	switch {
	case err != nil:
		return nil, err
	case l == nil: // its name was made up just now
		return nil, fault.New(fault.Internal, "task", "the hub %s has the lease of a task that is only being made", holder)
	}
	e.By = r.leases.Hub()
	if _, err := t.commit(ctx, func(State) (*Event, []byte, error) { return e, params, nil }); err != nil {
		l.Release()
		return nil, err
	}
	return l, nil
}

// admit takes a new Task in if there is room for it.
func (r *Registry) admit(t *Task, principal string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errStopping
	}
	if len(r.tasks) >= r.opts.Kept {
		return &fault.Error{Kind: fault.Limit, Subject: "task", Msg: fmt.Sprintf("the hub keeps %d tasks, which is as many as it may", len(r.tasks)), Hint: "Finished tasks go when their time to live is over."}
	}
	busy := 0
	for _, other := range r.tasks {
		s := other.State()
		if s.Work.Principal == principal && !s.Status.Final() {
			busy++
		}
	}
	if busy >= r.opts.Max {
		return &fault.Error{Kind: fault.Limit, Subject: "task", Msg: fmt.Sprintf("%d tasks of yours are unfinished, which is as many as may be", busy), Hint: "Wait for some of them, or cancel them."}
	}
	r.tasks[t.ID()] = t
	return nil
}

const (
	idPrefix = "t_"
	lookTime = 5 * time.Second // how long it may take to look for one in the store
)

func (r *Registry) known(id string) *Task {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.tasks[id]
}

// Get returns a Task of a principal. One of another's is not there.
func (r *Registry) Get(principal, id string) (*Task, error) {
	t := r.known(id)
	if b := r.book.Load(); t == nil && b != nil && strings.HasPrefix(id, idPrefix) {
		// It may be one that another hub has just made.
		ctx, cancel := context.WithTimeout(r.ctx, lookTime)
		_, err := b.At(id).Latest(ctx)
		cancel()
		if err != nil {
			return nil, err
		}
		t = r.known(id)
	}
	if t != nil {
		if s := t.State(); s.Work.Principal == principal && s.Status != "" {
			return t, nil
		}
	}
	return nil, &fault.Error{Kind: fault.InvalidParams, Subject: "taskId", Msg: "there is no such task", Hint: "It may have expired, or belong to another principal."}
}

// List returns the Tasks that pass, oldest first.
func (r *Registry) List(pass func(*State) bool) []*Task {
	r.mu.RLock()
	out := make([]*Task, 0, len(r.tasks))
	for _, t := range r.tasks {
		if s := t.State(); s.Status != "" && pass(&s) {
			out = append(out, t)
		}
	}
	r.mu.RUnlock()
	slices.SortFunc(out, func(a, b *Task) int {
		sa, sb := a.State(), b.State()
		if c := sa.Created.Compare(sb.Created); c != 0 {
			return c
		}
		return strings.Compare(sa.ID, sb.ID)
	})
	return out
}

// ID is the Task's, which nobody can guess.
func (t *Task) ID() string { return t.id }

// State is how the Task stands.
func (t *Task) State() State {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.state
}

// Changed is closed when something changes after now.
func (t *Task) Changed() <-chan struct{} {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.changed
}

func (t *Task) set(s State) {
	t.mu.Lock()
	t.state = s
	if s.Status != Working {
		t.note, t.reached = "", ""
	}
	t.announce()
	t.mu.Unlock()
	t.r.opts.Changed(t)
}

// announce is called with mu held.
func (t *Task) announce() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// Cancel ends the Task, unless it has ended, and then its run.
func (t *Task) Cancel(ctx context.Context, why string) error {
	_, err := t.commit(ctx, func(s State) (*Event, []byte, error) {
		if s.Status.Final() {
			return nil, nil, nil
		}
		return &Event{Kind: ended, Status: Cancelled, Message: why}, nil, nil
	})
	return err
}

// Update takes the client's answers. Those that nobody asked for are ignored.
func (t *Task) Update(ctx context.Context, answers []wire.Field) error {
	if err := t.latest(ctx); err != nil { // another hub may just have asked
		return err
	}
	_, err := t.commit(ctx, func(s State) (*Event, []byte, error) {
		var given []string
		var kept []wire.Field
		for _, k := range s.Open {
			for _, a := range answers {
				if string(a.Name) == k.Name() {
					given, kept = append(given, k.Name()), append(kept, a)
					break
				}
			}
		}
		if len(given) == 0 {
			return nil, nil, nil
		}
		return &Event{Kind: answered, Given: given}, wire.EditFields(nil, kept), nil
	})
	return err
}

// Detail is a Task with what its status brings along, raw.
type Detail struct {
	State
	Note     string // what the upstream said last of its progress
	Reached  string // and how far it has come: {"progress", "total"}, raw; "" if it did not say
	Requests []byte // of one that waits for input: what is still open
	Result   []byte
	Error    []byte
}

// Detail reads the Task with what its status brings along.
func (t *Task) Detail(ctx context.Context) (Detail, error) {
	t.mu.RLock()
	d := Detail{State: t.state, Note: t.note, Reached: t.reached}
	if t.noted.After(d.Updated) {
		d.Updated = t.noted
	}
	t.mu.RUnlock()
	var err error
	switch d.Status {
	case Completed:
		d.Result, err = t.data(ctx, d.outcome)
	case Failed:
		d.Error, err = t.data(ctx, d.outcome)
	case InputRequired:
		var demand []byte
		if demand, err = t.data(ctx, d.demand); err != nil {
			break
		}
		requests := wire.Get(demand, "inputRequests")
		changes := []wire.Change{}
		for _, k := range d.Open {
			changes = append(changes, wire.Change{Name: k.Name(), Value: wire.Get(requests, k.Own)})
		}
		d.Requests = wire.Edit(nil, []byte("{}"), changes...)
	}
	return d, err
}

// JSON is the Task as the protocol's extension writes it, without the braces
// and without resultType. whole adds what its status brings along.
func (d *Detail) JSON(whole bool) []byte {
	const stamp = "2006-01-02T15:04:05.000Z"
	head := struct {
		ID      string `json:"taskId"`
		Status  Phase  `json:"status"`
		Message string `json:"statusMessage,omitempty"`
		Created string `json:"createdAt"`
		Updated string `json:"lastUpdatedAt"`
		TTL     int64  `json:"ttlMs"`
		Poll    int64  `json:"pollIntervalMs"`
	}{d.ID, d.Status, d.Message, d.Created.UTC().Format(stamp), d.Updated.UTC().Format(stamp), d.Work.TTL.Milliseconds(), PollEvery.Milliseconds()}
	if head.Message == "" {
		head.Message = d.Note
	}
	b, err := json.Marshal(head)
	if err != nil {
		panic(fmt.Sprintf("task: encode %s: %v", d.ID, err)) // strings and numbers
	}
	b = b[1 : len(b)-1]
	if !whole {
		return b
	}
	add := func(name string, value []byte) {
		if value != nil {
			b = append(append(append(append(b, `,"`...), name...), `":`...), value...)
		}
	}
	add("inputRequests", d.Requests)
	add("result", d.Result)
	add("error", d.Error)
	if d.Reached != "" {
		add("_meta", []byte(`{"`+MetaProgress+`":`+d.Reached+`}`))
	}
	return b
}

// MetaProgress is the member of _meta that tells in numbers how far a Task has
// come. The protocol has no place for that: notifications of progress end with
// the answer to the request.
const MetaProgress = "stoa/progress"

// PollEvery is how often a client is asked to look.
const PollEvery = 500 * time.Millisecond
