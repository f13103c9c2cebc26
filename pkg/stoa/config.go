package stoa

import (
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/secret"
)

// Config says what a hub is made of. The zero value is a hub without servers.
type Config struct {
	Servers []Server
	// AutoDiscover connects to every server in Open and reads what it offers.
	// Without it a server is dialled when it is first used.
	AutoDiscover bool
	// Wait is how long Open waits for servers with AutoDiscover; those that
	// are not ready then go on connecting. 0 means 10 s, less means not at all.
	Wait   time.Duration
	Pool   Pool
	Logger *slog.Logger // nil discards

	// Token guards Handler: every request must carry it as a bearer token.
	// Without one Handler serves this machine only.
	Token   string
	Hosts   []string // values of Host that Handler allows besides loopback ones
	Origins []string // browser origins that Handler allows besides loopback ones

	base *config.Config // what LoadConfig read besides
}

// Pool says when connections to servers are closed, and how many there may be.
type Pool struct {
	MaxIdle time.Duration // close a connection unused for so long; 0 means 5 min, less means never
	Sweep   time.Duration // how often idle ones are looked for; 0 means 1 min
	Max     int           // connections at once, that to the program's own tools among them; 0 means no bound
}

// Server is one MCP server: a program to run or a URL to call.
type Server struct {
	ID string // its name; lower case letters, digits and dashes are kept, the rest becomes a dash

	Command string
	Args    []string
	Env     []string // NAME=value, besides PATH, HOME, USER, LOGNAME, SHELL, TERM, LANG and TMPDIR of this process
	Dir     string   // the folder it runs in; empty means that of this process

	URL     string
	Headers map[string]string // sent with every request to URL

	Timeout    time.Duration // for an answer; progress extends it; 0 means 30 s
	MaxTimeout time.Duration // for an answer, whatever progress says; 0 means 10 min
	Allow      []string      // offer only tools that match one of these patterns (path.Match)
	Deny       []string      // never offer tools that match one of these

	base *config.Server // what LoadConfig read besides
}

// String names the server without its secrets.
func (s Server) String() string {
	if s.URL != "" {
		return s.ID + " (by URL)"
	}
	return s.ID + " (" + s.Command + ")"
}

// GoString is String, so that no way of printing shows Env and Headers.
func (s Server) GoString() string { return s.String() }

// LogValue is String, for logs.
func (s Server) LogValue() slog.Value { return slog.StringValue(s.String()) }

// LoadConfig reads a config file: Stoa's own in any of its forms, the
// mcp.json of other hosts, or
//
//	mcp:
//	  servers:
//	    - id: filesystem
//	      command: mcp-server-filesystem
//	      args: ["--root", "/data"]
//	      env: ["TOKEN=${TOKEN}"]
//	  auto_discover: true
//	  pool:
//	    max_idle_time: 5m
//	    cleanup_interval: 1m
//
// ${VAR} is filled in from the environment; a variable that is not set is an
// error. What such a file says of addresses, the data folder and logging is not
// used. Its policy holds, and settings that Server has no field for are kept.
func LoadConfig(path string) (Config, error) {
	// Addresses and data are not used, so nothing about them can be wrong.
	c, _, err := config.Load(config.Options{Files: []string{path}, Listen: []string{"127.0.0.1:0"}, Data: os.TempDir()})
	if err != nil {
		return Config{}, wrap(err)
	}
	out := Config{
		AutoDiscover: c.AutoDiscover, Hosts: c.Auth.Hosts, Origins: c.Auth.Origins, base: c,
		Pool: Pool{MaxIdle: orNever(c.Pool.MaxIdleTime), Sweep: c.Pool.CleanupInterval, Max: c.Pool.Max},
	}
	for i := range c.Servers {
		s := &c.Servers[i]
		if !s.Enabled {
			continue
		}
		one := Server{
			ID: s.Title, Command: s.Command, Args: s.Args, Dir: s.Cwd, URL: s.URL,
			Timeout: s.Timeout, MaxTimeout: s.MaxTimeout, Allow: s.Tools.Allow, Deny: s.Tools.Deny, base: s,
		}
		for _, name := range slices.Sorted(maps.Keys(s.Env)) {
			one.Env = append(one.Env, name+"="+s.Env[name].Reveal())
		}
		for name, value := range s.Headers {
			if one.Headers == nil {
				one.Headers = map[string]string{}
			}
			one.Headers[name] = value.Reveal()
		}
		out.Servers = append(out.Servers, one)
	}
	return out, nil
}

func orNever(idle time.Duration) time.Duration {
	if idle == 0 {
		return -1
	}
	return idle
}

// internal is the config as the hub takes it, checked.
func (c Config) internal() (*config.Config, error) {
	out := config.Default()
	// A program offers what it names, and nothing of what the command stoa has.
	out.Modules, out.Agents, out.Chat.Enabled = config.Modules{}, nil, false
	if c.base != nil {
		out.Limits, out.Policy = c.base.Limits, c.base.Policy
	}
	out.AutoDiscover = c.AutoDiscover
	out.Auth.Hosts, out.Auth.Origins = slices.Clone(c.Hosts), slices.Clone(c.Origins)
	out.Pool = config.Pool{MaxIdleTime: c.Pool.MaxIdle, CleanupInterval: c.Pool.Sweep, Max: c.Pool.Max}
	switch {
	case c.Pool.MaxIdle == 0:
		out.Pool.MaxIdleTime = 5 * time.Minute
	case c.Pool.MaxIdle < 0:
		out.Pool.MaxIdleTime = 0
	}
	if out.Pool.CleanupInterval <= 0 {
		out.Pool.CleanupInterval = time.Minute
	}
	for _, s := range c.Servers {
		one, err := s.internal(out.Pool.MaxIdleTime)
		if err != nil {
			return nil, err
		}
		out.Servers = append(out.Servers, one)
	}
	if err := out.Validate(); err != nil {
		return nil, wrap(err)
	}
	return &out, nil
}

func (s Server) internal(idle time.Duration) (config.Server, error) {
	out := config.DefaultServer()
	out.Idle = idle
	if s.base != nil {
		out = *s.base
	}
	out.Name, out.Title = config.Slug(s.ID), s.ID
	out.Command, out.Args, out.Cwd, out.URL = s.Command, slices.Clone(s.Args), s.Dir, s.URL
	out.Tools.Allow, out.Tools.Deny = slices.Clone(s.Allow), slices.Clone(s.Deny)
	if s.Timeout > 0 {
		out.Timeout = s.Timeout
	}
	if s.MaxTimeout > 0 {
		out.MaxTimeout = s.MaxTimeout
	}
	out.Env, out.Headers = map[string]secret.String{}, map[string]secret.String{}
	for _, kv := range s.Env {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			return out, wrong("server "+s.ID+": an element of Env has no name and '='", `Write "NAME=value".`)
		}
		out.Env[name] = secret.New(value)
	}
	for name, value := range s.Headers {
		out.Headers[name] = secret.New(value)
	}
	return out, nil
}
