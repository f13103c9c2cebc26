package hub

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/llm/models"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/upstream"
)

// Change is one small step of a reload.
type Change struct {
	What   string // "server", or the key that changed
	Name   string // of the server
	Action string // "added", "removed", "replaced", "changed"
}

func (c Change) String() string {
	if c.Name == "" {
		return c.What + " " + c.Action
	}
	return c.What + " " + c.Name + " " + c.Action
}

// fixed lists what a running hub cannot change, each with the parts of two
// configs that must be equal.
var fixed = []struct {
	key string
	of  func(*config.Config) any
}{
	{"listen", func(c *config.Config) any { return c.Listen }},
	{"tls", func(c *config.Config) any { return c.TLS }},
	{"sse", func(c *config.Config) any { return c.SSE }},
	{"data", func(c *config.Config) any { return c.Data }},
	{"store", func(c *config.Config) any { return c.Store }},
	{"auth", func(c *config.Config) any { return c.Auth }},
	{"autoDiscover", func(c *config.Config) any { return c.AutoDiscover }},
	{"limits.messageBytes", func(c *config.Config) any { return c.Limits.MessageBytes }},
	{"limits.taskTTL", func(c *config.Config) any { return c.Limits.TaskTTL }},
	{"limits.depth", func(c *config.Config) any { return c.Limits.Depth }},
	{"limits.headerBytes", func(c *config.Config) any { return c.Limits.HeaderBytes }},
	{"limits.connections", func(c *config.Config) any { return c.Limits.Connections }},
	{"log", func(c *config.Config) any { return c.Log }},
	{"telemetry", func(c *config.Config) any { return c.Telemetry }},
	{"chat.enabled", func(c *config.Config) any { return c.Chat.Enabled }},
}

// changes is what a reload will do. It is made before anything is done.
type changes struct {
	changes []Change
	add     []upstream.Options
	replace []upstream.Options
	remove  []string
	modules bool
	offers  bool // where modules are offered
	session bool
	limits  bool
	pool    bool
	policy  bool
	console bool
	models  *models.Set
	chat    bool
}

// Reload makes cfg the configuration in effect, or refuses it whole: an error
// means that nothing has changed. Upstreams that are configured as before, by
// value and secrets included, are not touched. cfg is what config.Load
// returned, or what Validate accepted.
func (h *Hub) Reload(cfg *config.Config) ([]Change, error) {
	h.reloading.Lock()
	defer h.reloading.Unlock()
	h.mu.Lock()
	closed := h.closed
	h.mu.Unlock()
	if closed {
		return nil, errors.New("reload: the hub is closed")
	}
	p, err := h.plan(h.config(), cfg)
	if err != nil {
		return nil, err
	}
	if err := h.apply(p, cfg); err != nil {
		return nil, err
	}
	return p.changes, nil
}

// plan compares two configs. It changes nothing.
func (h *Hub) plan(old, cfg *config.Config) (*changes, error) {
	var stuck []string
	for _, f := range fixed {
		if !reflect.DeepEqual(f.of(old), f.of(cfg)) {
			stuck = append(stuck, f.key)
		}
	}
	if len(stuck) > 0 {
		return nil, &fault.Error{Kind: fault.InvalidRequest, Subject: "reload", Msg: fmt.Sprintf("%s cannot change while the hub runs; nothing was changed", strings.Join(stuck, ", ")), Hint: "Undo that part of the change, or start the hub again."}
	}
	set, err := h.makeModels(cfg)
	if err != nil {
		return nil, &fault.Error{Kind: fault.InvalidRequest, Subject: "reload", Msg: err.Error() + "; nothing was changed", Hint: "Correct that part of the config."}
	}
	p := &changes{models: set}
	if err := h.planServers(p, old, cfg); err != nil {
		return nil, err
	}
	changed := func(what string, differs bool) bool {
		if differs {
			p.changes = append(p.changes, Change{What: what, Action: "changed"})
		}
		return differs
	}
	p.offers = changed("modules", !reflect.DeepEqual(old.Modules, cfg.Modules))
	p.modules = !reflect.DeepEqual(unoffered(old.Modules), unoffered(cfg.Modules))
	if cfg.Modules.File.Enabled && !slices.Equal(old.Private(), cfg.Private()) {
		p.modules = true // other files are kept from the file tools
	}
	newModels := changed("models", !reflect.DeepEqual(old.Models, cfg.Models))
	p.session = changed("session", old.Session != cfg.Session)
	p.limits = changed("limits", old.Limits != cfg.Limits)
	p.modules = p.modules || cfg.Modules.File.Enabled && old.Limits.ArgumentBytes != cfg.Limits.ArgumentBytes // file tools have the same bound
	p.pool = changed("pool", old.Pool != cfg.Pool)
	p.policy = changed("policy", !reflect.DeepEqual(old.Policy, cfg.Policy))
	p.console = changed("console", old.Console != cfg.Console)
	newChat := changed("chat", !reflect.DeepEqual(old.Chat, cfg.Chat))
	agents := agentChanges(offered(old), offered(cfg))
	p.changes = append(p.changes, agents...)
	p.chat = newModels || newChat || len(agents) > 0 || p.policy
	return p, h.checkAgents(old, offered(cfg))
}

