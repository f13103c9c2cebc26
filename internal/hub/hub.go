// Package hub is the composition root: it opens everything, serves it on the
// configured addresses, and closes it in order. It is the only package that
// imports the world, so nothing but the command line and the public API may
// import it.
package hub

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/exchange"
	"github.com/stoahub/stoa/internal/gateway"
	"github.com/stoahub/stoa/internal/incident"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/llm/models"
	"github.com/stoahub/stoa/internal/lobby"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/router"
	"github.com/stoahub/stoa/internal/sample"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/upstream"
	"github.com/stoahub/stoa/internal/viewer"
)

// Options say what to open.
type Options struct {
	Config *config.Config
	Logger *slog.Logger // nil discards
	// Logs is what to log with, in place of Logger; the hub writes its files
	// from when it holds its data folder until it closes. nil means one of its
	// own over Logger.
	Logs *obs.Logs
	// Version is what the hub says that it is; "" means mcp.Release.
	Version string
	// Temporary hubs have no data folder: they keep nothing, take no lock and
	// tell nobody where they are.
	Temporary bool
	// Bind takes the addresses before anything is started, so that a hub that
	// cannot have them disturbs nothing. Without it, Run does.
	Bind bool
	// Ready is called once, when the hub listens on all its addresses; nil
	// means that nobody wants to know.
	Ready func(addresses []string)
	// Environ is the environment that processes of upstreams may inherit
	// from; nil means that of this process.
	Environ []string
	// BodyTimeout is the time for the body of a request to arrive; 0 means
	// that of mcp.EndpointOptions.
	BodyTimeout time.Duration
}

// Hub is a running hub.
type Hub struct {
	version     string
	started     time.Time
	id          string // by which hubs know each other
	process     string // of this one among all that have the id
	before      string // see dataDir
	cfg         *config.Config
	log         *slog.Logger
	logs        *obs.Logs
	data        *dataDir // nil in a temporary hub
	shared      *shared  // nil: this hub shares no secrets with others
	tokens      auth.Verifier
	lobby       *lobby.Lobby
	tellsUsers  bool          // the system says which user of this machine calls
	signIns     *auth.SignIns // nil without a data folder
	codes       auth.Codes
	tickets     auth.Tickets
	cat         *catalog.Catalog
	pool        *upstream.Pool
	state       state
	events      *event.Bus
	exchanges   *exchange.Ring
	book        *incident.Book
	offers      offers
	viewers     *viewer.Gallery
	tracer      *obs.Tracer // nil: no traces
	metrics     *obs.Metrics
	gateway     *gateway.Gateway
	router      *router.Router
	connections *mcp.Sessions
	cluster     cluster
	endpoint    *mcp.Endpoint
	door        *call.Door
	desk        *policy.Desk
	board       *policy.Board // nil: no other hub's desk is known
	modelRules  atomic.Pointer[modelRules]
	pins        pins
	models      atomic.Pointer[models.Set]
	asks        *http.Client // by which models are asked
	sampling    *sample.Host
	tasks       *call.Tasks
	chat        chatHost
	plans       plans
	lists       catalogBook
	last        lastLists
	learned     learned
	peers       peers
	switches    *journal.Values[hubSwitch] // for all Sessions that say nothing
	web         webDebug
	environ     []string // Options.Environ
	ready       readiness
	listens     func(addresses []string) // Options.Ready

	agents registered

	current   atomic.Pointer[config.Config] // since the first reload
	refused   atomic.Pointer[[]refusal]     // what is wrong with the files as they are now; nil: nothing
	reloading sync.Mutex
	polls     atomic.Int32 // requests that wait for events
	attending atomic.Int32 // requests that wait for approvals
	unread    atomic.Int64 // when it was last told that the tokens cannot be read, in Unix nanoseconds

	mu        sync.Mutex
	built     built
	addresses []string
	bound     []net.Listener
	closed    bool
	wg        sync.WaitGroup
	closers   []func() // what Close does, in the order of opening
}

// Open opens a hub. Upstreams begin to connect at once; nothing is served
// before Run.
func Open(opts Options) (*Hub, error) {
	h := &Hub{started: time.Now().UTC(), version: cmp.Or(opts.Version, mcp.Release), cfg: opts.Config, listens: opts.Ready, environ: opts.Environ}
	for _, step := range []func(Options) error{h.openGround, h.openDomain, h.openFaces, h.openChat, h.openPlans, h.begin} {
		if err := step(opts); err != nil {
			h.Close()
			return nil, err
		}
	}
	return h, nil
}

