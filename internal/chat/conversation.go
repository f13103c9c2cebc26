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

	// These are guarded by the engine's mu. busy says that the log has
	// something unfinished, said that it has anything at all, and then holder
	// is the principal whose it is, if that is known without reading it.
	who    *auth.Principal
	name   string
	busy   bool
	said   bool
	holder string
	began  time.Time // when the first thing was said

	opening sync.Mutex // held while the book is read
	replies replies
	calls   calls

	mu     sync.Mutex
	book   *book                   // nil: not in memory
	users  int                     // of book
	looped bool                    // somebody answers the inputs
	turn   string                  // the one that cancel is of; empty until it has begun
	early  bool                    // the next turn is aborted
	cancel context.CancelCauseFunc // of the turn
	over   error                   // why it can be used no more
}

var (
	errAborted = errors.New("the turn was aborted")
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
	if err := b.load(ctx); err != nil {
		return nil, fmt.Errorf("read the conversation: %w", err)
	}
	if err := b.mend(ctx); err != nil {
		return nil, fmt.Errorf("close what a hub left open in the conversation: %w", err)
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
	if _, memory := b.ledger.(*remembered); memory && why == nil {
		c.mu.Unlock()
		return // there is no other place for it
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
	return &book{id: id, log: e.opts.Logger, every: e.every, crowd: e.crowd, ledger: e.ledgers(id)}
}

// State returns what the conversation has come to.
func (c *Conversation) State() (State, error) {
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
	b.write.Lock()
	defer b.write.Unlock()
	b.mu.Lock()
	before := b.state.keyed(in.Key)
	waiting := len(b.state.Queue)
	if b.state.Turn == nil && waiting > 0 {
		waiting-- // it begins at once
	}
	b.mu.Unlock()
	switch {
	case in.Key != "" && before != nil:
		return *before, nil
	case waiting >= s.Queue:
		return Event{}, &fault.Error{Kind: fault.Limit, Subject: "chat", Msg: s.Texts.RateLimited, Hint: fmt.Sprintf("%d messages wait already; wait until one is answered.", waiting)}
	}
	if err := b.flush(ctx); err != nil {
		return Event{}, err
	}
	ev := Event{Type: InputAdded, Input: &in}
	if err := b.append(ctx, &ev); err != nil {
		return Event{}, err
	}
	c.noteSaid(&ev)
	c.work()
	return ev, nil
}

// noteSaid takes note that something was said, and whose the conversation is.
func (c *Conversation) noteSaid(first *Event) {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if !c.said {
		c.said, c.holder, c.began = true, first.Input.Principal, first.Time
	}
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
	a, err := c.e.agentFor(who, in.Agent)
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

// Abort ends the turn of that name ("" means the one that runs), and takes back
// the inputs that wait if queued says so. It does not wait until it has ended.
func (c *Conversation) Abort(turn string, queued bool) (aborted bool, err error) {
	if queued {
		if aborted, err = c.drop(); err != nil {
			return aborted, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel == nil || c.book == nil {
		return aborted, nil
	}
	c.book.mu.Lock()
	runs, waiting := "", len(c.book.state.Queue) > 0
	if t := c.book.state.Turn; t != nil {
		runs = t.ID
	}
	c.book.mu.Unlock()
	switch {
	case turn != "" && turn != runs, runs == "" && !waiting:
		return aborted, nil
	case runs == "" && c.turn != "":
		// The turn before has ended and the next one not begun.
		c.early = true
	default:
		c.cancel(errAborted)
	}
	return true, nil
}

// drop takes back the inputs that wait.
func (c *Conversation) drop() (dropped bool, err error) {
	b, err := c.take(c.e.ctx)
	if err != nil {
		return false, err
	}
	defer c.free()
	b.write.Lock()
	defer b.write.Unlock()
	if err := b.flush(c.e.ctx); err != nil {
		return false, err
	}
	for _, in := range b.now().Queue {
		if err := b.append(c.e.ctx, &Event{Type: InputDropped, Input: &Input{ID: in.ID}}); err != nil {
			return dropped, err
		}
		dropped = true
	}
	return dropped, nil
}
