package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// listen keeps a subscriptions/listen stream open on a modern connection. Over
// HTTP, a stream with another filter is opened before the one before it is
// closed, so that nothing is missed between them. On a pipe it is the other
// way round, since servers are known that keep one stream for the whole pipe.
// missed is called when something may have been missed.
func (u *Upstream) listen(ctx context.Context, l *link, missed func()) {
	var on *hearing // what is open
	defer func() { on.close() }()
	for attempt := 0; ctx.Err() == nil; {
		params, uris, gen := u.wanted(l)
		if params == nil {
			on.close()
			on = nil
			l.heard.reach(gen)
			missed()
			select {
			case <-l.listen:
				continue
			case <-ctx.Done():
				return
			}
		}
		if on.alive() && bytes.Equal(on.params, params) {
			// Somebody subscribed while it was being opened.
			l.heard.reach(gen)
			if u.follow(ctx, l, on, gen, true, missed) {
				continue
			}
		}
		var deaf []string // resources whose updates nobody hears meanwhile
		if _, pipe := l.conn.(*mcp.PipeConn); pipe && on != nil {
			deaf = on.uris
			on.close()
			on = nil
		}
		next := u.hear(ctx, l, params)
		next.uris = uris
		opened := next.awaitOpen(ctx)
		covered := on.alive()
		on.close()
		on = next
		if opened {
			l.heard.reach(gen)
			u.updated(deaf)
		}
		if !covered && (opened || attempt == 0) {
			missed()
		}
		if u.follow(ctx, l, on, gen, opened, missed) {
			continue
		}
		if ctx.Err() == nil && opened {
			missed() // to find out whether the server is gone too
		}
		if time.Since(next.began) > 5*time.Second {
			attempt = 0 // it works, and something on the way ends streams
		}
		select {
		case <-time.After(reopenAfter(attempt)):
		case <-ctx.Done():
		}
		attempt++
	}
}

// follow waits until the stream ends. It reports whether to open another at
// once, because something else is wanted now.
func (u *Upstream) follow(ctx context.Context, l *link, on *hearing, gen int, opened bool, missed func()) (again bool) {
	late := on.opened
	if opened {
		late = nil
	}
	for {
		select {
		case <-late:
			late = nil
			l.heard.reach(gen)
			missed()
		case <-on.ended:
			return false
		case <-l.listen:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// updated tells those who subscribed that they should read again: an update
// that nobody needed does no harm, one that was missed does.
func (u *Upstream) updated(uris []string) {
	for _, uri := range uris {
		u.pool.tell(u.opts.Name, mcp.NoteResourceUpdated, append(append([]byte(`{"uri":`), wire.Quote(uri)...), '}'))
	}
}

// wanted is what to listen for on l, as params, nil if nothing, with the
// resources in it, and up to which change of the subscriptions it goes.
func (u *Upstream) wanted(l *link) (params []byte, uris []string, gen int) {
	f := mcp.Filter{
		Tools:     l.hello.CanDo("tools", "listChanged"),
		Prompts:   l.hello.CanDo("prompts", "listChanged"),
		Resources: l.hello.CanDo("resources", "listChanged"),
	}
	u.mu.Lock()
	for uri := range u.subs {
		if id, ok := strings.CutPrefix(uri, taskMark); ok {
			f.Tasks = append(f.Tasks, id)
			continue
		}
		f.URIs = append(f.URIs, uri)
	}
	gen = u.subsGen
	u.mu.Unlock()
	slices.Sort(f.URIs)
	slices.Sort(f.Tasks)
	if !f.Tools && !f.Prompts && !f.Resources && len(f.URIs) == 0 && len(f.Tasks) == 0 {
		return nil, nil, gen
	}
	b, err := json.Marshal(map[string]any{"notifications": f})
	if err != nil {
		return nil, nil, gen
	}
	return b, f.URIs, gen
}

// relisten makes the listen stream of l follow the subscriptions as they are
// now, and waits until it does, so that who subscribed misses nothing. A
// server that does not say so in time is believed to listen.
func (u *Upstream) relisten(ctx context.Context, l *link) {
	u.mu.Lock()
	gen := u.subsGen
	u.mu.Unlock()
	select {
	case l.listen <- struct{}{}:
	default:
	}
	late := time.NewTimer(2 * time.Second)
	defer late.Stop()
	for {
		ok, changed := l.heard.at(gen)
		if ok {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			return
		case <-l.conn.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// hearing is one subscriptions/listen under way.
type hearing struct {
	began  time.Time
	params []byte
	uris   []string
	cancel context.CancelFunc
	opened chan struct{} // closed when the server has acknowledged it
	ended  chan struct{}
}

func (u *Upstream) hear(ctx context.Context, l *link, params []byte) *hearing {
	h := &hearing{began: time.Now(), params: params, opened: make(chan struct{}), ended: make(chan struct{})}
	ctx, h.cancel = context.WithCancel(ctx)
	go func() {
		defer close(h.ended)
		resp, _ := u.ask(ctx, l, &mcp.Outgoing{Method: "subscriptions/listen", Raw: params, Fields: wire.Members(params), Stream: &acknowledged{opened: h.opened, u: u}, Tasks: bytes.Contains(params, []byte(`"taskIds"`))})
		resp.Release()
	}()
	return h
}

// awaitOpen reports whether the stream opened in time.
func (h *hearing) awaitOpen(ctx context.Context) bool {
	late := time.NewTimer(openTime)
	defer late.Stop()
	select {
	case <-h.opened:
		return true
	case <-h.ended:
	case <-late.C:
	case <-ctx.Done():
	}
	return false
}

// alive reports whether the stream is open; one that is not there is not.
func (h *hearing) alive() bool {
	if h == nil {
		return false
	}
	select {
	case <-h.ended:
		return false
	default:
		return true
	}
}

func (h *hearing) close() {
	if h != nil {
		h.cancel()
		<-h.ended
	}
}

// acknowledged is the Stream of a subscriptions/listen. Changes come by
// another way; what comes here says that it is open.
type acknowledged struct {
	once   sync.Once
	opened chan struct{}
	u      *Upstream
}

func (a *acknowledged) Notify(method string, params []byte) {
	a.u.pool.onAside(a.u.opts.Name, mcp.Aside{Method: method, Params: params})
	a.once.Do(func() { close(a.opened) })
}
func (a *acknowledged) Flush()       {}
func (a *acknowledged) CanAsk() bool { return false }
func (a *acknowledged) Ask(ctx context.Context, method string, params []byte) (mcp.Response, error) {
	return mcp.Discard.Ask(ctx, method, params)
}

// reached is a number that grows and can be waited for.
type reached struct {
	mu      sync.Mutex
	n       int
	changed chan struct{}
}

func (r *reached) reach(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n = max(r.n, n); r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// at reports whether n was reached, and what is closed when more is.
func (r *reached) at(n int) (bool, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.n >= n, r.changed
}

var _ mcp.Stream = (*acknowledged)(nil)
