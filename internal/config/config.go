// Package config owns what the hub is told before it starts: its files, the
// variables and the flags that override them.
//
// It reads Stoa's own file (JSONC or YAML, strict: an unknown key is a
// problem) and the server maps of other hosts' files as they are. It promises
// that Load reports every problem of every file at once, each with its place
// and what to do (up to a bound, and of a file that cannot be parsed only the
// first); that a Config it returns is complete and checked; and that neither
// Show nor Hash tells what env, headers and variables hold. A secret written
// out in args, a URL or a raw section is recognised by the name beside it only,
// so one without such a name is shown. Keys, checks, defaults, the JSON
// Schema and docs/config.md come from the same tables (fields.go,
// serverfields.go).
//
// It starts nothing, dials nothing and watches nothing: a reload is another
// Load. A Config is not changed after Load and may be read concurrently.
package config

import (
	"encoding/json"
	"time"

	"github.com/stoahub/stoa/internal/secret"
)

// Config is the configuration in effect.
type Config struct {
	Listen       []string // host:port, checked
	Data         string   // the data folder, absolute when loaded
	TLS          TLS      // of all addresses in Listen
	SSE          bool     // serve HTTP+SSE of 2024-11-05 too
	Store        Store
	Servers      []Server // sorted by Name, Names unique
	AutoDiscover bool     // false: no server is dialled or listed until asked for
	Pool         Pool
	Auth         Auth
	Limits       Limits
	Session      Session
	Modules      Modules
	Attach       Attach
	Models       Models
	Chat         Chat
	Agents       []Agent // sorted by Name, Names unique and no server's
	Policy       Policy
	Log          Log
	Telemetry    Telemetry
	Bridge       Bridge
	Console      Console
	Sections     Sections

	trace *trace // where each value came from; nil for a Config made by hand
}

// TLS names the certificate to listen with; both are empty for plain HTTP.
type TLS struct {
	Cert, Key string // PEM files
}

// Trust says how a server at a https or wss URL is trusted.
type Trust struct {
	CA        string // PEM file of authorities; empty: the system's
	Cert, Key string // PEM files of the certificate to show; empty: none
	Insecure  bool   // trust anybody
}

// Pool says when connections to servers are closed for being idle.
type Pool struct {
	MaxIdleTime     time.Duration // 0: never
	CleanupInterval time.Duration // how often idle connections are looked for
	Max             int           // connections at once; 0: no bound
}

// Auth says who may talk to the hub.
type Auth struct {
	Required   *bool    // nil: on every listener that is not loopback
	Origins    []string // browser origins allowed besides the hub's own
	Hosts      []string // Host values allowed besides the listen addresses
	TokensFile string   // bearer tokens; empty: the data folder's own
	Local      Local    // who on this machine needs no token
	Register   []string // where agents that register themselves may be, besides where they register from
}

// Local says who on this machine needs no token.
type Local string

// The answers.
const (
	LocalOwner Local = "owner-uid" // the user whom the hub runs as, and root
	LocalOpen  Local = "open"      // every user
	LocalToken Local = "token"     // nobody
)

// Limits are the bounds of what the hub takes in.
type Limits struct {
	MessageBytes  int // one message
	Depth         int // nesting of JSON
	ArgumentBytes int // arguments after references were resolved
	CacheEntries  int // results that are kept to be reused
	CacheBytes    int // of these
	Sessions      int // legacy connections at once
	SessionIdle   time.Duration
	TaskTTL       time.Duration // from a task's beginning
	HeaderBytes   int           // the header of one HTTP request
	Connections   int           // open connections; 0: by the limit on open files
	Sockets       int           // WebSockets and streams of the chat of one principal
}

// Log says what is logged, and how.
type Log struct {
	Level  string // trace, debug, info, warn, error
	Format string // auto, text, json
	File   LogFile
}

// Telemetry says where traces go.
type Telemetry struct {
	Endpoint string                   // http or https address of an OTLP receiver; empty: nowhere
	Headers  map[string]secret.String // for every request to it
	Sample   *float64                 // the share of traces that is kept, 0 to 1; nil: all
	Service  string                   // what this hub is called in traces
}

// Console says what people who watch the hub are shown.
type Console struct {
	Exchanges bool // keep what passes while somebody watches
}

// Sections are the parts that other packages decode; here they are only
// checked to be what they should be at the top (an object, mostly). nil: not
// given.
type Sections struct {
	Plans json.RawMessage
}

// Server is one upstream as configured: either Command or URL is set.
type Server struct {
	Name  string // the slug, ^[a-z][a-z0-9-]{0,19}$
	Title string // the name as the file has it

	Command    string
	Args       []string
	Env        map[string]secret.String
	EnvFile    string
	InheritEnv InheritEnv
	Cwd        string

	URL     string
	Headers map[string]secret.String
	TLS     Trust

	Transport  Transport
	Protocol   Protocol
	Connect    time.Duration // to connect; 0: 30 s, or Timeout where a call connects
	Timeout    time.Duration // from the start of execution, reset by progress
	MaxTimeout time.Duration // in all
	Tools      Tools
	Sharing    Sharing
	Task       TaskMode
	Sampling   Sampling
	// SamplingModel is the model that answers where Sampling is by the host;
	// "" means what the server would like and is there, else the default.
	SamplingModel string
	Queue         *Queue // nil: none
	References    *bool  // nil: as the face decides
	Retries       int    // of a call that may be repeated or was not sent
	MaxSessions   int    // connections of single sessions, where each has its own
	Trust         bool   // the annotations of its tools count
	Pin           Pin    // what becomes of definitions that change
	SaveAs        *bool  // nil: as the face decides
	Cards         Cards
	Breaker       Breaker
	Idle          time.Duration // 0: never closed for being idle
	Enabled       bool
	// Wrong is why the server cannot be used; nil if it can. Only a tolerant
	// Load returns such servers.
	Wrong Problems
}

