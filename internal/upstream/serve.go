package upstream

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// serve starts what a new connection needs. The connection that no client has
// for itself also tells of changes.
func (u *Upstream) serve(ctx context.Context, l *link) {
	u.wg.Go(func() {
		<-l.conn.Done()
		u.lost(l)
	})
	u.raiseBeside(ctx, l, &l.wg)
	if !u.primary(l) {
		close(l.ready)
		return
	}
	missed := func() { u.markDirty(catalog.Tool, catalog.Prompt, catalog.Resource, catalog.Template) }
	if l.key.era == mcp.Modern {
		close(l.ready)
		l.wg.Go(func() { u.listen(ctx, l, missed) })
		return
	}
	l.wg.Go(func() { u.replay(ctx, l) })
	h, ok := l.conn.(*mcp.HTTPConn)
	if !ok {
		close(l.ready)
		missed()
		return
	}
	open := sync.OnceFunc(func() { close(l.ready) })
	late := time.AfterFunc(openTime, func() {
		open()
		missed()
	})
	h.Hear(reopenAfter, func() {
		late.Stop()
		open()
		missed()
	})
}

// openTime is how long a server may take to open the stream on which it tells
// of changes, and on which many a server asks during a call, before it is used
// without. What it says before the stream is open is lost.
const openTime = 2 * time.Second

func reopenAfter(attempt int) time.Duration {
	b := newBackoff()
	d := b.Next()
	for range min(attempt, 20) {
		d = b.Next()
	}
	return d
}

// primary reports whether l is the connection that lists and listens.
func (u *Upstream) primary(l *link) bool {
	return l.key.client == "" && (l.key.era == mcp.Modern || !u.Eras().Has(mcp.Modern))
}

// replay subscribes a new legacy connection to what was subscribed to before.
func (u *Upstream) replay(ctx context.Context, l *link) {
	u.mu.Lock()
	uris := make([]string, 0, len(u.subs))
	for uri := range u.subs {
		if strings.HasPrefix(uri, taskMark) {
			continue // the era has none
		}
		uris = append(uris, uri)
	}
	u.mu.Unlock()
	for _, uri := range uris {
		if err := u.tellSubscribed(ctx, l, "resources/subscribe", uri); err != nil && ctx.Err() == nil {
			u.health("subscription", "the subscription to %s could not be renewed: %v", uri, err)
		}
	}
}

func (u *Upstream) tellSubscribed(ctx context.Context, l *link, method, uri string) error {
	ctx, cancel := context.WithTimeout(ctx, u.opts.Timeout)
	defer cancel()
	params := append(append([]byte(`{"uri":`), wire.Quote(uri)...), '}')
	resp, err := u.ask(ctx, l, &mcp.Outgoing{Method: method, Raw: params, Fields: wire.Members(params)})
	if err != nil {
		return err
	}
	if resp.Error != nil {
		return &mcp.Rejected{Object: append([]byte(nil), resp.Error...)}
	}
	return nil
}

// Subscribe makes updates of a resource come to the pool's Hear, until as many
// Unsubscribes have followed.
func (u *Upstream) Subscribe(ctx context.Context, uri string) error {
	u.mu.Lock()
	u.subs[uri]++
	first := u.subs[uri] == 1
	u.subsGen++
	u.mu.Unlock()
	if !first {
		return nil
	}
	if err := u.changeSubscription(ctx, "resources/subscribe", uri); err != nil {
		u.dropSubscription(uri)
		return err
	}
	return nil
}

// taskMark begins what is kept in place of a URI for a task that somebody
// follows.
const taskMark = "\x00task "

// FollowTask makes changes of a task of the upstream come to the pool's Hear,
// until as many LeaveTasks have followed.
func (u *Upstream) FollowTask(ctx context.Context, id string) error {
	if !u.Eras().Has(mcp.Modern) {
		return fault.New(fault.InvalidParams, u.opts.Name, "the upstream tells nothing of tasks")
	}
	return u.Subscribe(ctx, taskMark+id)
}

// LeaveTask undoes one FollowTask.
func (u *Upstream) LeaveTask(id string) { u.Leave(taskMark + id) }

// Unsubscribe undoes one Subscribe.
func (u *Upstream) Unsubscribe(ctx context.Context, uri string) error {
	if !u.dropSubscription(uri) {
		return nil
	}
	return u.changeSubscription(ctx, "resources/unsubscribe", uri)
}

// Leave is Unsubscribe for callers that have nobody to tell how it went.
func (u *Upstream) Leave(uri string) {
	u.background(func() {
		ctx, cancel := context.WithTimeout(u.ctx, 5*time.Second)
		defer cancel()
		if err := u.Unsubscribe(ctx, uri); err != nil && u.ctx.Err() == nil {
			u.opts.Logger.Debug("unsubscribe", "upstream", u.opts.Name, "err", err)
		}
	})
}

// background runs f unless the upstream is closed; closing it waits for f.
func (u *Upstream) background(f func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.closed {
		u.wg.Go(f)
	}
}

func (u *Upstream) dropSubscription(uri string) (last bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.subs[uri]--; u.subs[uri] > 0 {
		return false
	}
	delete(u.subs, uri)
	u.subsGen++
	return true
}

func (u *Upstream) changeSubscription(ctx context.Context, method, uri string) error {
	l, err := u.link(ctx, nil, "")
	if err != nil {
		return err
	}
	defer l.release()
	if l.key.era == mcp.Modern {
		u.relisten(ctx, l)
		return nil
	}
	return u.tellSubscribed(ctx, l, method, uri)
}

// note takes a notification of the server that belongs to no request.
func (u *Upstream) note(method string, params []byte) {
	switch method {
	case mcp.NoteToolsChanged, mcp.NotePromptsChanged, mcp.NoteResourcesChanged:
		u.pool.onAside(u.opts.Name, mcp.Aside{Method: method, Params: params})
	}
	switch method {
	case mcp.NoteToolsChanged:
		u.said(catalog.Which{Tools: true})
		u.markDirty(catalog.Tool)
	case mcp.NotePromptsChanged:
		u.said(catalog.Which{Prompts: true})
		u.markDirty(catalog.Prompt)
	case mcp.NoteResourcesChanged:
		u.said(catalog.Which{Resources: true})
		u.markDirty(catalog.Resource, catalog.Template)
	default:
		u.pool.tell(u.opts.Name, method, mcp.Untag(params))
	}
}

// said remembers that the server spoke of a change.
func (u *Upstream) said(w catalog.Which) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.spoken.Tools = u.spoken.Tools || w.Tools
	u.spoken.Prompts = u.spoken.Prompts || w.Prompts
	u.spoken.Resources = u.spoken.Resources || w.Resources
}

func (u *Upstream) markDirty(kinds ...catalog.Kind) {
	u.mu.Lock()
	for _, k := range kinds {
		u.dirty[k] = true
	}
	u.mu.Unlock()
	u.wake()
}
