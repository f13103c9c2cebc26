package chatws

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/policy"
)

// Options bound a Host. A zero value means what stands beside it.
type Options struct {
	Heartbeat    time.Duration // between pings; twice that without a sign of life ends a socket; 30 s
	WriteTimeout time.Duration // for a client to take one frame; 30 s
	MessageBytes int           // of a frame or a body; 1 MiB
	Rate         float64       // frames of a socket, or POSTs of a principal, a second; 5
	Burst        float64       // of them at once; 10
	Connections  int           // sockets and streams of one principal; 256
	Local        int           // of all on this machine who need no token, who are one principal; as many as Connections

	// Degraded names the upstreams that a principal could use and that do not
	// work now; nil means that nobody knows of any.
	Degraded func(who *auth.Principal) []Degraded

	Logger *slog.Logger // nil discards
}

func (o *Options) defaults() {
	for _, d := range []struct {
		field *int
		value int
	}{{&o.MessageBytes, 1 << 20}, {&o.Connections, 256}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = 30 * time.Second
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = 30 * time.Second
	}
	if o.Rate == 0 {
		o.Rate = 5
	}
	if o.Burst == 0 {
		o.Burst = 10
	}
	if o.Degraded == nil {
		o.Degraded = func(*auth.Principal) []Degraded { return nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Host serves conversations: sockets by Socket, and by Post, Show, Approve and
// Abort those who have none. An error that one of these four returns is for the
// client, to whom nothing has been written.
type Host struct {
	engine *chat.Engine
	desk   *policy.Desk
	opts   Options
	gate   *gate
	posts  posters
}

// New returns a Host of the conversations of engine.
func New(engine *chat.Engine, desk *policy.Desk, opts Options) *Host {
	opts.defaults()
	return &Host{engine: engine, desk: desk, opts: opts, gate: newGate(opts.Connections, opts.Local), posts: posters{rate: opts.Rate, burst: opts.Burst}}
}

// Bound changes Connections and Local. Who is connected stays.
func (h *Host) Bound(each, local int) { h.gate.bound(each, local) }

// Connections returns who is connected, the longest first.
func (h *Host) Connections() []Connection { return h.gate.list() }

// Close tells all clients that the hub stops: they are sent off, to come back
// later, and nobody is let in any more. Turns go on. It may be called more than
// once.
func (h *Host) Close() { h.gate.close() }

// Wait waits until all clients have gone after Close, or ctx ends.
func (h *Host) Wait(ctx context.Context) { h.gate.wait(ctx) }

// attend says that somebody is there to be asked in a conversation, if they may
// answer.
func (h *Host) attend(who *auth.Principal, conv *chat.Conversation) (leave func()) {
	if !who.Has(auth.RightApprove) {
		return func() {}
	}
	return h.desk.Attend(who.Name, conv.Name())
}

// decide answers an approval.
func (h *Host) decide(who *auth.Principal, q request) error {
	return h.desk.Decide(who, q.ID, policy.Decision{
		Approve: q.Decision != sayDeny, Args: q.Args, Remember: policy.Remember(q.Remember), Reason: q.Reason,
	})
}

// texts are the fixed ones, which a reload of the config may change.
func (h *Host) texts() chat.Texts { return h.engine.Texts() }

// limited reports whether an error means that too much was sent.
func limited(f *fault.Error) bool { return f.Kind == fault.Limit || f.Kind == fault.QueueFull }

// Route adds the addresses to a mux. face lets clients of the MCP faces in,
// and api those who may use the API; say answers with a fault.
func (h *Host) Route(mux *http.ServeMux, face, api func(auth.Handler) http.Handler, say func(http.ResponseWriter, *http.Request, error)) {
	mux.Handle("/ws", face(h.Socket))
	for pattern, f := range map[string]func(http.ResponseWriter, *http.Request, *auth.Principal) error{
		"GET /api/chat":           h.List,
		"POST /api/chat":          h.Post,
		"POST /api/chat/approve":  h.Approve,
		"POST /api/chat/abort":    h.Abort,
		"POST /api/chat/reply":    h.Reply,
		"GET /api/chat/{session}": h.Show,
	} {
		mux.Handle(pattern, api(func(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
			if err := f(w, r, who); err != nil {
				say(w, r, err)
			}
		}))
	}
}