// unoffered is what a config says of modules besides where they are offered.
func unoffered(m config.Modules) config.Modules {
	m.Named, m.Listed = nil, false
	return m
}

// planServers compares which servers two configs have, and how.
func (h *Hub) planServers(p *changes, old, cfg *config.Config) error {
	for _, o := range h.options(cfg) {
		before := enabled(old, o.Name)
		switch {
		case before != nil && reflect.DeepEqual(before, enabled(cfg, o.Name)): // follows secrets to their values
		case (before != nil && len(before.Wrong) == 0 || old.Agent(o.Name) != nil) && o.Unusable != nil:
			return enabled(cfg, o.Name).Wrong // one that works is not given up for one that cannot
		case before != nil:
			p.replace = append(p.replace, o)
			p.changes = append(p.changes, Change{"server", o.Name, "replaced"})
		case h.pool.Get(o.Name) != nil && (old.Agent(o.Name) == nil || h.agents.has(o.Name)): // an agent of the config gives way
			return &fault.Error{Kind: fault.InvalidRequest, Subject: "reload", Msg: fmt.Sprintf("the server name %s is taken by a registered agent or the program's own tools; nothing was changed", o.Name), Hint: "Rename the server."}
		default:
			p.add = append(p.add, o)
			p.changes = append(p.changes, Change{"server", o.Name, "added"})
		}
	}
	for i := range old.Servers {
		if name := old.Servers[i].Name; enabled(old, name) != nil && enabled(cfg, name) == nil {
			p.remove = append(p.remove, name)
			p.changes = append(p.changes, Change{"server", name, "removed"})
		}
	}
	return nil
}

// enabled is the server of that name, or nil if there is none that is to run.
func enabled(c *config.Config, name string) *config.Server {
	if s := c.Server(name); s != nil && s.Enabled {
		return s
	}
	return nil
}

// options are those of the upstreams that a config has enabled.
func (h *Hub) options(cfg *config.Config) (all []upstream.Options) {
	log := h.logger("upstream")
	for i := range cfg.Servers {
		if s := &cfg.Servers[i]; s.Enabled {
			o := upstreamOptions(cfg, s, h.environ, log)
			o.Hide = h.logs.Hidden
			o.Sampling, o.Pins, o.Distrust, o.Keep = h.samplingOf(s), h.pinsOf(s), !s.Trust, h.keepLists(s)
			all = append(all, o)
		}
	}
	return all
}

// apply does what was planned. Nothing in it waits for an upstream.
func (h *Hub) apply(p *changes, cfg *config.Config) error {
	h.models.Store(p.models)
	h.hideSecrets(h.config(), cfg) // retired servers may still say the old ones
	before := offered(h.config())
	h.dropAgents(before, offered(cfg)) // a server may have the name now
	for _, name := range p.remove {
		h.pool.Retire(name)
	}
	for _, o := range p.replace {
		if _, err := h.pool.Replace(o); err != nil {
			return err
		}
	}
	h.recallLists(cfg, p.add)
	for _, o := range p.add {
		if _, err := h.pool.Add(o); err != nil {
			return err
		}
	}
	if p.modules {
		if err := h.setModules(cfg); err != nil {
			return err
		}
	}
	h.offerModules(cfg)
	if p.session {
		h.state.sessions.Bound(sessionOptions(cfg))
	}
	if p.limits {
		h.door.Bound(cfg.Limits.ArgumentBytes)
		h.door.BoundCache(cfg.Limits.CacheEntries, cfg.Limits.CacheBytes)
		h.connections.Bound(cfg.Limits.Sessions, cfg.Limits.SessionIdle)
		h.chat.bound(cfg)
	}
	if p.pool || p.limits {
		h.pool.Bound(upstream.PoolOptions{Max: cfg.Pool.Max, Sweep: cfg.Pool.CleanupInterval, Alone: cfg.Limits.SessionIdle})
	}
	if p.policy {
		h.setPolicy(cfg)
	}
	if p.policy || p.chat || p.offers {
		// When it is in effect. What it means for whom is not known.
		defer h.gateway.Differ(func(*mcp.Listener) bool { return true })
	}
	if p.console {
		h.exchanges.Switch(cfg.Console.Exchanges)
	}
	if p.chat && h.chat.engine != nil {
		h.chat.engine.Configure(chatSettings(cfg, p.models))
		if err := h.setAgents(before, offered(cfg)); err != nil {
			return err
		}
	}
	h.current.Store(cfg)
	h.reconfigured(cfg)
	h.agents.book.Again() // a name may be free now
	if addresses := h.Addresses(); h.data != nil && len(addresses) > 0 {
		if err := h.data.announce(addresses, cfg.Hash()); err != nil {
			h.log.Warn("the data folder tells of the config before", "err", err)
		}
	}
	return nil
}

// config is the configuration in effect. What cannot change is in cfg too.
func (h *Hub) config() *config.Config {
	if c := h.current.Load(); c != nil {
		return c
	}
	return h.cfg
}
