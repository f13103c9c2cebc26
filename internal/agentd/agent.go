package agentd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/task"
)

// Options say what to serve.
type Options struct {
	Manifest    string                      // the file
	Env         func(string) (string, bool) // variables for the manifest, and AGENT_CONCURRENCY; nil means those of the process
	Environ     []string                    // what commands may inherit; nil means the environment of the process
	Router      string                      // the hub's address, by which commands find other agents unless Environ says it; "" for none
	Concurrency int                         // wins over the manifest; 0 means its own
	Reaper      []string                    // the command that calls Reap; none means that commands outlive an agent that is killed
	Version     string                      // what the agent says that it is; "" means mcp.Release
	Logger      *slog.Logger                // nil discards
	Traces      obs.TraceOptions            // where spans of what is run go; Service is the agent's name if it is not said
}

// Agent serves a manifest. It is an mcp.Handler.
type Agent struct {
	opts     Options
	log      *slog.Logger
	environ  []string
	offer    atomic.Pointer[offer]
	queue    *task.Queue
	patience time.Duration
	reaper   *reaper
	tracer   *obs.Tracer // nil: no traces
	audience mcp.Audience
	watch    watch

	ctx    context.Context // ends everything that runs
	cancel context.CancelFunc
	mu     sync.Mutex // guards closed and adding to wg
	closed bool
	wg     sync.WaitGroup
}

// Open reads the manifest and begins to follow its changes. The error may be
// config.Problems.
func Open(o Options) (*Agent, error) {
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	o.Version = cmp.Or(o.Version, mcp.Release)
	a := &Agent{opts: o, log: o.Logger, environ: o.Environ}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if a.environ == nil {
		a.environ = os.Environ()
	}
	a.environ = routed(a.environ, o.Router)
	first, err := read(o.Manifest, o.Env)
	if err != nil {
		return nil, err
	}
	n, err := concurrency(o, first.m)
	if err != nil {
		return nil, err
	}
	a.offer.Store(first)
	a.queue, a.patience = task.New(n, first.m.Queue.Capacity), first.m.Queue.Timeout
	a.log = a.log.With(obs.KeyAgent, first.m.Name)
	o.Traces.Service, o.Traces.Version = cmp.Or(o.Traces.Service, first.m.Name), o.Version
	o.Traces.Failed = func(err error) { a.log.Warn("traces cannot be sent", obs.KeyAction, "export", obs.KeyErr, err) }
	if a.tracer, err = obs.OpenTracer(o.Traces); err != nil {
		return nil, err
	}
	a.tell(first)
	a.ctx, a.cancel = context.WithCancel(context.Background())
	a.reaper = startReaper(o.Reaper, a.log)
	a.follow()
	return a, nil
}

// concurrency is how many commands may run at once: as the command line says,
// the manifest, or the environment.
func concurrency(o Options, m *config.Manifest) (int, error) {
	said, ok := o.Env("AGENT_CONCURRENCY")
	if o.Concurrency > 0 {
		return o.Concurrency, nil
	}
	if !ok || said == "" || m.Said("/queue/concurrency") {
		return m.Queue.Concurrency, nil
	}
	n, err := strconv.Atoi(said)
	if err != nil || n < 1 || n > 10_000 {
		return 0, config.Problems{{File: "env AGENT_CONCURRENCY", Text: fmt.Sprintf("%q is no number of commands", said), Hint: "allowed: 1 to 10000"}}
	}
	return n, nil
}

func (a *Agent) tell(o *offer) {
	for _, note := range o.notes() {
		a.log.Warn("a command cannot be run", "text", note)
	}
}

// Close ends what runs and waits for it.
func (a *Agent) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.cancel()
	a.wg.Wait()
	a.reaper.close()
	a.tracer.Close()
}

// begin counts a call in, unless the agent is closed; end counts it out.
func (a *Agent) begin() (end func(), ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, false
	}
	a.wg.Add(1)
	return a.wg.Done, true
}

// Name is how the agent calls itself.
func (a *Agent) Name() string { return a.offer.Load().m.Name }

// Status is how its queue stands.
func (a *Agent) Status() task.Status { return a.queue.Status() }

// Reload reads the manifest again. One that is wrong is refused as a whole.
func (a *Agent) Reload() error {
	a.watch.mu.Lock()
	defer a.watch.mu.Unlock()
	next, err := read(a.opts.Manifest, a.opts.Env)
	if err != nil {
		if text := err.Error(); text != a.watch.refused { // said once
			a.watch.refused = text
			a.refuse(err)
		}
		return err
	}
	a.watch.refused = ""
	before := a.offer.Load()
	if next.m.Queue != before.m.Queue {
		a.log.Warn("the queue changes when the agent is started again", obs.KeyAction, "reload")
	}
	a.offer.Store(next)
	notes := next.changed(before)
	for _, note := range notes {
		a.audience.Tell(note, func(*mcp.Listener) bool { return true })
	}
	if len(notes) > 0 {
		a.log.Info("manifest changed", obs.KeyAction, "reload", "tools", len(next.tools), "resources", len(next.resources), "prompts", len(next.prompts))
		a.tell(next)
	}
	a.watch.arrange(a)
	return nil
}