// InheritEnv says what a child process gets of the hub's environment besides
// the basic variables (PATH, HOME, ...).
type InheritEnv struct {
	All   bool
	Names []string
}

// Tools says which tools of a server are exposed; patterns are those of
// path.Match. Deny wins over Allow; an empty Allow allows all.
type Tools struct {
	Allow, Deny []string
	Override    map[string]Override // by the server's own name of the tool
}

// Queue bounds the calls that a server executes at once.
type Queue struct {
	Concurrency int
	Capacity    int
	Timeout     time.Duration // of waiting
}

// Breaker says when calls to a failing tool are refused at once.
type Breaker struct {
	Failures         int
	Window, Cooldown time.Duration
}

// Transport is how a server is reached.
type Transport string

// A server with a command is always Stdio and one with a ws:// URL always WS
// once loaded; Auto remains for http URLs whose server may be an older SSE one.
const (
	Auto  Transport = "auto"
	Stdio Transport = "stdio"
	HTTP  Transport = "http"
	SSE   Transport = "sse"
	WS    Transport = "ws"
	// Ailumina is no MCP: a WebSocket agent, which becomes a server with one tool.
	Ailumina Transport = "ailumina"
)

// Protocol is the era to speak to a server.
type Protocol string

const (
	AnyEra Protocol = "auto"
	Modern Protocol = "modern"
	Legacy Protocol = "legacy"
)

// TaskMode says when calls become durable tasks, for clients that know these.
type TaskMode string

const (
	TaskOff    TaskMode = "off"      // never
	TaskAuto   TaskMode = "auto"     // when they take longer than a moment
	TaskAlways TaskMode = "always"   // at once
	TaskMust   TaskMode = "required" // at once, and clients without the extension are refused
)

// Pin says what becomes of definitions that a server did not have at first.
type Pin string

const (
	PinAnnounce   Pin = "announce"
	PinQuarantine Pin = "quarantine"
	PinOff        Pin = "off"
)

// Sharing says whether the clients share one connection to a server.
type Sharing string

const (
	Shared     Sharing = "shared"
	PerSession Sharing = "session"
)

// Sampling says who answers where a server asks for a model.
type Sampling string

const (
	SamplingClient Sampling = "client" // the client of the call
	SamplingHost   Sampling = "host"   // the hub, by a model of its own
	SamplingOff    Sampling = "off"    // nobody
)

// Default returns the configuration of a hub that was told nothing. Its Data
// is empty: only Load knows the user's folders.
func Default() Config {
	return Config{
		Listen:       []string{"127.0.0.1:8080"},
		Store:        Store{Replicas: 1},
		AutoDiscover: true,
		Pool:         Pool{CleanupInterval: time.Minute},
		Auth:         Auth{Local: LocalOwner},
		Limits: Limits{
			MessageBytes:  10 << 20,
			Depth:         1000,
			ArgumentBytes: 8 << 20,
			CacheEntries:  4096,
			CacheBytes:    64 << 20,
			Sessions:      10_000,
			SessionIdle:   30 * time.Minute,
			TaskTTL:       time.Hour,
			HeaderBytes:   64 << 10,
			Sockets:       256,
		},
		Session:   defaultSession(),
		Modules:   defaultModules(),
		Chat:      defaultChat(),
		Agents:    defaultAgents(),
		Policy:    defaultPolicy(),
		Attach:    Attach{Launch: true, Independent: true, LaunchTimeout: 30 * time.Second},
		Telemetry: Telemetry{Service: "stoa"},
		Console:   Console{Exchanges: true},
		Log:       Log{Level: "info", Format: "auto", File: LogFile{Enabled: true, RetentionDays: 7, MaxSize: 10 << 20}},
	}
}

// DefaultServer returns what a server has that was given nothing but a name.
func DefaultServer() Server {
	return Server{
		Transport:  Auto,
		Protocol:   AnyEra,
		Timeout:    30 * time.Second,
		MaxTimeout: 10 * time.Minute,
		Retries:    1,

		MaxSessions: 32,
		Trust:       true,
		Pin:         PinAnnounce,
		Sharing:     Shared,
		Task:        TaskOff,
		Sampling:    SamplingClient,
		Cards:       Cards{Threshold: cardBytes},
		Breaker:     Breaker{Failures: 5, Window: time.Minute, Cooldown: 30 * time.Second},
		Enabled:     true,
	}
}

// Server returns the server of that name, or nil.
func (c *Config) Server(name string) *Server {
	for i := range c.Servers {
		if c.Servers[i].Name == name {
			return &c.Servers[i]
		}
	}
	return nil
}

// Lookup returns a variable as the configuration sees it: the environment
// first, then the files of --env-file, then the .env beside each file.
func (c *Config) Lookup(name string) (string, bool) {
	if c.trace == nil {
		return "", false
	}
	v, _, ok := c.trace.env.get(name)
	return v, ok
}
