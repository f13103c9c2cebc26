package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/session"
)

// Conversation is the conversation of one Session. There is one of each
// Session, however many watch it.
type Conversation struct {
	e    *Engine
	id   string
	used atomic.Int64 // unix nanoseconds of the last sign of life

	heard atomic.Int64 // unix nanoseconds of when the journal last reported something, or was asked in vain to have it answered

	// These are guarded by the engine's mu. whose is what only opening the
	// conversation told; see key.
	who   *auth.Principal
	name  string
	whose Key

	opening sync.Mutex // held while the book is read
	replies replies
	calls   calls

	mu     sync.Mutex
	book   *book                   // nil: not in memory
	users  int                     // of book
	looped bool                    // this hub answers the inputs, or tries to
	trying bool                    // it does not answer yet: another hub may
	again  bool                    // something was said since it began to
	stuck  bool                    // it stumbled, and does not try again by itself
	turn   string                  // the one that cancel is of; empty until it has begun
	early  bool                    // the next turn is aborted
	cancel context.CancelCauseFunc // of the turn
	over   error                   // why it can be used no more
}

var (
	errAborted = errors.New("the turn was aborted")
	errBefore  = errors.New("an input of that key was taken before")
)

func (e *Engine) conversation(id string) *Conversation { return &Conversation{e: e, id: id} }

// Name is that of the Session.
func (c *Conversation) Name() string {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	return c.name
}

// short tells the conversation from others in the log.
func (c *Conversation) short() string { return obs.Short(cmp.Or(c.Name(), c.id)) }

func (c *Conversation) owner() (*auth.Principal, string) {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	return c.who, c.name
}

func (c *Conversation) touch() { c.used.Store(time.Now().UnixNano()) }

