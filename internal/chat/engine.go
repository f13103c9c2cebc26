package chat

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/lease"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/store"
)

// Model is a language model as the config names it.
type Model struct {
	llm.Model
	Name          string    // in the config
	ID            string    // the provider's name for it
	SystemPrompt  string    // where neither the agent nor the chat has one
	MaxTokenCount int       // what it may have before it; 0: not known
	Price         llm.Price // the zero value: no cost is told

	Retries    *int          // after the first attempt; nil: as Settings say
	RetryDelay time.Duration // 0: as Settings say
}

// Options are what an Engine works with. Face and Models are needed; the rest
// may be left out.
type Options struct {
	// Face returns what the hub offers in a Session of that name.
	Face func(session string) call.Face
	// Models returns the model of a name; "" means the default.
	Models func(name string) (Model, error)
	Desk   *policy.Desk // nil: what a person would have to allow is denied
	// Sessions are those that conversations belong to. With nil, names are
	// minted here and nothing expires.
	Sessions *session.Registry
	// Attach returns what the model is told of an uploaded file; see
	// Files.Attach.
	Attach func(ctx context.Context, who *auth.Principal, id string, s *session.Session) (string, error)
	// Principal returns who has a name now, or nil if nobody does: an input
	// may be taken up again when its owner's token is gone.
	Principal call.Lookup
	// Find returns the upstream of an exposed tool and its name across
	// upstreams; nil: the exposed name tells.
	Find func(tool string) (upstream, ref string, ok bool)
	// Missing returns why a tool that a model named is not listed, "" if nothing
	// is known of it; nil: nobody knows.
	Missing func(who *auth.Principal, tool string) string
	// Sees reports whether an actor may talk to an agent in a Session; nil: its
	// scopes decide.
	Sees func(by actor.Actor, session, agent string) bool
	// Instructions returns what an upstream says of itself, "" for nothing; nil:
	// nobody knows.
	Instructions func(upstream string) string

	Events *event.Bus
	Tracer *obs.Tracer  // nil: none
	Logger *slog.Logger // nil discards

	Hub    string        // the name of this process among all on the same store; empty for a random one
	Before string        // see lease.Options
	Lease  time.Duration // after which a hub that died answers its conversations no more, and another one may; 0 means lease.Life
	Idle   time.Duration // after which the memory of a conversation that nobody watches is given back; 0 means 2 s
	Expire time.Duration // after which a conversation is forgotten whose Session holds nothing else; 0 means the time-out of Sessions
}

// Engine runs the conversations of a hub.
type Engine struct {
	opts     Options
	settings atomic.Pointer[Settings]
	journal  *chatLog
	leases   *lease.Book   // of the conversations that hubs answer
	alone    bool          // no other hub has them
	silence  time.Duration // after which it is seen whether a conversation that waits is anybody's
	slow     time.Duration // see shelf
	every    time.Duration // how long text may be live only
	crowd    *crowd        // see book
	meter    llm.Meter
	guides   guides
	sets     sets
	ctx      context.Context
	stop     context.CancelCauseFunc
	wg       sync.WaitGroup

	mu       sync.Mutex
	convs    map[string]*Conversation
	running  int
	quiet    chan struct{} // closed when nothing runs; nil if nobody waits
	resumed  bool
	draining bool
	closed   bool
}

// Answering is how many conversations this hub answers now.
func (e *Engine) Answering() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running
}

// ErrClosed means that the hub stops.
var ErrClosed = errors.New("the hub stops")

// ErrEnded means that the Session of the conversation is over.
var ErrEnded = errors.New("the session is over, and its conversation forgotten")

