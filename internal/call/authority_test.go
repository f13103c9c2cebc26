package call

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/seal"
	"github.com/stoahub/stoa/internal/upstream"
	"github.com/stoahub/stoa/internal/wire"
)

var (
	ann = &auth.Principal{Name: "ann", Scopes: auth.Scopes{"*"}, Via: auth.ViaToken}
	ben = &auth.Principal{Name: "ben", Scopes: auth.Scopes{"box", "mail"}, Via: auth.ViaToken}
)

// lookupOf looks up who there is.
func lookupOf(who ...*auth.Principal) Lookup {
	return func(name string, via auth.Via) (*auth.Principal, error) {
		for _, p := range who {
			if p.Name == name && (via == "" || p.Via == via) {
				return p, nil
			}
		}
		return nil, nil
	}
}

func as(a actor.Actor) *mcp.Client {
	return &mcp.Client{Era: mcp.Modern, Version: mcp.ModernVersion, Actor: a}
}

func direct(who *auth.Principal) actor.Actor { return actor.New(actor.HTTP, who) }

// box is a server in this process. It keeps what it was called with; its tool
// ask wants input in every round.
type box struct {
	mu    sync.Mutex
	calls []string
	chain string
}

const boxTools = `{"tools":[
	{"name":"read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
	{"name":"add","inputSchema":{"type":"object"},"annotations":{"destructiveHint":false}},
	{"name":"write","inputSchema":{"type":"object"}},
	{"name":"ask","inputSchema":{"type":"object"}}]}`

func (b *box) Handle(_ context.Context, r *mcp.Request) (mcp.Response, error) {
	switch r.Method {
	case "initialize", "server/discover":
		return mcp.Introduce(r.Client, []byte(`{"tools":{}}`), nil, "")
	case "tools/list":
		return mcp.Response{Result: []byte(boxTools)}, nil
	case "tools/call":
		name, _ := r.Text("name")
		b.mu.Lock()
		defer b.mu.Unlock()
		b.calls = append(b.calls, name+" "+string(r.Param("arguments")))
		b.chain, _ = wire.String(meta(r, MetaChain))
		if name == "ask" {
			return mcp.Response{Result: []byte(`{"resultType":"input_required","inputRequests":{},"requestState":"theirs"}`)}, nil
		}
		return mcp.Response{Result: []byte(`{"content":[]}`)}, nil
	}
	return mcp.Response{}, fault.New(fault.UnknownMethod, "", "method %q is not offered here", r.Method)
}

func (b *box) Attach(*mcp.Listener) func()                              { return func() {} }
func (b *box) Subscribe(context.Context, *mcp.Listener, string) error   { return nil }
func (b *box) Unsubscribe(context.Context, *mcp.Listener, string) error { return nil }

// reached is how many calls have come to it.
func (b *box) reached() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.calls)
}

// scene is a box behind doors.
type scene struct {
	t   *testing.T
	box *box
	u   *upstream.Upstream
	cat *catalog.Catalog
}

func stage(t *testing.T, o upstream.Options) *scene {
	t.Helper()
	s := &scene{t: t, box: &box{}, cat: catalog.New(0)}
	pool := upstream.Open(s.cat, upstream.PoolOptions{})
	t.Cleanup(func() {
		pool.Close()
		s.cat.Close()
	})
	o.Name, o.Handler, o.Agent = "box", s.box, true
	var err error
	if s.u, err = pool.Add(o); err != nil {
		t.Fatal(err)
	}
	s.u.Settle(t.Context())
	if s.cat.Now().Tool("box", "write") == nil {
		t.Fatal("the server has no tools")
	}
	return s
}

// call makes a call of a tool; more are further members of its params.
func (s *scene) call(d *Door, c *mcp.Client, tool, more string, h Hooks) (mcp.Response, error) {
	s.t.Helper()
	req := requestOf(c, `{"name":"`+tool+`","arguments":{"n":1}`+more+`}`)
	req.Meta = wire.Members(req.Param("_meta"))
	return d.Do(s.t.Context(), &Call{Req: req, Upstream: s.u, Item: s.cat.Now().Tool("box", tool), Check: true, Hooks: h})
}

func compiled(rules ...policy.Rule) *policy.Set {
	return policy.Compile(policy.Rules{Name: "policy", Rules: rules}, nil)
}