// refuse tells why a manifest does not take effect.
func (a *Agent) refuse(err error) {
	log := a.log.With(obs.KeyAction, "reload")
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		log.Warn("manifest refused; the one before stays in effect", obs.KeyErr, err)
	}
	for _, p := range problems {
		log.Warn("manifest refused; the one before stays in effect", "file", p.File, "line", p.Line, "text", p.Text, "hint", p.Hint)
	}
}

// Handle answers one request.
func (a *Agent) Handle(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	if req.IsNote {
		return mcp.Response{}, nil
	}
	end, ok := a.begin()
	if !ok {
		return mcp.Response{}, fault.New(fault.Cancelled, a.Name(), "the agent is ending")
	}
	defer end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(a.ctx, func() { cancel(fault.New(fault.Cancelled, a.Name(), "the agent is ending")) })()
	o := a.offer.Load()
	switch req.Method {
	case "initialize", "server/discover":
		const caps = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true}}`
		return mcp.Introduce(req.Client, []byte(caps), mcp.ServerInfo(o.m.Name, cmp.Or(o.m.Title, o.m.Name)), o.m.Instructions)
	case "tools/list", "resources/list", "resources/templates/list", "prompts/list":
		if c := req.Param("cursor"); c != nil && string(c) != "null" {
			return mcp.Response{}, fault.New(fault.InvalidParams, req.Method, "no list of this agent goes on, so there is no such cursor")
		}
		if req.Method == "tools/list" && req.Client.Era == mcp.Legacy {
			return answer(req, o.legacy)
		}
		return answer(req, o.lists[req.Method])
	case "tools/call":
		return a.call(ctx, req)
	case "resources/read":
		return a.read(ctx, req)
	case "prompts/get":
		return a.prompt(req)
	}
	return mcp.Response{}, fault.New(fault.UnknownMethod, "", "method %q is not offered here", req.Method)
}

// queued does work when it is the request's turn. Who asked for progress is
// told its place.
func (a *Agent) queued(ctx context.Context, req *mcp.Request, work func(context.Context) (ok bool, err error)) error {
	t := task.Ticket{Flow: call.Flow(req)}
	p, err := task.ParsePriority(metaText(req, call.MetaPriority))
	if err != nil {
		return fault.New(fault.InvalidParams, call.MetaPriority, "%v", err)
	}
	t.Priority = p
	// A command may call agents through the hub, and they this one: such a call
	// must not wait for the command that it comes of. The chain cannot be checked
	// here, but who makes one up gains no more than a turn.
	if chain := call.ReadChain(metaText(req, call.MetaChain)); len(chain) > 0 {
		t.Call, t.Above = chain[len(chain)-1], chain[:len(chain)-1]
	}
	if req.Token != nil {
		t.Moved = func(place int) {
			req.Stream.Notify(mcp.NoteProgress, mcp.Waiting(req.Token, a.Name(), place))
			req.Stream.Flush()
		}
	}
	slot, err := a.queue.Await(ctx, a.Name(), a.patience, t)
	if err != nil {
		return err
	}
	done := false
	defer func() { slot.Leave(done) }()
	done, err = work(ctx)
	return err
}

// Attach registers a listener.
func (a *Agent) Attach(l *mcp.Listener) (stop func()) {
	a.audience.Add(l)
	return func() {
		a.watch.change(a, func(uris map[string]bool) {
			for _, uri := range a.audience.Remove(l) {
				delete(uris, uri)
			}
		})
	}
}

// Subscribe adds a resource to what l hears of. Only files tell of changes.
func (a *Agent) Subscribe(_ context.Context, l *mcp.Listener, uri string) error {
	r, vars := a.offer.Load().find(uri)
	if r == nil {
		return unknownResource(uri)
	}
	if r.path(vars) == "" {
		return &fault.Error{Kind: fault.InvalidParams, Subject: uri, Msg: "it is the output of a command, which tells nobody when it changes", Hint: "Read it again when it is needed."}
	}
	a.watch.change(a, func(uris map[string]bool) {
		a.audience.Subscribe(l, uri, uri)
		uris[uri] = true
	})
	return nil
}

// Unsubscribe removes it.
func (a *Agent) Unsubscribe(_ context.Context, l *mcp.Listener, uri string) error {
	a.watch.change(a, func(uris map[string]bool) {
		if a.audience.Unsubscribe(l, uri) {
			delete(uris, uri)
		}
	})
	return nil
}

var _ mcp.Handler = (*Agent)(nil)
