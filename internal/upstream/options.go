package upstream

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/guard"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/pin"
)

// Options describe one upstream. One of Command, URL and Handler is set.
type Options struct {
	Name  string
	Title string // the name as people wrote it

	Command string
	Args    []string
	Env     []string // the whole environment of the process
	Dir     string

	URL    string
	Header http.Header // sent with every request
	Way    Way         // how URL is spoken to
	TLS    *tls.Config // nil means the usual rules
	// Control may refuse the addresses that URL is dialled at; nil allows all.
	// It does not hold for WebSockets.
	Control mcp.Control

	Handler mcp.Handler // a module in this process
	Via     string      // how Handler reaches what it stands for, in the status; "" means that it stands for itself
	Agent   bool        // it may call back into the hub, and is told in which call
	// Unlisted upstreams are served by themselves only, not on the merged face.
	Unlisted bool
	Builtin  bool // the module is a part of the hub: its names are offered as they are, and it is no agent

	Era        mcp.Era       // the only era to speak; 0 means to find out
	Timeout    time.Duration // for an answer, from the start of execution; progress extends it; 0 means 30 s
	MaxTimeout time.Duration // for an answer, whatever progress says; 0 means 10 min
	Linger     time.Duration // for calls that run when it is replaced or taken out; 0 means 10 s
	Retries    *int          // how often a request is sent again where that does no harm; nil means once
	Probe      time.Duration // for the answer to the first modern request; 0 means 10 s: a program has to start first, and a busy server is no old one
	Connect    time.Duration // for the handshake; 0 means 30 s
	PerSession bool          // one connection per client connection, and per Session of those without
	Most       int           // connections of clients for themselves, with PerSession; 0 means 32
	Filter     catalog.Filter
	Pins       *pin.Server                 // judges its definitions before anybody sees them; nil: they are the hub's own, or nobody wants that
	Distrust   bool                        // where they are not judged: annotations do not count
	Override   map[string]catalog.Override // by the upstream's own names of tools
	Hide       func(string) string         // the text of an error without secrets; nil: as it is
	// Handling says how a tool, by the upstream's own name, is treated; nil
	// means as by default.
	Handling func(tool string) catalog.Handling
	Breaker  guard.Options
	Queue    *Queue
	Idle     time.Duration // close a connection that is unused for so long; 0 means never
	Lazy     bool          // do nothing until asked
	Sampling *Sampling     // answers where the server asks for a model; nil leaves that to the client of the call
	Last     *Last         // what it offered when the hub ran before; nil for nothing
	Keep     func(*Last)   // is given what it offers each time all of that was read; nil: nobody keeps it
	Unusable error         // why it cannot be dialled at all; it is then shown, and fails, without being tried

	MessageBytes int
	Logger       *slog.Logger
}

// Way is a transport to a server at a URL.
type Way uint8

const (
	AnyHTTP    Way = iota // streamable HTTP, or HTTP+SSE if the server is so old that it has only that
	Streamable            // streamable HTTP
	SSE                   // HTTP+SSE
	WebSocket
)

// Queue limits the calls that an upstream runs at once.
type Queue struct {
	Concurrency int
	Capacity    int           // how many may wait
	Timeout     time.Duration // how long one may wait; 0 means 30 s
}

func (o *Options) defaults() {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&o.Timeout, 30*time.Second)
	set(&o.MaxTimeout, 10*time.Minute)
	if o.Most == 0 {
		o.Most = 32
	}
	set(&o.Probe, 10*time.Second)
	set(&o.Connect, 30*time.Second)
	if o.Queue != nil {
		set(&o.Queue.Timeout, 30*time.Second)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Nests reports whether other calls may come of calls to the upstream.
func (u *Upstream) Nests() bool { return u.opts.Agent || u.opts.Builtin || u.opts.Queue != nil }

// Handling is how a tool, by the upstream's own name, is treated.
func (u *Upstream) Handling(tool string) catalog.Handling {
	if u.opts.Handling == nil {
		return catalog.Handling{}
	}
	return u.opts.Handling(tool)
}

// Builtin reports whether the upstream is a part of the hub.
func (u *Upstream) Builtin() bool { return u.opts.Builtin }

// Unlisted reports whether the upstream is served by itself only.
func (u *Upstream) Unlisted() bool { return u.opts.Unlisted }

// Lazy reports whether the upstream is dialled only when it is asked for.
func (u *Upstream) Lazy() bool { return u.opts.Lazy }

// State is where an upstream stands.
type State string

const (
	Disconnected State = "disconnected" // not dialled, or closed because it was idle
	Connecting   State = "connecting"
	Connected    State = "connected"
	Failed       State = "error"
	// Misconfigured servers cannot be used before somebody changes their config,
	// or installs their program.
	Misconfigured State = "misconfigured"
)

// Down reports whether the upstream was tried and cannot be used.
func (s State) Down() bool { return s == Failed || s == Misconfigured }
