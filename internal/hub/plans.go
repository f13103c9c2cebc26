package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/modules"
	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/wire"
)

// plans is what a hub has for plans: their runs, and those that are offered as
// tools.
type plans struct {
	runs   *plan.Runs
	bucket *store.Bucket // nil in a temporary hub

	mu        sync.Mutex
	published map[string]offeredPlan // by the name of the tool
}

// offeredPlan is a plan that is published.
type offeredPlan struct {
	modules.Published
	key string // where it is kept
}

// openPlans opens the runs. Nothing of them is driven before Run.
func (h *Hub) openPlans(Options) (err error) {
	ctx := context.Background()
	p := &h.plans
	p.published = map[string]offeredPlan{}
	p.runs, err = plan.Open(ctx, h.state.store, plan.RunsOptions{
		Face: func(session string) call.Face { return h.gateway.Stateful(session) },
		Find: h.planTool, Principal: h.principal, Sessions: h.state.sessions, Desk: h.desk, Events: h.events, Tracer: h.tracer, Logger: h.logger("plan"),
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
	if h.state.store == nil {
		return nil
	}
	if p.bucket, err = h.state.store.Bucket(ctx, store.BucketOptions{Name: "plans"}); err != nil {
		return fmt.Errorf("open the published plans: %w", err)
	}
	return p.read(ctx, h)
}

// errRead ends a watch once what is there has been read.
var errRead = errors.New("read")

// read reads the published plans.
func (p *plans) read(ctx context.Context, h *Hub) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := p.bucket.Watch(ctx, "", func() { cancel(errRead) }, func(v store.Value) error {
		var one modules.Published
		if v.Deleted {
			maps.DeleteFunc(p.published, func(_ string, o offeredPlan) bool { return o.key == v.Key })
			return nil
		}
		err := json.Unmarshal(v.Data, &one)
		if err == nil {
			err = modules.CheckPublished(one)
		}
		if err != nil {
			h.logger("plan").Error("a published plan cannot be used", "plan", v.Key, "err", err)
			return nil
		}
		p.published[one.Tool()] = offeredPlan{one, v.Key}
		return nil
	})
	if errors.Is(context.Cause(ctx), errRead) {
		return nil
	}
	return err
}

// list are the published plans, by the names of their tools.
func (p *plans) list() []modules.Published {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []modules.Published
	for _, tool := range slices.Sorted(maps.Keys(p.published)) {
		out = append(out, p.published[tool].Published)
	}
	return out
}

// only is the principal that the tool of a published plan is there for; empty
// means everybody.
func (p *plans) only(tool string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one, ok := p.published[tool]; ok && one.Shared {
		return ""
	} else if ok {
		return one.Owner
	}
	return nobody
}

// nobody is a principal that there cannot be.
const nobody = "\x00"

var (
	publishedName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,32}$`)
	taggedName    = regexp.MustCompile(`-[0-9a-f]{6}$`) // how the tools of others than the person at this machine end
)

// publish offers a plan as a tool to who publishes it, or does so no longer if
// it is nil. A plan that was shared and is published anew is not shared any
// more: nobody but its publisher has seen what it does now.
func (h *Hub) publish(ctx context.Context, req *mcp.Request, name string, p *plan.Plan) (string, error) {
	by := req.Client.Actor
	if !publishedName.MatchString(name) || taggedName.MatchString(name) {
		return "", &fault.Error{Kind: fault.InvalidArguments, Subject: "publish", Msg: fmt.Sprintf("%q cannot be the name of a published plan", name),
			Hint: "Use small letters, digits, - and _, at most 33, begin with a letter, and do not end with - and six hexadecimal digits."}
	}
	next := modules.Published{Name: name, Owner: by.Name(), By: by.Record()}
	if p != nil {
		next.Plan = *p
		if err := modules.CheckPublished(next); err != nil {
			return "", err
		}
	}
	return next.Tool(), h.changePlan(ctx, next.Tool(), func(old *modules.Published) (*modules.Published, error) {
		if old != nil && by.IsModel() && (old.By == nil || !old.By.IsModel()) {
			return nil, &fault.Error{Kind: fault.Denied, Subject: name, Msg: "a person has published a plan of this name, which a model may not replace", Hint: "Use another name."}
		}
		if p == nil {
			return nil, nil
		}
		return &next, nil
	})
}

// sharePlan shows a published plan to everybody, or to its publisher alone.
func (h *Hub) sharePlan(ctx context.Context, tool string, shared bool) error {
	return h.changePlan(ctx, tool, func(old *modules.Published) (*modules.Published, error) {
		if old == nil {
			return nil, fault.New(fault.ResourceNotFound, tool, "there is no such published plan")
		}
		next := *old
		next.Shared = shared
		return &next, nil
	})
}

// changePlan makes of a published plan what change says; nil is none.
func (h *Hub) changePlan(ctx context.Context, tool string, change func(old *modules.Published) (*modules.Published, error)) error {
	if !h.reloading.TryLock() {
		return &fault.Error{Kind: fault.Unreachable, Subject: "publish", Msg: "what the hub offers is being changed", Hint: "Try again in a moment."}
	}
	defer h.reloading.Unlock()
	ps := &h.plans
	ps.mu.Lock()
	old, had := ps.published[tool]
	ps.mu.Unlock()
	var before *modules.Published
	key := strings.TrimPrefix(tool, modules.PublishedPrefix)
	if had {
		before, key = &old.Published, old.key
	}
	next, err := change(before)
	if err != nil {
		return err
	}
	if err := ps.keep(ctx, key, tool, next); err != nil {
		return err
	}
	if err := h.offerPlans(ctx); err != nil {
		return err
	}
	if before != nil && next != nil && before.Shared != next.Shared {
		h.gateway.Differ() // who can see it has changed, and nothing of the tool
	}
	return nil
}

// offerPlans offers what is published now. The module stays the same one: runs
// that somebody waits for go on. What is answered after it can be relied upon.
func (h *Hub) offerPlans(ctx context.Context) error {
	h.mu.Lock()
	m := h.built.modules[modules.PlanName]
	h.mu.Unlock()
	u := h.pool.Get(modules.PlanName)
	if m == nil || u == nil {
		return nil // it is switched off
	}
	m.Offer(h.planOptions().Tools()...)
	return u.Load(ctx)
}

// keep writes a published plan, or that there is none, before that takes effect.
func (p *plans) keep(ctx context.Context, key, tool string, next *modules.Published) error {
	if p.bucket != nil {
		raw, err := json.Marshal(next)
		if err != nil {
			return fault.New(fault.Internal, tool, "the plan cannot be written").Because(err)
		}
		if next == nil {
			err = p.bucket.Delete(ctx, key, 0)
		} else {
			_, err = p.bucket.Put(ctx, key, raw, 0)
		}
		if err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.published, tool)
	if next != nil {
		p.published[tool] = offeredPlan{*next, key}
	}
	return nil
}

// planModule is the module of plans.
func (h *Hub) planModule() *modules.Module { return modules.Plan(h.planOptions()) }

// planOptions are what the module of plans works with now.
func (h *Hub) planOptions() modules.PlanOptions {
	o := modules.PlanOptions{Runs: h.plans.runs, Sessions: h.state.sessions, Actions: h.planActions, Publish: h.publish, Principal: h.principal, Published: h.plans.list()}
	if m, err := h.models.Load().Get(h.config().Chat.Model); err == nil && m.Provider != config.Script {
		o.Propose = h.proposePlan
	}
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
	return plan.Tool{Name: it.Exposed, Upstream: it.Upstream, Ref: it.Ref(), Input: it.Schema, Output: wire.Get(it.Raw, "outputSchema"), ReadOnly: it.ReadOnly, Idempotent: it.Idempotent || it.Handling.Keyed, Defined: call.Defined(it.Standing)}, nil
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
