package hub

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/modules"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/plan/published"
	"github.com/stoahub/stoa/internal/upstream"
)

// built is what became of the built-in modules that the config asks for.
type built struct {
	modules map[string]*modules.Module
	failed  map[string]failedModule
}

// failedModule is why a module cannot be had, and what to do.
type failedModule struct{ text, hint string }

// build makes the built-in modules that the config switches on. One that cannot
// be had is told of, and does not stop the hub.
func (h *Hub) build(cfg *config.Config) built {
	b := built{modules: map[string]*modules.Module{}, failed: map[string]failedModule{}}
	fail := func(name, text, hint string) {
		b.failed[name] = failedModule{text, hint}
		h.logger("modules").Warn("a module cannot be had", "module", name, obs.KeyErr, text, "hint", hint)
	}
	for _, f := range cfg.Modules.Failed {
		fail(f.Name, f.Text+" ("+f.From+")", f.Hint)
	}
	add := func(m *modules.Module) {
		m.LogTo(h.logger("modules"))
		m.Bound(cfg.Limits.MessageBytes)
		b.modules[m.Name()] = m
	}
	if cfg.Modules.Context.Enabled {
		add(modules.Context(h.state.sessions))
	}
	if cfg.Modules.Plan.Enabled {
		add(h.planModule())
	}
	if cfg.Modules.Debug.Enabled {
		o := modules.DebugOptions{Logs: h.logs.Read, Trouble: h.logs.Trouble}
		if h.data != nil { // a temporary hub has no console
			o.StartWeb, o.WebStatus = h.startWeb, h.webStatus
		}
		add(modules.Debug(o))
	}
	if cfg.Modules.Task.Enabled {
		add(modules.Task(h.tasks, h.gateway.Tool))
	}
	if f := cfg.Modules.File; f.Enabled {
		private := cfg.Private()
		if h.data != nil {
			private = append(private, h.data.path)
		}
		m, err := modules.File(modules.FileOptions{Roots: f.Roots, ReadOnly: f.ReadOnly, MaxBytes: int64(cfg.Limits.ArgumentBytes), MessageBytes: cfg.Limits.MessageBytes,
			Exclude: private, ExcludeNames: config.PrivateNames(), Programs: func() []string { return h.config().Programs() }})
		if err != nil {
			fail("file", fault.Of(err).Text(), fault.Of(err).Advice())
		} else {
			add(m)
		}
	}
	if len(b.modules) > 0 {
		add(modules.Control(h.state.sessions, h.switchable, func(ctx context.Context, req *mcp.Request) (mcp.Response, error) { return h.gateway.Handle(ctx, req) }, cfg.Limits.MessageBytes))
	}
	return b
}

func (b built) close() {
	for _, m := range b.modules {
		_ = m.Close() // only what it read from is open
	}
}

// offerModules says where the tools of the modules are offered. Without a
// choice it is where clients of a session expect them, and where there is a use,
// or nothing else.
func (h *Hub) offerModules(cfg *config.Config) {
	m, offers := &cfg.Modules, map[string]call.Offer{}
	bare := !slices.ContainsFunc(cfg.Servers, func(s config.Server) bool { return s.Enabled })
	for name, unsaid := range map[string]call.Offer{
		modules.ContextName: call.OfferValues, modules.PlanName: call.OfferSession, modules.DebugName: call.OfferSession,
		modules.TaskName: call.OfferChosen, modules.ControlName: call.OfferChosen,
		modules.FileName: call.OfferAlways, // it is there only if the config asks for it
	} {
		switch {
		case slices.Contains(m.Named, name):
			unsaid = call.OfferAlways
		case m.Listed:
			unsaid = call.OfferChosen
		case bare && unsaid != call.OfferChosen:
			unsaid = call.OfferAlways
		}
		offers[name] = unsaid
	}
	h.door.Offer(offers)
}

// setModules offers the modules of a config in place of those before.
func (h *Hub) setModules(cfg *config.Config) error {
	next := h.build(cfg)
	h.mu.Lock()
	old := h.built
	h.built = next
	h.mu.Unlock()
	if len(old.modules) > 0 {
		time.AfterFunc(drainTime, old.close) // its calls may end first
	}
	for name := range old.modules {
		if next.modules[name] == nil {
			h.pool.Retire(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(next.modules)) {
		o := upstream.Options{Name: name, Title: name, Handler: next.modules[name], Builtin: true, Logger: h.logger("modules"),
			Handling: func(tool string) catalog.Handling { return h.handling(name, tool) }}
		if name == modules.PlanName { // a run has its own time
			o.Timeout, o.MaxTimeout, o.Linger = 25*time.Hour, 25*time.Hour, 25*time.Hour
		}
		put := h.pool.Add
		if old.modules[name] != nil {
			put = h.pool.Replace
		}
		if _, err := put(o); err != nil {
			return err
		}
	}
	h.plans.tell() // others may have published meanwhile
	return nil
}

// handling is how the tools of a built-in module are treated. Those that read
// what is kept keep nothing themselves: their answers are what was asked for.
// Those that call other tools leave references to the calls they make, which
// would else take what was put in for references again.
func (h *Hub) handling(module, tool string) catalog.Handling {
	own := module == modules.ContextName || module == modules.ControlName
	offered := strings.HasPrefix(tool, published.Prefix)
	runs, task := module == modules.PlanName && (offered || tool == "plan_execute"), catalog.TaskNever
	if runs {
		task = catalog.TaskSlow
	}
	only := ""
	switch {
	case offered:
		only = h.plans.only(tool)
	case module == modules.DebugName:
		only = auth.LocalName // what the hub as a whole does is none of the others' business
	}
	carrier := offered || tool == "plan_execute" || tool == "plan_debug" || tool == modules.BatchName || tool == "task_start"
	return catalog.Handling{Envelope: true, Only: only, Carrier: carrier, Listed: offered, Keyed: runs, Task: task, ResultSaveAs: !own, NoCards: own && tool != modules.BatchName, NoSaveAs: own && tool != modules.BatchName,
		NoReferences: tool == modules.BatchName || tool == "task_start" || module == modules.PlanName && !offered}
}

// switchable lists the modules and servers that a client may use, as they are
// where its Session says nothing.
func (h *Hub) switchable(c *mcp.Client) []modules.Switchable {
	h.mu.Lock()
	failed := maps.Clone(h.built.failed)
	h.mu.Unlock()
	var out []modules.Switchable
	snap, view := h.cat.Now(), h.door.View(c, "")
	for _, u := range h.pool.All() {
		if !c.Actor.InScope(u.Name()) || u.Unlisted() {
			continue
		}
		kind := "server"
		if u.Builtin() {
			kind = "module"
		}
		tools := slices.DeleteFunc(snap.BySource(u.Name()), func(it *catalog.Item) bool { return !view.Offered(it) })
		out = append(out, modules.Switchable{Name: u.Name(), Kind: kind, On: !h.door.Off(u.Name()), Hub: h.switchedForAll(u.Name()), Tools: len(tools)})
		delete(failed, u.Name())
	}
	for name, why := range failed {
		out = append(out, modules.Switchable{Name: name, Kind: "module", Failed: why.text})
	}
	slices.SortFunc(out, func(a, b modules.Switchable) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return out
}
