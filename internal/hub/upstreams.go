package hub

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/bridge"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/cert"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/guard"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/upstream"
)

// inherited are the variables that every process gets.
var inherited = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TMPDIR"}

// unusable is what the config has wrong about a server; nil if nothing.
func unusable(s *config.Server) error {
	if len(s.Wrong) == 0 {
		return nil
	}
	first := s.Wrong[0]
	f := fault.New(fault.Misconfigured, s.Name, "%s", first.Text)
	if len(s.Wrong) > 1 {
		f.Msg += fmt.Sprintf("; and %d more", len(s.Wrong)-1)
	}
	f.Hint = upperFirst(first.Hint)
	if first.File != "" {
		f.Msg += fmt.Sprintf(" (%s, line %d)", filepath.Base(first.File), first.Line)
	}
	return f
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	s = strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".")
	if strings.HasSuffix(s, "?") {
		return s
	}
	return s + "."
}

func upstreamOptions(cfg *config.Config, s *config.Server, environ []string, log *slog.Logger) upstream.Options {
	o := upstream.Options{
		Name: s.Name, Title: s.Title,
		Command: s.Command, Args: s.Args, Dir: s.Cwd,
		Timeout: s.Timeout, MaxTimeout: s.MaxTimeout, Retries: &s.Retries,
		PerSession:   s.Sharing == config.PerSession,
		Most:         s.MaxSessions,
		Filter:       catalog.Filter{Allow: s.Tools.Allow, Deny: s.Tools.Deny},
		Breaker:      guard.Options{Failures: s.Breaker.Failures, Window: s.Breaker.Window, Cooldown: s.Breaker.Cooldown},
		Idle:         s.Idle,
		Connect:      s.Connect,
		Lazy:         !cfg.AutoDiscover,
		MessageBytes: cfg.Limits.MessageBytes,
		Logger:       log,
	}
	if o.Unusable = unusable(s); o.Unusable != nil {
		o.Args, o.URL = nil, s.URL // for the status alone: it is never dialled
		return o
	}
	override(&o, s.Tools.Override)
	o.Handling = func(tool string) catalog.Handling {
		h := s.Handling(tool)
		off := func(b *bool) bool { return b != nil && !*b }
		return catalog.Handling{NoReferences: off(h.References), NoSaveAs: off(h.SaveAs), NoCards: off(h.Cards), CardBytes: h.CardBytes,
			ResultSaveAs: h.SaveAs != nil && *h.SaveAs, Task: tasks[h.Task]}
	}
	switch s.Protocol {
	case config.Modern:
		o.Era = mcp.Modern
	case config.Legacy:
		o.Era = mcp.Legacy
	}
	if s.Queue != nil {
		o.Queue = &upstream.Queue{Concurrency: s.Queue.Concurrency, Capacity: s.Queue.Capacity, Timeout: s.Queue.Timeout}
	}
	switch s.Transport {
	case config.Stdio:
		o.Env = environment(s, environ)
		return o
	case config.HTTP:
		o.Way = upstream.Streamable
	case config.WS:
		o.Way = upstream.WebSocket
	case config.SSE:
		o.Way = upstream.SSE
		if o.Era == 0 {
			o.Era = mcp.Legacy // the transport is older than the other era
		}
	}
	o.URL = s.URL
	if addr, err := url.Parse(s.URL); err == nil {
		o.TLS = cert.Trust(s.TLS).Client(addr.Hostname())
	}
	o.Header = http.Header{}
	for name, value := range s.Headers {
		o.Header.Set(name, value.Reveal())
	}
	if s.Transport == config.Ailumina {
		return socketAgent(o)
	}
	return o
}

// leads reports whether what a server offers leads to the hub of that id.
func (h *Hub) leads(server, hub string) bool {
	u := h.pool.Get(server)
	return u != nil && u.Leads(hub)
}

// override gives an upstream's tools what the config says of each.
func override(o *upstream.Options, tools map[string]config.Override) {
	if len(tools) == 0 {
		return
	}
	o.Override = map[string]catalog.Override{}
	o.Filter.Deny = slices.Clip(o.Filter.Deny) // the config's, which stays as it is
	for name, over := range tools {
		if over.Hidden {
			o.Filter.Deny = append(o.Filter.Deny, literally(name))
		}
		o.Override[name] = catalog.Override{Name: over.Name, Description: over.Description, Timeout: over.Timeout, Priority: over.Priority, Cache: over.Cache.TTL}
	}
}

// socketAgent makes an upstream of a WebSocket agent.
func socketAgent(o upstream.Options) upstream.Options {
	a, err := bridge.NewAgent(bridge.AgentOptions{Name: o.Title, URL: o.URL, Header: o.Header, TLS: o.TLS, Connect: o.Connect, Timeout: o.Timeout, Max: o.MaxTimeout})
	if err != nil {
		o.Unusable = fault.New(fault.Misconfigured, o.Name, "%v", err)
		return o
	}
	o.URL, o.Header, o.TLS = "", nil, nil
	o.Handler, o.Via = a, string(config.Ailumina)
	o.Agent = true // it may be one of a hub, even of this one
	return o
}

var tasks = map[config.TaskMode]catalog.Task{config.TaskAuto: catalog.TaskSlow, config.TaskAlways: catalog.TaskAlways, config.TaskMust: catalog.TaskMust}

// literally is the pattern that matches a name and nothing else.
func literally(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// environment is what a server's process sees: a few harmless variables, those
// that it is to inherit, and its own. Not even all of the hub's have the cluster
// key, which is for hubs alone.
func environment(s *config.Server, environ []string) []string {
	if environ == nil {
		environ = os.Environ()
	}
	var out []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if _, own := s.Env[name]; own {
			continue
		}
		if s.InheritEnv.All && name != "STOA_STORE_KEY" || slices.Contains(inherited, name) || slices.Contains(s.InheritEnv.Names, name) {
			out = append(out, kv)
		}
	}
	for name, value := range s.Env {
		out = append(out, name+"="+value.Reveal())
	}
	slices.Sort(out)
	return out
}