// people answers questions: yes to all, and counts them.
type people struct{ asked []policy.Approval }

func (p *people) hooks() Hooks {
	return Hooks{Ask: func(_ context.Context, a policy.Approval) (policy.Decision, error) {
		p.asked = append(p.asked, a)
		return policy.Decision{Approve: true, By: "somebody"}, nil
	}}
}

// An agent that was called and calls back acts for its caller too, however it
// has authenticated itself.
func TestTracedActsForTheCaller(t *testing.T) {
	s := stage(t, upstream.Options{})
	key := seal.Random()
	d := New(Options{Key: key, Principal: lookupOf(ann, ben)})
	model := direct(ben).By(actor.ByModel("writer"))
	var p people
	if _, err := s.call(d, as(model), "write", "", p.hooks()); err != nil || s.box.chain == "" {
		t.Fatalf("chain %q, %v", s.box.chain, err)
	}
	if !d.Signed(s.box.chain) || len(ReadChain(s.box.chain)) != 1 {
		t.Fatalf("the chain is %s", s.box.chain)
	}
	text := s.box.chain
	back, err := d.Traced(as(direct(ann)), text)
	if err != nil {
		t.Fatal(err)
	}
	a := back.Actor
	if !a.IsModel() || a.Name() != "ann" || a.Depth() != 1 || a.Has(auth.RightApprove) || !a.Extends(direct(ann)) {
		t.Errorf("%+v", a.Record())
	}
	for server, want := range map[string]bool{"box": true, "mail": true, "other": false} {
		if a.InScope(server) != want {
			t.Errorf("%s is in scope: %t", server, !want)
		}
	}
	if again, err := d.TracedActor(a, text); err != nil || !again.Equal(a) {
		t.Errorf("the same chain once more: %+v, %v", again, err)
	}
	if own, err := d.TracedActor(model, text); err != nil || !own.Equal(model) {
		t.Errorf("brought by the caller itself: %+v, %v", own, err)
	}
	if later, err := d.TracedActor(a.By(actor.ByBatch()), text); err != nil || later.Depth() != 2 {
		t.Errorf("in a batch of the agent: %+v, %v", later, err)
	}
	// With a request, and through the next agent.
	req := requestOf(as(direct(ann)), `{"name":"write","arguments":{}}`)
	req.Meta = []wire.Field{{Name: []byte(MetaChain), Value: wire.Quote(text)}}
	if err := d.Trace(req); err != nil || !req.Client.Actor.Equal(a) {
		t.Errorf("traced by a request: %+v, %v", req.Client.Actor.Record(), err)
	}
	if _, err := s.call(d, as(a), "write", `,"_meta":{"stoa/chain":`+string(wire.Quote(text))+`}`, p.hooks()); err != nil {
		t.Fatal(err)
	}
	next, err := d.TracedActor(direct(ann), s.box.chain)
	if err != nil || !next.IsModel() || next.InScope("other") || len(ReadChain(s.box.chain)) != 2 {
		t.Errorf("two calls deep: %+v, %v", next.Record(), err)
	}
	if got := p.asked[len(p.asked)-1]; got.Principal != "ann" || got.Agent != "writer" || len(got.Through) != 1 || !strings.HasPrefix(got.Through[0], "agent box") {
		t.Errorf("asked %+v", got)
	}
}

