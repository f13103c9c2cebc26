package hub

import (
	"context"
	"encoding/json"
	"maps"
	"path"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/modules"
	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/plan/published"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/wire"
)

// plans is what a hub has for plans: their runs, and those that are offered as
// tools.
type plans struct {
	runs      *plan.Runs
	published *published.Plans
	news      chan struct{} // has room for one: other plans are published, or the module is another

	offering sync.Mutex // held while the module offers other tools
	mu       sync.Mutex
	offered  offeredPlans
}

// openPlans opens the runs and the published plans. Nothing of them is driven or
// offered before Run.
func (h *Hub) openPlans(Options) (err error) {
	ctx := context.Background()
	p := &h.plans
	p.news = make(chan struct{}, 1)
	p.runs, err = plan.Open(ctx, h.state.store, plan.RunsOptions{
		Face: func(session string) call.Face { return h.gateway.Stateful(session) },
		Find: h.planTool, Principal: h.principal, Sessions: h.state.sessions, Desk: h.desk, Events: h.events, Tracer: h.tracer, Logger: h.logger("plan"),
		Hub: h.process, Before: h.before,
		Alone: h.cfg.Store.URL == "", // its folder is locked
		Keep:  func() time.Duration { return h.config().Session.Timeout }, ArgBytes: func() int { return h.config().Limits.ArgumentBytes },
	})
	if err != nil {
		return err
	}
	h.opened(p.runs.Close)
	h.state.sessions.Watch(func(c session.Change) {
		if c.Ended {
			p.runs.SessionEnded(c.Session.Principal(), c.Session.Name())
		}
	})
	p.published, err = published.Open(ctx, h.state.store, published.Options{Logger: h.logger("plan"), Check: modules.CheckPublished, Changed: p.tell})
	if err == nil {
		h.opened(p.published.Close)
	}
	return err
}

// planOptions are what the module of plans works with now.
func (h *Hub) planOptions() modules.PlanOptions {
	o, _ := h.planOffer()
	return o
}

// planClient is the client in whose view the tools of a plan are looked up.
func planClient(by actor.Actor) *mcp.Client { return &mcp.Client{Era: mcp.Modern, Actor: by} }

// planTool tells plans of a tool that an actor can see in a Session.
func (h *Hub) planTool(ctx context.Context, by actor.Actor, session, name string) (plan.Tool, error) {
	it, err := h.gateway.Find(ctx, planClient(by), session, name)
	if err != nil {
		return plan.Tool{}, err
	}
	return plan.Tool{Name: it.Exposed, Upstream: it.Upstream, Ref: it.Ref(), Input: it.Schema, Output: wire.Get(it.Raw, "outputSchema"), ReadOnly: it.ReadOnly, Idempotent: it.Idempotent || it.Handling.Keyed, Defined: call.Defined(it.Standing), Registered: h.agents.owner(it.Upstream)}, nil
}

// planActions makes actions of tools: their arguments are inputs, and what
// their output schema says, or their name, is what they yield.
func (h *Hub) planActions(_ context.Context, req *mcp.Request, globs []string) ([]plan.Action, error) {
	for _, g := range globs {
		if _, err := path.Match(g, ""); err != nil {
			return nil, fault.New(fault.InvalidArguments, "tools", "%q is no pattern: %v", g, err)
		}
	}
	var out []plan.Action
	view := h.door.View(req.Client, req.Session)
	for _, it := range h.cat.Now().Items(catalog.Tool) {
		if !view.Item(it) || it.Standing.Held() || !slices.ContainsFunc(globs, func(g string) bool {
			a, _ := path.Match(g, it.Exposed)
			b, _ := path.Match(g, it.Ref())
			return a || b
		}) {
			continue
		}
		out = append(out, actionOf(it))
	}
	return out, nil
}

// mostFailed is how much more a tool costs that always failed. It decides only
// between tools that fit alike: calls often fail by their arguments, so that the
// right tool for a thing may have failed more than the wrong one.
const mostFailed = 0.05

func actionOf(it *catalog.Item) plan.Action {
	var def struct {
		Title, Description        string
		InputSchema, OutputSchema struct {
			Properties map[string]json.RawMessage
			Required   []string
		}
	}
	a := plan.Action{Type: it.Exposed, Tool: it.Exposed, Cost: 2}
	if it.ReadOnly {
		a.Cost = 1
	}
	if it.Stat != nil {
		if ok, failed := it.Stat.Counts(); failed > 0 {
			a.Cost *= 1 + mostFailed*float64(failed)/float64(ok+failed)
		}
	}
	if err := json.Unmarshal(it.Raw, &def); err != nil {
		return plan.Action{Type: it.Exposed, Tool: it.Exposed, Outputs: []plan.Fact{{Name: factName(it.Name)}}}
	}
	a.About = def.Description
	for _, name := range slices.Sorted(maps.Keys(def.InputSchema.Properties)) {
		a.Inputs = append(a.Inputs, plan.Fact{Name: name, Schema: def.InputSchema.Properties[name], Optional: !slices.Contains(def.InputSchema.Required, name)})
	}
	for _, name := range slices.Sorted(maps.Keys(def.OutputSchema.Properties)) {
		if factName(name) == name {
			a.Outputs = append(a.Outputs, plan.Fact{Name: name, Schema: def.OutputSchema.Properties[name]})
		}
	}
	if a.Members = len(a.Outputs) > 0; !a.Members {
		a.Outputs = []plan.Fact{{Name: factName(it.Name)}}
	}
	return a
}

var notName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// factName makes a name of a tool one that a value may have.
func factName(name string) string {
	name = notName.ReplaceAllString(name, "_")
	if name == "" || !regexp.MustCompile(`^[A-Za-z_]`).MatchString(name) {
		name = "_" + name
	}
	return name[:min(len(name), 64)]
}

// proposePlan has the model of conversations propose a plan.
func (h *Hub) proposePlan(ctx context.Context, req *mcp.Request, p plan.Proposal) (*plan.Plan, error) {
	m, err := h.models.Load().Get(h.config().Chat.Model)
	if err != nil {
		return nil, err
	}
	p.Find = func(name string) (plan.Tool, error) { return h.planTool(ctx, req.Client.Actor, req.Session, name) }
	allowed := map[string]bool{}
	for _, a := range p.Goal.Actions {
		allowed[a.Tool], allowed[a.Type] = true, true
	}
	view := h.door.View(req.Client, req.Session)
	for _, it := range h.cat.Now().Items(catalog.Tool) {
		if !view.Item(it) || it.Standing.Held() || len(allowed) > 0 && !allowed[it.Exposed] && !allowed[it.Name] && !allowed[it.Ref()] {
			continue
		}
		var def struct {
			Description string
			InputSchema json.RawMessage
		}
		if json.Unmarshal(it.Raw, &def) == nil && len(p.Tools) < 200 {
			p.Tools = append(p.Tools, plan.Offered{Name: it.Exposed, Description: def.Description, Schema: def.InputSchema})
		}
	}
	return plan.Propose(ctx, h.spanned(m), p)
}