// take returns the book, reading it if it is not in memory; free gives it back.
func (c *Conversation) take(ctx context.Context) (*book, error) {
	c.touch()
	if b, err := c.held(); b != nil || err != nil {
		return b, err
	}
	c.opening.Lock()
	defer c.opening.Unlock()
	if b, err := c.held(); b != nil || err != nil {
		return b, err
	}
	b := c.e.book(c.id)
	if _, err := b.x.Latest(ctx); err != nil {
		return nil, fmt.Errorf("read the conversation: %w", err)
	}
	// With the entity locked nothing comes in between what is read and what the
	// journal reports to the book.
	x := b.x.Lock()
	defer x.Unlock()
	if err := b.read(ctx); err != nil {
		return nil, fmt.Errorf("read the conversation: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over != nil {
		return nil, c.over
	}
	c.book = b
	c.users++
	return b, nil
}

func (c *Conversation) held() (*book, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over != nil {
		return nil, c.over
	}
	if c.book != nil {
		c.users++
	}
	return c.book, nil
}

func (c *Conversation) free() {
	c.touch() // before it is out of hand: then nothing of it changes any more
	c.mu.Lock()
	c.users--
	c.mu.Unlock()
}

// put gives the memory back, for good if there is a reason why.
func (c *Conversation) put(why error) {
	c.mu.Lock()
	b := c.book
	if why != nil && c.over == nil {
		c.over = why
	}
	if b == nil || why == nil && c.users > 0 {
		c.mu.Unlock()
		return
	}
	c.book = nil
	c.mu.Unlock()
	if why != nil {
		b.finish(why)
		return
	}
	b.idle()
}

func (e *Engine) book(id string) *book {
	return &book{id: id, log: e.opts.Logger, every: e.every, slow: e.slow, crowd: e.crowd, x: e.journal.At(id)}
}

// State returns what the conversation has come to, also in other hubs.
func (c *Conversation) State() (State, error) {
	b, err := c.take(c.e.ctx)
	if err != nil {
		return State{}, err
	}
	defer c.free()
	if err := b.latest(c.e.ctx); err != nil {
		c.e.opts.Logger.Debug("whether others wrote to a conversation is not known", obs.KeySession, c.short(), obs.KeyErr, err)
	}
	return b.now(), nil
}

func (c *Conversation) state() (State, error) {
	b, err := c.take(c.e.ctx)
	if err != nil {
		return State{}, err
	}
	defer c.free()
	return b.now(), nil
}

// Next returns the events after a position, at most max (0 means 64), and the
// position after them. It waits until there is one, ctx ends, or nothing more
// can come. Durable events come in their order, each once; at the end there may
// be Live ones. Whoever comes late gets what it missed of a part with the part.
func (c *Conversation) Next(ctx context.Context, pos Position, max int) ([]Event, Position, error) {
	b, err := c.take(ctx)
	if err != nil {
		return nil, pos, err
	}
	defer c.free()
	return b.next(ctx, pos, max)
}

// Send takes an input. It is durable when Send returns, and answered after
// those before it. The same key again gives the event of the first time.
func (c *Conversation) Send(ctx context.Context, in Input) (Event, error) {
	s := c.e.settings.Load()
	if err := c.admit(ctx, &in, s); err != nil {
		return Event{}, err
	}
	b, err := c.take(ctx)
	if err != nil {
		return Event{}, err
	}
	defer c.free()
	var before *Event
	ev := Event{Type: InputAdded, Input: &in}
	err = b.recordIf(ctx, &ev, func(now *State) error {
		waiting := len(now.Queue)
		if now.Turn == nil && waiting > 0 {
			waiting-- // it begins at once
		}
		switch before = now.keyed(in.Key); {
		case in.Key != "" && before != nil:
			return errBefore
		case waiting >= s.Queue:
			return &fault.Error{Kind: fault.Limit, Subject: "chat", Msg: s.Texts.RateLimited, Hint: fmt.Sprintf("%d messages wait already; wait until one is answered.", waiting)}
		}
		return nil
	})
	switch {
	case errors.Is(err, errBefore):
		return *before, nil
	case err != nil:
		return Event{}, err
	}
	c.retry()
	return ev, nil
}

// Before returns how many inputs are answered before that of an id, the one
// included whose turn runs. It is 0 if that one does not wait.
func (c *Conversation) Before(id string) int {
	b, err := c.held()
	if b == nil || err != nil {
		return 0 // nothing runs
	}
	defer c.free()
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.IndexFunc(b.state.Queue, func(in Input) bool { return in.ID == id })
	if at >= 0 && b.state.Turn != nil {
		return at + 1
	}
	return max(at, 0)
}

// admit checks an input and fills in what the log says of it.
func (c *Conversation) admit(ctx context.Context, in *Input, s *Settings) error {
	if c.e.Draining() {
		return c.e.refuse()
	}
	switch n := len(in.Text); {
	case n == 0 && in.FileID == "":
		return &fault.Error{Kind: fault.InvalidParams, Subject: "text", Msg: "the message is empty", Hint: "Say something."}
	case n > s.InputBytes:
		return &fault.Error{Kind: fault.TooLarge, Subject: "text", Msg: fmt.Sprintf("the message has %d bytes, and may have %d", n, s.InputBytes), Hint: "Say less, or upload it as a file."}
	case len(in.Key) > 200:
		return &fault.Error{Kind: fault.InvalidParams, Subject: "key", Msg: "the key is longer than 200 bytes", Hint: "Use a shorter one."}
	}
	who, name := c.owner()
	a, err := c.e.agentFor(actor.New(actor.Chat, who), name, in.Agent)
	if err != nil {
		return err
	}
	in.ID, in.Agent, in.Principal, in.Session = "", a.Name, who.Name, name
	if in.Correlation == "" {
		in.Correlation = obs.Correlation(in.Trace)
	}
	if in.Actor == nil || in.Actor.Principal != who.Name {
		in.Actor = actor.New(actor.Chat, who).Record()
	}
	if in.FileID == "" {
		in.File = ""
		return nil
	}
	in.File, err = c.e.attach(ctx, who, name, in.FileID)
	return err
}

// attach returns what the model is told of a file.
func (e *Engine) attach(ctx context.Context, who *auth.Principal, name, id string) (string, error) {
	if e.opts.Attach == nil {
		return "", fault.New(fault.InvalidParams, "fileId", "this hub takes no files")
	}
	var s *session.Session
	if e.opts.Sessions != nil && name != "" {
		var err error
		if s, err = e.bind(who, name); err != nil {
			return "", err
		}
	}
	return e.opts.Attach(ctx, who, id, s)
}
