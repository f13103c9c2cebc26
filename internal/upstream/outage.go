package upstream

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
)

// A server behind HTTP is restarted without a word: there is no connection whose
// end would tell. Calls notice, and wait a moment for it to come back.

const (
	comeBack  = 5 * time.Second        // how long a server that was there may be away before calls fail
	lookAgain = 100 * time.Millisecond // between attempts meanwhile
	mostLost  = 8                      // how often a call may be lost meanwhile: it may be what ends the server
)

// missed takes note of how a call found the server.
func (u *Upstream) missed(l *link, err error) {
	if u.opts.URL == "" || !l.alive() || !gone(err) {
		return // lost reports a connection that ended
	}
	if u.away.Load() {
		return // that is known
	}
	if errors.Is(err, mcp.ErrNotSent) {
		u.mu.Lock()
		if u.links[l.key] == l && !u.closed {
			u.away.Store(true)
			u.failed, u.leftAt = err, time.Now() // also if it went before its lists were read
			u.setState(Failed, err)
		}
		u.mu.Unlock()
	}
	// Whether it is there, and has what it had, is found out by reading its lists.
	if u.primary(l) && !u.retired.Load() {
		u.markDirty(catalog.Tool, catalog.Prompt, catalog.Resource, catalog.Template)
	}
}

// back takes note that the server has answered a call. What was wrong with it is
// over, though its lists are still to be read.
func (u *Upstream) back(l *link) {
	if u.away.Load() {
		u.wake()
	}
	known := u.cat.Now().Of(u.opts.Name)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.links[l.key] != l || u.closed || u.state != Failed || !gone(u.failed) {
		return
	}
	u.away.Store(false)
	u.failed = nil
	if u.opts.Lazy || known != nil && !known.Unconfirmed {
		u.setState(Connected, nil)
	} else {
		u.setState(Connecting, nil)
	}
}

// answers waits until a server over HTTP that has lost a call answers again, and
// reports whether it does: it may be on its way out, or connections to it that
// were open may all be dead. What it answers does not matter.
func (u *Upstream) answers(ctx context.Context, o *mcp.Outgoing, c Call) bool {
	if u.opts.URL == "" {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, u.patience(c))
	defer cancel()
	for {
		l, err := u.link(ctx, o.Client, o.Asked.Session)
		if err == nil {
			var resp mcp.Response
			resp, err = u.ask(ctx, l, &mcp.Outgoing{Method: map[mcp.Era]string{mcp.Legacy: "ping", mcp.Modern: "server/discover"}[l.key.era]})
			resp.Release()
			l.release()
		}
		if !errors.Is(err, mcp.ErrLost) && !errors.Is(err, mcp.ErrNotSent) && !fault.Is(err, fault.Unreachable) || errors.Is(err, mcp.ErrSessionLost) {
			return ctx.Err() == nil
		}
		pause := time.NewTimer(lookAgain)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return false
		}
	}
}

// patience is how long a call waits for a server that is away.
func (u *Upstream) patience(c Call) time.Duration {
	most := min(comeBack, u.opts.Timeout)
	if c.Timeout > 0 {
		most = min(most, c.Timeout)
	}
	return most
}

// returning waits a little if the server was there not long ago, and reports
// whether it is worth another attempt.
func (u *Upstream) returning(ctx context.Context, c Call, began time.Time) bool {
	if u.opts.URL == "" {
		return false
	}
	u.mu.Lock()
	left := u.leftAt
	u.mu.Unlock()
	most := u.patience(c)
	if left.IsZero() || time.Since(left) > most || time.Since(began) > most {
		return false
	}
	pause := time.NewTimer(lookAgain)
	defer pause.Stop()
	select {
	case <-pause.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// losses counts how often the server lost calls. Those that ran side by side
// when it went were lost once.
type losses struct{ last atomic.Int64 }

// counts reports whether the loss of a call that began then is a new one.
func (l *losses) counts(began time.Time) bool {
	last := l.last.Load()
	return began.UnixNano() > last && l.last.CompareAndSwap(last, time.Now().UnixNano())
}