// Open returns the conversations that st holds; with a nil store they are in
// memory only. Nothing runs before Resume. Close ends it; the store stays open.
func Open(ctx context.Context, st *store.Store, o Options, s Settings) (*Engine, error) {
	sh, err := openShelf(ctx, st)
	if err != nil {
		return nil, err
	}
	leases, err := lease.Open(ctx, st, lease.Options{Bucket: leaseName, Hub: cmp.Or(o.Hub, rand.Text()), Before: o.Before, Life: o.Lease, Alone: sh.alone, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	return open(ctx, sh, leases, o, s)
}

// open is Open of what is kept on a shelf.
func open(ctx context.Context, sh shelf, leases *lease.Book, o Options, s Settings) (*Engine, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Idle == 0 {
		o.Idle = 2 * time.Second // to read it again is quick
	}
	e := &Engine{silence: min(cmp.Or(o.Lease, lease.Life), mostSilence), slow: sh.slow, opts: o, convs: map[string]*Conversation{}, every: partEvery, crowd: newCrowd(), leases: leases, alone: sh.alone}
	e.Configure(s)
	e.ctx, e.stop = context.WithCancelCause(context.Background())
	var err error
	if e.journal, err = journal.Open(ctx, sh.log, sh.blobs, e.kind(), journal.Options{Logger: o.Logger, Alone: sh.alone}); err != nil {
		return nil, fmt.Errorf("read the conversations: %w", err)
	}
	e.journal.Each(func(x *entity) { e.at(x) })
	e.journal.Follow()
	if o.Sessions != nil {
		o.Sessions.Watch(e.sessionChanged)
	}
	e.wg.Go(e.sweeps)
	return e, nil
}

// at returns the conversation of an entity.
func (e *Engine) at(x *entity) *Conversation {
	s := x.State()
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.convs[x.Key()]
	if c == nil {
		c = e.conversation(x.Key())
		c.used.Store(s.used.UnixNano())
		e.convs[x.Key()] = c
	}
	if c.name == "" {
		c.name = s.session
	}
	return c
}

// Resume takes up what was not finished when the hub ended: turns that ran are
// closed, inputs that waited are answered. It is called when tools can be.
func (e *Engine) Resume() {
	e.mu.Lock()
	e.resumed = true
	e.mu.Unlock()
	e.takeOver(time.Now())
}

// mostSilence bounds how long nothing is heard of a conversation that waits until
// this hub tries to answer it. A hub that is at it has the lease, and one that has
// stopped has given it back; so this can be less than a lease lasts.
const mostSilence = 10 * time.Second

// takeOver answers conversations that wait for it and of which nothing was heard
// for a while.
func (e *Engine) takeOver(now time.Time) {
	e.mu.Lock()
	resumed := e.resumed
	e.mu.Unlock()
	if !resumed {
		return
	}
	for _, c := range e.all() {
		if now.Sub(time.Unix(0, c.heard.Load())) < e.silence || !c.known().busy() {
			continue
		}
		c.mu.Lock()
		looped := c.looped
		c.mu.Unlock()
		if !looped {
			c.resume()
		}
	}
}

// changed takes in what happened to a conversation, here or in another hub. It
// is called with the entity locked.
func (e *Engine) changed(x *entity, en *entry, place journal.Place) {
	if en == nil {
		e.removed(x.Key())
		return
	}
	c := e.at(x)
	c.heard.Store(time.Now().UnixNano())
	c.touch()
	c.mu.Lock()
	b := c.book
	c.mu.Unlock()
	if b == nil {
		return
	}
	theirs, late := b.hear(en, place)
	if late {
		e.catchUp(c, b)
	}
	if theirs != nil {
		c.heed(theirs)
	}
}

// catchUp reads what came and was not at hand, behind the journal's back.
func (e *Engine) catchUp(c *Conversation, b *book) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.wg.Go(func() {
		for {
			x := b.x.Lock()
			err := b.current(e.ctx)
			x.Unlock()
			if err == nil {
				return
			}
			e.opts.Logger.Warn("what another hub wrote to a conversation cannot be read yet", obs.KeySession, c.short(), obs.KeyErr, err)
			select {
			case <-time.After(time.Second):
			case <-e.ctx.Done():
				return
			}
		}
	})
}

// removed ends a conversation that is in the log no more.
func (e *Engine) removed(id string) {
	e.mu.Lock()
	c := e.convs[id]
	delete(e.convs, id)
	e.mu.Unlock()
	if c != nil {
		c.end()
	}
}

// Conversation returns the conversation of a Session; "" mints one.
func (e *Engine) Conversation(who *auth.Principal, name string) (*Conversation, error) {
	s, err := e.bind(who, name)
	if err != nil {
		return nil, err
	}
	if s != nil {
		name = s.Name()
	}
	id := session.ID(who.Name, name)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	c := e.convs[id]
	if c == nil {
		c = e.conversation(id)
		e.convs[id] = c
	}
	c.touch()
	if c.who == nil || c.who.Name == who.Name {
		c.who, c.name = who, name
	}
	return c, nil
}

func (e *Engine) bind(who *auth.Principal, name string) (*session.Session, error) {
	switch {
	case e.opts.Sessions == nil && name == "":
		return nil, fault.New(fault.SessionRequired, "chat", "name a session")
	case e.opts.Sessions == nil:
		return nil, nil
	case name == "":
		return e.opts.Sessions.Mint(who.Name), nil
	}
	return e.opts.Sessions.Bind(session.Binding{Principal: who.Name, Name: name})
}

// Drain takes no more inputs and waits until no turn runs, or ctx ends.
func (e *Engine) Drain(ctx context.Context) {
	e.mu.Lock()
	e.draining = true
	if e.running == 0 {
		e.mu.Unlock()
		return
	}
	if e.quiet == nil {
		e.quiet = make(chan struct{})
	}
	quiet := e.quiet
	e.mu.Unlock()
	select {
	case <-quiet:
	case <-ctx.Done():
	}
}

// Close interrupts what runs and waits for it. Inputs that wait are answered
// after the next Open.
func (e *Engine) Close() {
	e.mu.Lock()
	e.draining, e.closed = true, true
	e.mu.Unlock()
	e.stop(ErrClosed)
	e.wg.Wait()
	for _, c := range e.all() {
		c.put(ErrClosed)
	}
	e.journal.Close()
}

// begin counts a conversation whose turns run; it reports false if none may.
func (e *Engine) begin() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.draining {
		return false
	}
	e.running++
	e.wg.Add(1) // with mu held, so that Close waits for it
	return true
}

func (e *Engine) done() {
	defer e.wg.Done()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running--; e.running == 0 && e.quiet != nil {
		close(e.quiet)
		e.quiet = nil
	}
}

// refuse says why nothing begins.
func (e *Engine) refuse() error {
	return &fault.Error{Kind: fault.Unreachable, Subject: "chat", Msg: e.settings.Load().Texts.Maintenance, Hint: "Send it again when the hub is back."}
}

// Draining reports whether no more inputs are taken.
func (e *Engine) Draining() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.draining
}
