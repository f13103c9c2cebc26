package upstream

import (
	"context"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// Hello returns how the upstream introduces itself to such a client in a Session,
// connecting if needed.
func (u *Upstream) Hello(ctx context.Context, c *mcp.Client, session string) (*mcp.Hello, error) {
	l, err := u.link(ctx, c, session)
	if err != nil {
		return nil, err
	}
	defer l.release()
	return l.hello, nil
}

// Known returns how the upstream has introduced itself on the connection that
// lists, or nil.
func (u *Upstream) Known() *mcp.Hello {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, l := range u.links {
		if u.primary(l) {
			return l.hello
		}
	}
	return nil
}

// Failure is why the upstream cannot be used, as a client is told it; nil while it
// can, or is only being reached.
func (u *Upstream) Failure(c *mcp.Client) *fault.Error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.failed == nil || !u.state.Down() && u.state != Connecting {
		return nil
	}
	return u.unreachable(u.failed, c)
}

// WantLevel is SetLevel behind the caller's back, on the connections that are
// open now; later ones follow by themselves.
func (u *Upstream) WantLevel(level string) {
	rank := mcp.LogRank(level)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.level != 0 && rank+1 >= u.level || u.closed {
		return
	}
	u.level = rank + 1
	for _, l := range u.links {
		u.raiseBeside(u.ctx, l, &u.wg)
	}
}

// raiseBeside is raise beside what else is done. Calls that come later wait for
// it: a client that asks for messages gets those of its next call.
func (u *Upstream) raiseBeside(ctx context.Context, l *link, running *sync.WaitGroup) {
	if l.key.era != mcp.Legacy || !l.hello.Can("logging") {
		return
	}
	done := make(chan struct{})
	l.levelling.Store(&done)
	running.Go(func() {
		defer func() {
			l.levelling.CompareAndSwap(&done, nil)
			close(done)
		}()
		if err := u.raise(ctx, l); err != nil && ctx.Err() == nil {
			u.health("logging", "the log level could not be set: %v", err)
		}
	})
}

// levelTime is how long calls wait for a server that is told its log level. One
// that never answers this may answer all else.
const levelTime = 2 * time.Second

// whenLevelled waits until the server has been told the log level.
func whenLevelled(ctx context.Context, l *link) {
	done := l.levelling.Load()
	if done == nil {
		return
	}
	late := time.NewTimer(levelTime)
	defer late.Stop()
	select {
	case <-*done:
	case <-late.C:
	case <-l.conn.Done():
	case <-ctx.Done():
	}
}

// want notes that somebody wants to see messages of that level.
func (u *Upstream) want(level string) {
	rank := mcp.LogRank(level)
	u.mu.Lock()
	defer u.mu.Unlock()
	if rank >= 0 && (u.level == 0 || rank+1 < u.level) {
		u.level = rank + 1
	}
}

// SetLevel asks the upstream to log at least as much as level. A shared
// connection is set to the most that any client asked for; who asked for less
// is given less.
func (u *Upstream) SetLevel(ctx context.Context, c *mcp.Client, session, level string) error {
	u.want(level)
	l, err := u.link(ctx, c, session)
	if err != nil {
		return err
	}
	defer l.release()
	return u.raise(ctx, l)
}

// raise sets the log level of a legacy connection to what is wanted, if that
// is more than it has.
func (u *Upstream) raise(ctx context.Context, l *link) error {
	u.mu.Lock()
	want := u.level
	u.mu.Unlock()
	if l.key.era != mcp.Legacy || !l.hello.Can("logging") || want == 0 {
		return nil
	}
	if has := int(l.level.Load()); has != 0 && has <= want {
		return nil
	}
	params := append(append([]byte(`{"level":`), wire.Quote(mcp.LogLevel(want-1))...), '}')
	ctx, cancel := context.WithTimeout(ctx, u.opts.Timeout)
	defer cancel()
	resp, err := u.ask(ctx, l, &mcp.Outgoing{Method: "logging/setLevel", Raw: params, Fields: wire.Members(params)})
	if err != nil {
		return u.fault(ctx, &mcp.Outgoing{Method: "logging/setLevel"}, err)
	}
	if resp.Error != nil {
		return &mcp.Rejected{Object: append([]byte(nil), resp.Error...)}
	}
	l.level.Store(int32(want))
	return nil
}
