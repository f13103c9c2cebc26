package chatws

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
)

// The kinds of a Connection.
const (
	kindSocket = "chat"   // a WebSocket of a conversation
	kindStream = "stream" // a request that is answered with the events of a conversation
	kindAgent  = "agent"  // a WebSocket of an agent
)

// Connection is a client that is connected.
type Connection struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind"`
	Principal string    `json:"principal"`
	Session   string    `json:"session,omitempty"` // of its conversation
	Agent     string    `json:"agent,omitempty"`   // that it talks to
	UserAgent string    `json:"userAgent,omitempty"`
	Since     time.Time `json:"connectedAt"`
	Active    time.Time `json:"lastActiveAt"` // the last sign of life
}

const maxUserAgent = 200

// visit is a client while it is connected.
type visit struct {
	g       *gate
	about   Connection // without Session and Active
	session atomic.Pointer[string]
	link    atomic.Pointer[link] // nil for streams
	once    sync.Once
}

// at says which conversation the client is at.
func (v *visit) at(session string) { v.session.Store(&session) }

func (v *visit) now() Connection {
	c := v.about
	if s := v.session.Load(); s != nil {
		c.Session = *s
	}
	c.Active = c.Since
	if l := v.link.Load(); l != nil {
		c.Active = time.Unix(0, l.heard.Load()).UTC()
	}
	return c
}

// gate counts those who are connected, each principal's for itself, and tells
// them when the hub stops.
type gate struct {
	each, local atomic.Int64 // how many of a principal, and of those who need no token here

	ctx     context.Context // ends when the hub stops
	end     context.CancelFunc
	closing <-chan struct{} // of ctx

	mu     sync.Mutex
	open   map[string]int // by the name of the principal
	visits map[*visit]bool
	wg     sync.WaitGroup
}

func newGate(each, local int) *gate {
	g := &gate{open: map[string]int{}, visits: map[*visit]bool{}}
	g.bound(each, local)
	g.ctx, g.end = context.WithCancel(context.Background())
	g.closing = g.ctx.Done()
	return g
}

// bound changes how many may be connected. Those who are stay.
func (g *gate) bound(each, local int) {
	g.each.Store(int64(each))
	g.local.Store(int64(max(each, local)))
}

// errClosing refuses those who come when the hub stops.
var errClosing = fault.New(fault.Unreachable, "", "the hub is stopping")

// enter lets one in, who leaves when it goes. If there are too many, or the hub
// is stopping, that is the error.
func (g *gate) enter(r *http.Request, who *auth.Principal, kind, agent string) (*visit, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx.Err() != nil {
		return nil, errClosing
	}
	most, whose := int(g.each.Load()), fmt.Sprintf("%q", who.Name)
	if who.Name == auth.LocalName {
		most, whose = int(g.local.Load()), "clients of this machine"
	}
	if g.open[who.Name] >= most {
		f := fault.New(fault.Limit, "", "%d connections of %s to the chat are open, which is as many as may be (limits.sockets)", most, whose)
		f.Hint = "Close one that is not needed any more, or have the hub's owner raise limits.sockets."
		return nil, f.With("limit", most)
	}
	g.open[who.Name]++
	g.wg.Add(1)
	client := r.UserAgent()
	client = strings.ToValidUTF8(client[:min(len(client), maxUserAgent)], "")
	v := &visit{g: g, about: Connection{ID: strings.ToLower(rand.Text()[:12]), Kind: kind, Principal: who.Name, Agent: agent, UserAgent: client, Since: time.Now().UTC()}}
	g.visits[v] = true
	return v, nil
}

// leave takes a client out.
func (v *visit) leave() {
	v.once.Do(func() {
		g, name := v.g, v.about.Principal
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.visits, v)
		if g.open[name]--; g.open[name] == 0 {
			delete(g.open, name)
		}
		g.wg.Done()
	})
}

// list returns who is connected, the longest first.
func (g *gate) list() []Connection {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]Connection, 0, len(g.visits))
	for v := range g.visits {
		out = append(out, v.now())
	}
	slices.SortFunc(out, func(a, b Connection) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.ID, b.ID))
	})
	return out
}

// close tells everybody to go, and lets nobody in any more.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.end()
}

// wait waits until all have gone or ctx ends.
func (g *gate) wait(ctx context.Context) {
	gone := make(chan struct{})
	go func() {
		g.wg.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-ctx.Done():
	}
}
