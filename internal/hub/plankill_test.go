package hub_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// planPeer is the upstream of plans. It outlives all hubs and notes every
// request: once bears no repetition, again and undo do, no fails.
func planPeer(t *testing.T) *peer.HTTPServer {
	compute := peer.Behaviour{Kind: peer.Compute}
	repeatable := func(name string) peer.Tool {
		return peer.Tool{Name: name, Behaviour: compute, RawDefinition: peer.Raw(`{"name":"` + name + `","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}}`)}
	}
	return peer.Serve(t, peer.Spec{Era: peer.EraModern, Tools: []peer.Tool{
		{Name: "once", Behaviour: compute}, repeatable("again"), repeatable("undo"),
		{Name: "no", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: `{"resultType":"complete","content":[{"type":"text","text":"not today"}],"isError":true}`}},
	}})
}

// randomPlan makes a plan of which every call says whose it is.
func randomPlan(r *rand.Rand, name string) *plan.Plan {
	p := &plan.Plan{Title: name, Rollback: r.IntN(3) == 0, Inputs: []plan.Input{{Name: "list", Default: json.RawMessage([]string{`[]`, `[1]`, `[1,2,3]`}[r.IntN(3)])}}}
	text := func(v any) json.RawMessage {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return b
	}
	for i := range 1 + r.IntN(6) {
		s := plan.Step{ID: fmt.Sprintf("step_%d", i+1), Tool: []string{"up__once", "up__again", "up__again"}[r.IntN(3)], BackoffMS: 10}
		args := map[string]any{"seconds": float64(r.IntN(60)) / 1000, "of": name}
		if i > 0 && r.IntN(2) == 0 {
			args["from"] = fmt.Sprintf("@step_%d", 1+r.IntN(i))
		}
		if i > 0 && r.IntN(4) == 0 {
			s.After = []string{fmt.Sprintf("step_%d", 1+r.IntN(i))}
		}
		if r.IntN(5) == 0 {
			s.ForEach = &plan.ForEach{In: "@list", As: "item"}
			args["item"] = "@item"
		}
		if r.IntN(3) == 0 {
			s.Outputs = []string{fmt.Sprintf("out%d", i)}
		}
		if r.IntN(8) == 0 {
			s.Tool = "up__no"
			s.OnError = []plan.OnError{plan.Stop, plan.Continue, plan.FallBack}[r.IntN(3)]
			if s.OnError == plan.FallBack {
				s.Fallback = &plan.Fallback{Tool: "up__again", Args: text(map[string]any{"of": name})}
			}
		}
		s.Args = text(args)
		if r.IntN(3) == 0 {
			s.Compensate = &plan.Invocation{Tool: "up__undo", Args: text(map[string]any{"of": name})}
		}
		p.Steps = append(p.Steps, s)
	}
	r.Shuffle(len(p.Steps), func(i, j int) { p.Steps[i], p.Steps[j] = p.Steps[j], p.Steps[i] })
	return p
}

// planner runs plans through hubs that are killed under it, each in a session
// of its own.
type planner struct {
	d     func() *durable // the hub to speak to
	http  *http.Client
	rnd   *rand.Rand
	begun *atomic.Int64
	names []string
}

func (p *planner) step() error {
	name := fmt.Sprintf("p%d", nextName.Add(1))
	raw, err := json.Marshal(randomPlan(p.rnd, name))
	if err != nil {
		return err
	}
	p.names = append(p.names, name)
	_, err = p.d().tool(p.http, name, "plan_execute", `{"plan":`+string(raw)+`,"options":{"retries":1},"maxParallel":3}`)
	switch {
	case err == nil:
	case !errors.Is(err, errRefused): // nobody knows whether it was begun
		return p.wait()
	case !mayBeRefused(err.Error()):
		return err
	}
	p.begun.Add(1)
	return nil
}

// wait waits until a hub answers again.
func (p *planner) wait() error {
	end := time.Now().Add(await.Patience)
	for tick := time.NewTicker(25 * time.Millisecond); ; <-tick.C {
		_, err := p.d().tool(p.http, "nobody", "context_list", `{}`)
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("no hub answers: %w", err)
		}
	}
}

// mayBeRefused says whether a run may have ended, or not begun, with that.
func mayBeRefused(text string) bool {
	for _, why := range []string{"is failed: step ", "not been reached yet", "the hub is stopping", "cannot be called", "store"} {
		if strings.Contains(text, why) {
			return true
		}
	}
	return false
}

// settled waits until no run goes on any more.
func (p *planner) settled(t *testing.T, patience time.Duration) {
	t.Helper()
	for _, name := range p.names {
		end := time.Now().Add(patience)
		var got string
		for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
			a, err := p.d().tool(p.http, name, "plan_status", `{"sessionId":"current"}`)
			if err != nil && strings.Contains(err.Error(), "the session has no run") {
				break // it was not begun
			}
			var v struct{ Run plan.View }
			if err == nil {
				err = json.Unmarshal(a.Data, &v)
			}
			got = fmt.Sprint(string(v.Run.Status), " ", err)
			if err == nil && (v.Run.Status.Over() || v.Run.Status == plan.Paused) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("the run of %s does not end: %s", name, got)
			}
		}
	}
}