func TestChainsAreChecked(t *testing.T) {
	s := stage(t, upstream.Options{})
	key := seal.Random()
	d := New(Options{Key: key, Principal: lookupOf(ann, ben)})
	if _, err := s.call(d, as(direct(ben)), "read", "", Hooks{}); err != nil {
		t.Fatal(err)
	}
	text := s.box.chain
	unsaid, err := key.Sign(chainPrefix, chain{Calls: []string{"c"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		d    *Door
		text string
		want fault.Kind // 0: it is taken
	}{
		"as it was":               {d, text, 0},
		"forged":                  {d, text[:len(text)-4] + "AAAA", fault.InvalidParams},
		"another text":            {d, "stoac1.e30.x", fault.InvalidParams},
		"none":                    {d, "", fault.InvalidParams},
		"another hub's":           {New(Options{Principal: lookupOf(ann, ben)}), text, fault.InvalidParams},
		"after another start":     {New(Options{Key: key, Principal: lookupOf(ann, ben)}), text, 0},
		"the caller's token gone": {New(Options{Key: key, Principal: lookupOf(ann)}), text, fault.Denied},
		"nobody is known":         {New(Options{Key: key}), text, fault.Denied},
		"without an actor":        {d, unsaid, 0},
	} {
		got, err := tc.d.TracedActor(direct(ann), tc.text)
		switch {
		case tc.want != 0 && (!fault.Is(err, tc.want) || got.Name() != ""):
			t.Errorf("%s: %+v, %v", name, got, err)
		case tc.want == 0 && (err != nil || got.Depth() != 1):
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if tc.text == unsaid && !got.IsModel() {
			t.Errorf("who is not said counts as a person")
		}
		req := requestOf(as(direct(ann)), `{"name":"read"}`)
		req.Meta = []wire.Field{{Name: []byte(MetaChain), Value: wire.Quote(tc.text)}}
		if err := tc.d.Trace(req); (err == nil) != (tc.want == 0) || err != nil && req.Client.Actor.Depth() != 0 {
			t.Errorf("%s, by a request: %v", name, err)
		}
	}
}

// An approval that a client carries on is good for one more round, of the same
// actor, at the same door.
func TestApprovalsAreUsedOnce(t *testing.T) {
	s := stage(t, upstream.Options{})
	key := seal.Random()
	always := compiled(policy.Rule{Tools: []string{"*"}, Action: policy.Ask})
	open := func() *Door { return New(Options{Key: key, Rules: always, Principal: lookupOf(ann, ben)}) }
	d := open()
	round := func(d *Door, a actor.Actor, p *people, state string) (string, error) {
		t.Helper()
		more := ""
		if state != "" {
			more = `,"inputResponses":{},"requestState":` + string(wire.Quote(state))
		}
		resp, err := s.call(d, as(a), "ask", more, p.hooks())
		text, _ := wire.String(wire.Get(resp.Result, "requestState"))
		return text, err
	}
	var p people
	first, err := round(d, direct(ann), &p, "")
	if err != nil || len(p.asked) != 1 || !strings.HasPrefix(first, statePrefix) {
		t.Fatalf("state %q, asked %d times, %v", first, len(p.asked), err)
	}
	second, err := round(d, direct(ann), &p, first)
	if err != nil || len(p.asked) != 1 || second == first {
		t.Fatalf("the second round: state %q, asked %d times, %v", second, len(p.asked), err)
	}
	if _, err := round(d, direct(ann), &p, first); err != nil || len(p.asked) != 2 {
		t.Errorf("the first state once more: asked %d times, %v", len(p.asked), err)
	}
	if _, err := round(open(), direct(ann), &p, second); err != nil || len(p.asked) != 3 {
		t.Errorf("after another start: asked %d times, %v", len(p.asked), err)
	}
	before := s.box.reached()
	for name, a := range map[string]actor.Actor{
		"a model": direct(ann).By(actor.ByModel("")), "for another": direct(ann).By(actor.ByAgent("box", "c", direct(ben))), "another": direct(ben),
	} {
		if _, err := round(d, a, &p, second); !fault.Is(err, fault.InvalidParams) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s.box.reached() != before || len(p.asked) != 3 {
		t.Errorf("others reached the server %d times, asked %d times", s.box.reached()-before, len(p.asked))
	}
	// None of these has used it up.
	if _, err := round(d, direct(ann).By(actor.ByTask()), &p, second); err != nil || len(p.asked) != 3 {
		t.Errorf("the second state, by a task of the same: asked %d times, %v", len(p.asked), err)
	}
	if _, err := round(d, direct(ann), &p, second); err != nil || len(p.asked) != 4 {
		t.Errorf("the second state once more: asked %d times, %v", len(p.asked), err)
	}
}

func TestSpentIsBounded(t *testing.T) {
	var s spent
	for i := range maxSpent / 2 {
		if !s.spend(fmt.Sprint("over", i), 1) {
			t.Fatal("not good")
		}
	}
	const late = 1 << 60
	for i := range maxSpent / 2 {
		if !s.spend(fmt.Sprint("lasts", i), late) {
			t.Fatal("not good")
		}
	}
	if s.spend("lasts0", late) || s.spend("over0", late) {
		t.Error("good twice")
	}
	for i := range maxSpent/2 + 10 { // there is room for those that are over
		if good := s.spend(fmt.Sprint("more", i), late); good != (i < maxSpent/2) {
			t.Fatalf("the %dth more: %t", i, good)
		}
		if len(s.m) > maxSpent {
			t.Fatalf("%d are remembered", len(s.m))
		}
	}
	if s.spend("lasts0", late) || s.spend("more0", late) {
		t.Error("what is full has forgotten")
	}
}

// The strictest counts of what the rules say to each whom an actor rests on.
func TestTheStrictestCounts(t *testing.T) {
	s := stage(t, upstream.Options{})
	hub := compiled(
		policy.Rule{Tools: []string{"box:write"}, Principals: []string{"ann"}, Action: policy.Allow},
		policy.Rule{Tools: []string{"box:write"}, Principals: []string{"ben"}, Action: policy.Ask, Reason: "ben is new"},
		policy.Rule{Tools: []string{"box:write"}, Principals: []string{"eve"}, Args: map[string]policy.Cond{"n": {Is: json.RawMessage("1")}}, Action: policy.Deny, Reason: "not one"},
	)
	eve := &auth.Principal{Name: "eve", Scopes: auth.Scopes{"*"}, Via: auth.ViaToken}
	ofAnn, ofBen, ofEve := direct(ann), direct(ben), direct(eve)
	for name, tc := range map[string]struct {
		tool  string
		rules *policy.Set
		agent policy.Action // what is said of the model writer; empty for nothing
		a     actor.Actor
		want  policy.Action
	}{
		"no rules, a person":                {"write", nil, "", ofBen, policy.Allow},
		"no rules, a model":                 {"write", nil, "", ofBen.By(actor.ByModel("")), policy.Ask},
		"no rules, a model that reads":      {"read", nil, "", ofBen.By(actor.ByModel("")), policy.Allow},
		"no rules, a model that adds":       {"add", nil, "", ofBen.By(actor.ByModel("")), policy.Allow},
		"no rules, a batch":                 {"write", nil, "", ofBen.By(actor.ByBatch()), policy.Allow},
		"no rules, for another":             {"write", nil, "", ofAnn.By(actor.ByAgent("x", "c", ofBen)), policy.Allow},
		"no rules, for a model":             {"write", nil, "", ofAnn.By(actor.ByAgent("x", "c", ofBen.By(actor.ByModel("")))), policy.Ask},
		"allowed":                           {"write", hub, "", ofAnn, policy.Allow},
		"asked":                             {"write", hub, "", ofBen, policy.Ask},
		"denied":                            {"write", hub, "", ofEve, policy.Deny},
		"allowed, for who is asked":         {"write", hub, "", ofAnn.By(actor.ByAgent("x", "c", ofBen)), policy.Ask},
		"asked, for who is allowed":         {"write", hub, "", ofBen.By(actor.ByAgent("x", "c", ofAnn)), policy.Ask},
		"a plan of who is denied":           {"write", hub, "", ofAnn.By(actor.ByRun("r", &ofEve)), policy.Deny},
		"allowed, steered by who is denied": {"write", hub, "", ofAnn.Steered(ofEve), policy.Deny},
		"a model of who is allowed":         {"write", hub, "", ofAnn.By(actor.ByModel("")), policy.Allow},
		"a model of who is denied":          {"write", hub, policy.Allow, ofEve.By(actor.ByModel("writer")), policy.Deny},
		"a model that is asked":             {"write", hub, policy.Ask, ofAnn.By(actor.ByModel("writer")), policy.Ask},
		"a model that is allowed":           {"write", nil, policy.Allow, ofAnn.By(actor.ByModel("writer")), policy.Allow},
		"one of two models":                 {"write", nil, policy.Allow, ofAnn.By(actor.ByModel("writer")).By(actor.ByModel("other")), policy.Ask},
		"the other of two":                  {"write", nil, policy.Allow, ofAnn.By(actor.ByModel("other")).By(actor.ByModel("writer")), policy.Ask},
	} {
		d := New(Options{Rules: tc.rules})
		d.RuleAgents(func(agent string) Agent {
			if agent != "writer" || tc.agent == "" {
				return Agent{}
			}
			return Agent{Rules: []*policy.Set{compiled(policy.Rule{Tools: []string{"*"}, Action: tc.agent})}}
		})
		before := s.box.reached()
		var p people
		_, err := s.call(d, as(tc.a), tc.tool, "", p.hooks())
		switch {
		case tc.want == policy.Deny && (!fault.Is(err, fault.Denied) || s.box.reached() != before || len(p.asked) != 0):
			t.Errorf("%s: %v, asked %d times", name, err, len(p.asked))
		case tc.want != policy.Deny && (err != nil || s.box.reached() != before+1 || len(p.asked) == 1 != (tc.want == policy.Ask)):
			t.Errorf("%s: %v, asked %d times", name, err, len(p.asked))
		}
		if got := d.Explain(t.Context(), as(tc.a), "", s.cat.Now().Tool("box", tc.tool), []byte(`{"n":1}`)); got.Action != tc.want || !got.Visible {
			t.Errorf("%s: explained as %+v", name, got)
		}
	}
}

// seen are the tools of the box that an actor sees. What it does not see it
// cannot call either, and is told nothing else than of a tool that is not there.
func (s *scene) seen(d *Door, a actor.Actor) (out []string) {
	s.t.Helper()
	v := d.View(as(a), "")
	var p people
	for _, name := range []string{"read", "add", "write", "ask"} {
		it := s.cat.Now().Tool("box", name)
		before := s.box.reached()
		_, err := s.call(d, as(a), name, "", p.hooks())
		if v.Item(it) != (err == nil) || err != nil && (!fault.Is(err, fault.UnknownTool) || s.box.reached() != before || !strings.HasSuffix(err.Error(), "unknown tool")) {
			s.t.Errorf("%s is seen: %t, called: %v", name, v.Item(it), err)
		}
		if v.Item(it) {
			out = append(out, name)
		}
	}
	return out
}

func TestWhatOnePartyMayNotSeeIsNotThere(t *testing.T) {
	handling := func(tool string) catalog.Handling {
		if tool == "ask" {
			return catalog.Handling{Only: "ben"}
		}
		return catalog.Handling{}
	}
	s := stage(t, upstream.Options{Handling: handling})
	other := &auth.Principal{Name: "other", Scopes: auth.Scopes{"mail"}, Via: auth.ViaToken}
	rules := compiled(
		policy.Rule{Tools: []string{"box:write"}, Principals: []string{"ben"}, Action: policy.Deny},
		policy.Rule{Tools: []string{"box:add"}, Args: map[string]policy.Cond{"n": {Is: json.RawMessage("2")}}, Action: policy.Deny},
	)
	ofAnn, ofBen, nobody := direct(ann), direct(ben), actor.Actor{}
	for name, tc := range map[string]struct {
		rules *policy.Set
		a     actor.Actor
		want  string
	}{
		"without rules":              {nil, ofAnn, "read add write"},
		"a private one":              {nil, ofBen, "read add write ask"},
		"out of scope":               {nil, direct(other), ""},
		"nobody":                     {nil, nobody, ""},
		"through one out of scope":   {nil, ofAnn.By(actor.ByAgent("x", "c", direct(other))), ""},
		"through nobody":             {nil, ofAnn.By(actor.ByAgent("x", "c", nobody)), ""},
		"not the owner of it behind": {nil, ofBen.By(actor.ByAgent("x", "c", ofAnn)), "read add write"},
		"nor in front":               {nil, ofAnn.By(actor.ByAgent("x", "c", ofBen)), "read add write"},
		"the owner of it behind":     {nil, ofBen.By(actor.ByAgent("x", "c", ofBen)), "read add write ask"},
		"with rules":                 {rules, ofAnn, "read add write"},
		"denied":                     {rules, ofBen, "read add ask"},
		"denied for one behind":      {rules, ofAnn.By(actor.ByRun("r", &ofBen)), "read add"},
		"a model":                    {rules, ofAnn.By(actor.ByModel("")), "read add write"},
		"a model with few tools":     {rules, ofAnn.By(actor.ByModel("reader")), "read"},
		"one of two models":          {nil, ofAnn.By(actor.ByModel("reader")).By(actor.ByModel("")), "read"},
		"a model of one behind":      {nil, ofAnn.By(actor.ByAgent("x", "c", ofAnn.By(actor.ByModel("reader")))), "read"},
		"a model that is denied":     {nil, ofAnn.By(actor.ByModel("careful")), "read add"},
	} {
		d := New(Options{Rules: tc.rules})
		d.RuleAgents(func(agent string) Agent {
			switch agent {
			case "reader":
				return Agent{Tools: [][]string{{"box__*", "mail"}, nil, {"*:read"}}}
			case "careful":
				return Agent{Rules: []*policy.Set{compiled(policy.Rule{Tools: []string{"box:write"}, Action: policy.Deny})}}
			}
			return Agent{}
		})
		if diff := cmp.Diff(tc.want, strings.Join(s.seen(d, tc.a), " ")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// What a server is switched off for is not there, whoever asks.
func TestWhatIsOffIsNotThere(t *testing.T) {
	s := stage(t, upstream.Options{})
	d := New(Options{})
	d.Switch(map[string]bool{"box": false})
	if got := s.seen(d, direct(ann)); got != nil || !d.Off("box") || d.Sees(actor.HTTP, ann, "box") {
		t.Errorf("seen %q", got)
	}
	d.Switch(nil)
	if got := s.seen(d, direct(ann)); len(got) != 4 || !d.Sees(actor.HTTP, ann, "box") {
		t.Errorf("seen %q", got)
	}
}

// What does nothing but call other tools is not asked for: they are.
func TestCarriersAreNotAskedFor(t *testing.T) {
	s := stage(t, upstream.Options{Handling: func(tool string) catalog.Handling { return catalog.Handling{Carrier: tool == "write"} }})
	d := New(Options{})
	a := direct(ann).By(actor.ByModel(""))
	for tool, want := range map[string]int{"write": 0, "ask": 1} {
		var p people
		if _, err := s.call(d, as(a), tool, "", p.hooks()); err != nil || len(p.asked) != want {
			t.Errorf("%s: asked %d times, %v", tool, len(p.asked), err)
		}
	}
}

// What a definition says of itself counts only if it is trusted, for rules as for
// models.
func TestAnnotationsCountIfTrusted(t *testing.T) {
	yes := true
	onlyReads := policy.Compile(policy.Rules{Default: policy.Deny, Rules: []policy.Rule{{ReadOnly: &yes, Action: policy.Allow}}}, nil)
	for _, trusted := range []bool{true, false} {
		s := stage(t, upstream.Options{Distrust: !trusted})
		asked := 1
		if trusted {
			asked = 0
		}
		for _, tool := range []string{"read", "add"} {
			var p people
			if _, err := s.call(New(Options{}), as(direct(ann).By(actor.ByModel(""))), tool, "", p.hooks()); err != nil || len(p.asked) != asked {
				t.Errorf("%s, trusted %t: asked %d times, %v", tool, trusted, len(p.asked), err)
			}
		}
		if got := s.seen(New(Options{Rules: onlyReads}), direct(ann)); len(got) != 1-asked {
			t.Errorf("trusted %t: seen %q", trusted, got)
		}
	}
}

// Who makes a call can have a person asked where the policy would not, but
// cannot have what is denied.
func TestMustAsk(t *testing.T) {
	s := stage(t, upstream.Options{})
	for name, tc := range map[string]struct {
		rules *policy.Set
		tool  string
		want  fault.Kind
		asked int
	}{
		"no rules": {nil, "read", 0, 1},
		"allowed":  {compiled(policy.Rule{Action: policy.Allow}), "read", 0, 1},
		"denied":   {compiled(policy.Rule{Args: map[string]policy.Cond{"n": {Is: json.RawMessage("1")}}, Action: policy.Deny}), "read", fault.Denied, 0},
	} {
		var p people
		h := p.hooks()
		h.MustAsk = "the plan says so"
		_, err := s.call(New(Options{Rules: tc.rules}), as(direct(ann)), tc.tool, "", h)
		if tc.want == 0 && err != nil || tc.want != 0 && !fault.Is(err, tc.want) || len(p.asked) != tc.asked {
			t.Errorf("%s: asked %d times, %v", name, len(p.asked), err)
		}
		if tc.asked == 1 && (len(p.asked) == 1 && p.asked[0].Reason != "the plan says so") {
			t.Errorf("%s: asked because %q", name, p.asked[0].Reason)
		}
	}
	_, err := s.call(New(Options{}), as(direct(ann)), "read", "", Hooks{MustAsk: "the plan says so"})
	if !fault.Is(err, fault.ApprovalRequired) {
		t.Errorf("where nobody can be asked: %v", err)
	}
}