// opened remembers how to close what was opened.
func (h *Hub) opened(close func()) { h.closers = append(h.closers, close) }

// openGround opens what everything stands on: the log, the data folder, the
// metrics and the store.
func (h *Hub) openGround(opts Options) (err error) {
	if err := h.takeLogs(opts); err != nil {
		return err
	}
	h.openEvents()
	h.id = rand.Text()
	h.process = h.id
	if !opts.Temporary {
		if h.data, err = openData(h.cfg.Data, h.log); err != nil {
			return err
		}
		h.opened(h.data.close)
		h.id, h.process, h.before = h.data.hub, h.data.process, h.data.before
		if h.data.tightened {
			h.log.Warn("other users could write to the data folder; now they cannot", obs.KeyAction, "open", "data", h.cfg.Data)
		}
		h.data.cert, h.data.version = h.cfg.TLS.Cert, h.version
	}
	if opts.Bind {
		h.opened(h.unbind)
		if err := h.bind(); err != nil {
			return err
		}
	}
	h.writeLogs()
	h.opened(func() {
		h.log.Info("hub has stopped", obs.KeyAction, "stop")
		h.logs.Close()
	})
	if h.metrics, err = obs.New(); err != nil {
		return fmt.Errorf("open metrics: %w", err)
	}
	h.opened(func() {
		if err := h.metrics.Close(); err != nil {
			h.log.Warn("close metrics", obs.KeyErr, err)
		}
	})
	if err := h.openTracer(); err != nil {
		return err
	}
	h.opened(h.closeState) // also if it is half open
	if err := h.openState(); err != nil {
		return err
	}
	if err := h.openPrincipals(); err != nil {
		return err
	}
	return h.keepErrors()
}

// openDomain opens what calls pass through.
func (h *Hub) openDomain(Options) error {
	key := h.signingKey()
	h.cat = catalog.New(50 * time.Millisecond)
	h.cat.Panicked(func(v any, stack []byte) {
		h.log.Error("telling of a new list stumbled", obs.KeyAction, "list", obs.KeyErr, v, "stack", string(stack))
	})
	h.cat.Watch(h.catalogChanged)
	h.cat.Watch(func(changed []catalog.Change) { h.lists.note(h.cat.Now(), changed, time.Now()) })
	h.pool = upstream.Open(h.cat, upstream.PoolOptions{Hub: h.id, Process: h.process, Key: key, Max: h.cfg.Pool.Max, Sweep: h.cfg.Pool.CleanupInterval, Alone: h.cfg.Limits.SessionIdle, OnState: h.upstreamState, OnHealth: h.upstreamHealth,
		OnAsk:   func(upstream string, o *mcp.Outgoing) func(mcp.Response, error) { return h.door.Own(upstream, o) },
		OnAside: func(upstream string, a mcp.Aside) { h.door.Aside(upstream, a) }})
	h.opened(func() {
		h.cat.Close()
		h.pool.Close()
		h.wg.Wait()
		h.built.close()
	})
	if err := h.openPolicy(); err != nil {
		return err
	}
	if err := h.openPins(); err != nil {
		return err
	}
	if err := h.openLastLists(); err != nil {
		return err
	}
	if err := h.openLearned(); err != nil {
		return err
	}
	if err := h.openModels(); err != nil {
		return err
	}
	h.openSampling()
	h.openLobby()
	h.door = call.New(call.Options{Process: h.process, Metrics: h.metrics, Events: h.events, Raw: h.exchanges, Book: h.book, Tracer: h.tracer, Sessions: h.state.sessions, Key: key, ArgBytes: h.cfg.Limits.ArgumentBytes,
		CacheEntries: h.cfg.Limits.CacheEntries, CacheBytes: h.cfg.Limits.CacheBytes,
		Desk: h.desk, Rules: hubRules(h.cfg), Principal: h.principal, Leads: h.leads, Registrant: h.agents.owner, Gone: h.gone()})
	h.door.LogTo(h.logger("call"))
	h.door.RuleAgents(h.agentRules)
	h.pool.Hear(h.door.Heard)
	if err := h.openTasks(); err != nil {
		return err
	}
	h.state.sessions.Watch(h.sessionEvent)
	h.state.sessions.Watch(func(c session.Change) {
		if c.Ended {
			h.pool.EndSession(c.Session.Principal(), c.Session.Name())
		}
	})
	h.forgetEnded()
	return nil
}

