package hub

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/modules"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/plan/published"
)

// offeredPlans are the published plans that a module offers as tools.
type offeredPlans struct {
	by       *modules.Module
	revision string
	only     map[string]string // the principal that a tool is there for, by its name
}

// tell has the module of plans offer what is published now.
func (p *plans) tell() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// list are the published plans, by the names of their tools.
func (p *plans) list() []published.Plan {
	all, _ := p.published.List()
	return all
}

// only is the principal that the tool of a published plan is there for; empty
// means everybody.
func (p *plans) only(tool string) string {
	if one, ok := p.published.Get(tool); ok {
		return onlyFor(&one)
	}
	return nobody
}

func onlyFor(p *published.Plan) string {
	if p.Shared {
		return ""
	}
	return p.Owner
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
	next := published.Plan{Name: name, Owner: by.Name(), By: by.Record()}
	if p != nil {
		next.Plan = *p
		if err := modules.CheckPublished(next); err != nil {
			return "", err
		}
	}
	return next.Tool(), h.changePlan(ctx, next.Tool(), func(old *published.Plan) (*published.Plan, error) {
		if old != nil && old.Owner != by.Name() { // the tags of two names are rarely the same
			return nil, &fault.Error{Kind: fault.Denied, Subject: name, Msg: "the name of its tool, " + next.Tool() + ", is taken by another principal's plan", Hint: "Use another name."}
		}
		if old != nil && by.IsModel() && (old.By == nil || !old.By.IsModel()) {
			return nil, &fault.Error{Kind: fault.Denied, Subject: name, Msg: "a person has published a plan of this name, which a model may not replace", Hint: "Use another name."}
		}
		if p == nil {
			return nil, nil
		}
		return &next, nil
	})
}

// sharePlan shows a published plan to everybody, or to its publisher alone. It
// must be the plan of seen: what was published in its place nobody has looked at.
func (h *Hub) sharePlan(ctx context.Context, seen *published.Plan, shared bool) error {
	tool, revision := seen.Tool(), seen.Revision()
	return h.changePlan(ctx, tool, func(old *published.Plan) (*published.Plan, error) {
		if old == nil {
			return nil, fault.New(fault.ResourceNotFound, tool, "there is no such published plan")
		}
		if shared && (old.Owner != seen.Owner || old.Revision() != revision) {
			return nil, changedPlan(old)
		}
		next := *old
		next.Shared = shared
		return &next, nil
	})
}

// changedPlan refuses to share a plan that is not the one that was looked at.
func changedPlan(now *published.Plan) error {
	return (&fault.Error{Kind: fault.InvalidRequest, Subject: now.Tool(), Msg: "another plan was published under this name since you looked at it; nothing was shared",
		Hint: "Look at the plan again, then share the revision that you saw."}).With("revision", now.Revision())
}

// changePlan makes of a published plan what change says, which is given the
// latest of all hubs; nil is none. The hub offers it when changePlan returns.
func (h *Hub) changePlan(ctx context.Context, tool string, change func(old *published.Plan) (*published.Plan, error)) error {
	if !h.reloading.TryLock() {
		return &fault.Error{Kind: fault.Unreachable, Subject: "publish", Msg: "what the hub offers is being changed", Hint: "Try again in a moment."}
	}
	defer h.reloading.Unlock()
	if err := h.plans.published.Change(ctx, tool, change); err != nil {
		return err
	}
	return h.offerPlans(ctx)
}

// followPlans offers what others publish, until ctx ends.
func (h *Hub) followPlans(ctx context.Context) {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.plans.news:
		case <-again:
		}
		again = nil
		if err := h.offerPlans(ctx); err != nil && ctx.Err() == nil {
			h.logger("plan").Warn("the published plans cannot be offered as they are now", obs.KeyAction, "publish", obs.KeyErr, err)
			again = time.After(time.Second)
		}
	}
}

// offerPlans offers what is published now. The module stays the same one: runs
// that somebody waits for go on. What is answered after it can be relied upon.
func (h *Hub) offerPlans(ctx context.Context) error {
	p := &h.plans
	p.offering.Lock()
	defer p.offering.Unlock()
	h.mu.Lock()
	m := h.built.modules[modules.PlanName]
	h.mu.Unlock()
	u := h.pool.Get(modules.PlanName)
	if m == nil || u == nil {
		return nil // it is switched off
	}
	o, now := h.planOffer()
	now.by = m
	p.mu.Lock()
	before := p.offered
	p.mu.Unlock()
	if before.by == m && before.revision == now.revision {
		return nil
	}
	m.Offer(o.Tools()...)
	if err := u.Load(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	p.offered = now
	p.mu.Unlock()
	h.reoffered(before.only, now.only)
	return nil
}

// reoffered tells those who could see a plan and cannot any more, or the other way
// round: perhaps nothing of the tool itself has changed.
func (h *Hub) reoffered(before, now map[string]string) {
	concerned := map[string]bool{} // by name; "" is everybody
	for tool, only := range now {
		if was, ok := before[tool]; ok && was != only {
			concerned[was], concerned[only] = true, true
		}
	}
	if len(concerned) == 0 {
		return
	}
	h.gateway.Differ(func(l *mcp.Listener) bool {
		v := h.door.View(l.Client, l.Session)
		return v.Server(modules.PlanName) && (concerned[""] || concerned[l.Client.Actor.Name()])
	})
}

// planModule is the module of plans.
func (h *Hub) planModule() *modules.Module {
	o, now := h.planOffer()
	now.by = modules.Plan(o)
	h.plans.mu.Lock()
	defer h.plans.mu.Unlock()
	h.plans.offered = now
	return now.by
}

// planOffer is what the module of plans works with now, and what it then offers.
func (h *Hub) planOffer() (modules.PlanOptions, offeredPlans) {
	all, revision := h.plans.published.List()
	now := offeredPlans{revision: revision, only: map[string]string{}}
	for i := range all {
		now.only[all[i].Tool()] = onlyFor(&all[i])
	}
	o := modules.PlanOptions{Runs: h.plans.runs, Sessions: h.state.sessions, Actions: h.planActions, Publish: h.publish, Principal: h.principal, Published: all}
	if m, err := h.models.Load().Get(h.config().Chat.Model); err == nil && m.Provider != config.Script {
		o.Propose = h.proposePlan
	}
	return o, now
}