// planners begin runs until so many were begun.
func planners(t *testing.T, n int, wanted int64, d func() *durable) (all []*planner, begun *atomic.Int64, wait func()) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	begun = &atomic.Int64{}
	var wg sync.WaitGroup
	for i := range n {
		p := &planner{d: d, http: &http.Client{Transport: &http.Transport{}}, rnd: rand.New(rand.NewPCG(seed, uint64(i))), begun: begun}
		all = append(all, p)
		t.Cleanup(p.http.CloseIdleConnections)
		wg.Go(func() {
			for begun.Load() < wanted && !t.Failed() {
				if err := p.step(); err != nil {
					t.Errorf("planner %d: %v", i, err)
					return
				}
			}
		})
	}
	t.Cleanup(wg.Wait)
	return all, begun, wg.Wait
}

// TestKilledHubWithPlans kills the hub at random moments under runs of random
// plans. Every run completes or stops with a true reason, no recorded call is
// made again, and none is lost.
func TestKilledHubWithPlans(t *testing.T) {
	hubtest.Parallel(t)
	killedWithPlans(t, storetest.Folder(), soak(4, 80), soak(36, 1000))
}

func killedWithPlans(t *testing.T, f storetest.Form, kills, count int) {
	wanted, web := int64(count), planPeer(t)
	d := newDurableIn(t, web.URL, f)
	all, begun, wait := planners(t, 6, wanted, func() *durable { return d })
	d.killOften(t, f, "plan", kills, wanted, begun, rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 99)))
	wait()
	d.kill(t)
	d.start(t)
	for _, p := range all {
		p.settled(t, 2*await.Patience)
	}
	d.stop(t)
	kept := f.Options
	if kept.URL == "" {
		kept.Dir = hub.StoreDir(d.data)
	}
	sum := checkJournals(t, storetest.Open(t, kept), web)
	if sum.runs == 0 || sum.done == 0 {
		t.Errorf("it shows nothing: %+v", sum)
	}
	t.Logf("%+v, %d kills", sum, kills+1)
}

// TestPlansOfTwoHubs has two hubs on one store, of which one is killed for
// good: the other goes on with its runs.
func TestPlansOfTwoHubs(t *testing.T) {
	hubtest.Parallel(t)
	wanted := int64(soak(20, 300))
	web, server := planPeer(t), storetest.StartServer(t)
	hubs := []*durable{newDurableOn(t, web.URL, "| "+server.URL), newDurableOn(t, web.URL, "| "+server.URL)}
	var killed atomic.Bool
	var turn atomic.Int64
	all, begun, wait := planners(t, 6, wanted, func() *durable {
		if killed.Load() {
			return hubs[1]
		}
		return hubs[turn.Add(1)%2]
	})
	await.Until(t, "half of them are begun", func() bool { return begun.Load() >= wanted/2 || t.Failed() })
	killed.Store(true)
	hubs[0].kill(t)
	wait()
	for _, p := range all {
		p.settled(t, 2*await.Patience)
	}
	hubs[1].stop(t)
	sum := checkJournals(t, storetest.Open(t, store.Options{URL: server.URL}), web)
	if sum.done == 0 {
		t.Errorf("it shows nothing: %+v", sum)
	}
	t.Logf("%+v", sum)
}

// TestPlansOfAStalledHub stops the process of a hub for longer than its leases
// last. The other goes on with its runs, and when the first wakes up it does
// not.
func TestPlansOfAStalledHub(t *testing.T) {
	hubtest.Parallel(t)
	if testing.Short() {
		t.Skip("a lease takes a while to end")
	}
	web, server := planPeer(t), storetest.StartServer(t)
	a, b := newDurableOn(t, web.URL, "| "+server.URL), newDurableOn(t, web.URL, "| "+server.URL)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 5))
	on := func(d *durable) func() *durable { return func() *durable { return d } }
	if err := (&planner{d: on(a), http: client}).wait(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var names []string
	for i := range soak(12, 60) {
		name := fmt.Sprintf("stalled%d", i)
		names = append(names, name)
		raw, err := json.Marshal(randomPlan(rnd, name))
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if _, err := a.tool(client, name, "plan_execute", `{"plan":`+string(raw)+`,"options":{"retries":1}}`); errors.Is(err, errRefused) && !mayBeRefused(err.Error()) {
				t.Error(err)
			}
		})
	}
	await.Until(t, "some are under way", func() bool { return len(web.Requests()) > 10 })
	if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p := &planner{d: on(b), http: client, names: names}
	p.settled(t, await.Patience)
	if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	p.d = on(a)
	p.settled(t, await.Patience)
	a.stop(t)
	b.stop(t)
	t.Logf("%+v", checkJournals(t, storetest.Open(t, store.Options{URL: server.URL}), web))
}