// openFaces opens what clients come to.
func (h *Hub) openFaces(opts Options) error {
	h.gateway = gateway.Open(h.cat, h.pool, h.door, h.tasks, h.state.sessions)
	h.router = router.Open(h.cat, h.pool, h.door, h.tasks)
	h.connections = mcp.NewSessions(h.cfg.Limits.Sessions, h.cfg.Limits.SessionIdle)
	if err := h.openCluster(); err != nil {
		return err
	}
	h.endpoint = mcp.NewEndpoint(mcp.EndpointOptions{
		MessageBytes: h.cfg.Limits.MessageBytes, Depth: h.cfg.Limits.Depth, BodyTimeout: opts.BodyTimeout,
		Sessions: h.connections, Keep: h.keep(), Recall: h.recall, Deleted: h.deleted, Panicked: h.panicked, Witness: h.door,
	})
	h.opened(func() {
		h.endpoint.Close()
		h.connections.Close()
		h.tasks.Close() // while upstreams can be told
		h.gateway.Close()
		h.router.Close()
	})
	h.measure()
	return h.openSwitches()
}

// begin starts what runs: the upstreams and the modules. Tasks that were under
// way wait for Run.
func (h *Hub) begin(Options) error {
	servers := h.options(h.cfg)
	h.recallLists(h.cfg, servers)
	for _, o := range servers {
		if _, err := h.pool.Add(o); err != nil {
			return err
		}
	}
	h.offerModules(h.cfg)
	if err := h.setModules(h.cfg); err != nil {
		return err
	}
	if err := h.setAgents(nil, offered(h.cfg)); err != nil {
		return err
	}
	if err := h.openRegistered(); err != nil {
		return err
	}
	if v, ok := h.tokens.(*verifier); ok {
		v.tokens.OnFirstUse(h.startAfresh)
	}
	if h.data == nil {
		h.tasks.Resume() // nothing was left, but what comes must go
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.opened(cancel)
	h.opened(h.web.close)
	h.wg.Go(func() { h.sweep(ctx) })
	h.wg.Go(func() { h.followPlans(ctx) })
	return nil
}

// sweep ends sessions that nobody uses any more.
func (h *Hub) sweep(ctx context.Context) {
	t := time.NewTicker(30 * time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			h.connections.Sweep()
			h.prolong(ctx)
		}
	}
}

// Gateway is the merged face.
func (h *Hub) Gateway() mcp.Handler { return h.gateway }

// Stateful is the merged face of the Session of that name, where results can be
// kept.
func (h *Hub) Stateful(session string) mcp.Handler { return h.gateway.Stateful(session) }

// ServePipe serves the Session of that name on a pair of streams, to whoever
// started this process. Requests that run when in ends have the grace to end.
func (h *Hub) ServePipe(ctx context.Context, in io.Reader, out io.Writer, session string, grace time.Duration) error {
	return mcp.ServePipe(ctx, in, out, auth.Local, h.Stateful(session), mcp.PipeOptions{
		MessageBytes: h.cfg.Limits.MessageBytes, Depth: h.cfg.Limits.Depth, Grace: grace, Panicked: h.panicked, Witness: h.door,
	})
}

// Events tells of what happens.
func (h *Hub) Events() *event.Bus { return h.events }

// Upstreams returns the status of every upstream that is offered on the merged
// face.
func (h *Hub) Upstreams() []upstream.Status {
	return h.statuses(auth.Local, func(string) bool { return true })
}

// listed are the servers that somebody may know of.
func (h *Hub) listed(who *auth.Principal) []upstream.Status {
	return h.statuses(who, func(server string) bool { return h.knowsOf(who, server) })
}

// knowsOf reports whether somebody may know of a server: who can see it, or could
// switch it on for all.
func (h *Hub) knowsOf(who *auth.Principal, server string) bool {
	return who.Scopes.Allows(server) && (who.Has(auth.RightSettings) || h.door.Sees(actor.API, who, server))
}

// statuses leaves out what is served by itself only: that is no server, and has
// nothing that could fail to be reached.
func (h *Hub) statuses(who *auth.Principal, pass func(server string) bool) []upstream.Status {
	out := []upstream.Status{}
	for _, u := range h.pool.All() {
		if !u.Builtin() && !u.Unlisted() && pass(u.Name()) {
			out = append(out, h.shownTo(who, u.Status()))
		}
	}
	return out
}

// Addresses returns where the hub listens, once it does.
func (h *Hub) Addresses() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.addresses...)
}
