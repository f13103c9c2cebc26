package chat

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/session"
)

// sweepEvery is how often conversations are looked at for those that are over.
const sweepEvery = 15 * time.Second

func (e *Engine) sweeps() {
	tick := time.NewTicker(min(sweepEvery, e.silence/4, max(e.opts.Idle/2, time.Millisecond)))
	defer tick.Stop()
	var last, tried time.Time
	for {
		select {
		case <-e.ctx.Done():
			return
		case now := <-tick.C:
			if now.Sub(tried) >= e.silence/4 {
				tried = now
				e.takeOver(now)
			}
			if now.Sub(last) < sweepEvery {
				e.rest(now)
				continue
			}
			last = now
			e.Sweep(e.ctx, now)
		}
	}
}

// rest gives back the memory of conversations that nobody uses.
func (e *Engine) rest(now time.Time) {
	for _, c := range e.all() {
		if now.Sub(time.Unix(0, c.used.Load())) > e.opts.Idle {
			c.put(nil)
		}
	}
}

// errUsed means that a conversation is not over: another hub uses it.
var errUsed = errors.New("the conversation is used")

// Sweep gives back the memory of conversations that nobody uses, and forgets
// those that are over at the given time. A conversation lives as long as its
// Session; if the Session holds nothing else, as long as it is used itself.
func (e *Engine) Sweep(ctx context.Context, now time.Time) {
	kept := map[string]bool{}
	expire := e.opts.Expire
	if e.opts.Sessions != nil {
		if expire == 0 {
			expire = e.opts.Sessions.Timeout()
		}
		for _, s := range e.opts.Sessions.All(func(string) bool { return true }) {
			kept[s.ID()] = true
		}
	}
	for _, c := range e.all() {
		unused := now.Sub(time.Unix(0, c.used.Load()))
		if expire > 0 && unused > expire && !kept[c.id] && c.unused() {
			err := c.forgetIf(ctx, func(s summary) error {
				if s.busy() || now.Sub(s.used) <= expire {
					return errUsed
				}
				return nil
			})
			if err != nil && ctx.Err() == nil && !errors.Is(err, errUsed) {
				e.opts.Logger.Warn("a conversation that is over could not be forgotten yet", obs.KeySession, c.short(), obs.KeyErr, err)
				if fault.Is(err, fault.Storage) {
					return // nor can the others
				}
			}
		}
	}
	e.rest(now)
}

func (e *Engine) all() []*Conversation {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]*Conversation, 0, len(e.convs))
	for _, c := range e.convs {
		out = append(out, c)
	}
	return out
}

// unused reports whether nobody has the conversation in hand.
func (c *Conversation) unused() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.users == 0 && !c.looped
}

// sessionChanged forgets the conversation of a Session that is over.
func (e *Engine) sessionChanged(ch session.Change) {
	if !ch.Ended {
		return
	}
	e.mu.Lock()
	c := e.convs[ch.Session.ID()]
	closed := e.closed
	if c != nil && !closed {
		e.wg.Add(1) // with mu held, so that Close waits for it
	}
	e.mu.Unlock()
	if c == nil || closed {
		return
	}
	go func() {
		defer e.wg.Done()
		if err := c.forget(e.ctx); err != nil && e.ctx.Err() == nil {
			e.opts.Logger.Warn("the conversation of a session that is over could not be forgotten yet", obs.KeySession, c.short(), obs.KeyErr, err)
		}
	}()
}

// CatchUp takes in what other hubs have written until now.
func (e *Engine) CatchUp(ctx context.Context) error { return e.journal.Current(ctx, time.Now()) }

// Forget ends the conversations of a principal and removes all that was said, also
// at another hub just now.
func (e *Engine) Forget(ctx context.Context, principal string) error {
	if err := e.CatchUp(ctx); err != nil {
		return err
	}
	for _, c := range e.all() {
		if who, _ := c.owner(); who == nil || who.Name != principal {
			if st, err := c.Peek(); err != nil || st.Principal != principal {
				continue // it is over, or another's
			}
		}
		if err := c.Forget(ctx); err != nil {
			return fmt.Errorf("forget a conversation: %w", err)
		}
	}
	return nil
}

// Forget ends the conversation and removes all that was said.
func (c *Conversation) Forget(ctx context.Context) error { return c.forget(context.WithoutCancel(ctx)) }

// forget ends what runs, tells who watches, and removes the log. The next
// Conversation of the Session is a new one.
func (c *Conversation) forget(ctx context.Context) error {
	return c.forgetIf(ctx, nil)
}

// forgetIf is forget unless unless says why not, of what is known when the log
// is removed.
func (c *Conversation) forgetIf(ctx context.Context, unless func(summary) error) error {
	x := c.e.journal.At(c.id)
	if _, err := x.Latest(ctx); err != nil {
		return err // it stays known, and the next sweep tries again
	}
	if unless == nil {
		c.end() // so that nothing is written meanwhile
	}
	if err := x.Remove(ctx, unless); err != nil {
		return err
	}
	c.end()
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if c.e.convs[c.id] == c {
		delete(c.e.convs, c.id)
	}
	return nil
}

// end ends the conversation for who uses it.
func (c *Conversation) end() {
	c.mu.Lock()
	if c.over == nil {
		c.over = ErrEnded
	}
	b := c.book
	if c.cancel != nil {
		c.cancel(errAborted)
	}
	c.mu.Unlock()
	if b != nil {
		b.end(ErrEnded)
	}
}
