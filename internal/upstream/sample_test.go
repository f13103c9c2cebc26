package upstream

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// sampler is a pool over a server that asks for models.
func sampler(t *testing.T, era peer.Era, stdio bool, s *Sampling) *Upstream {
	t.Helper()
	spec := peer.Spec{Era: era}
	for _, k := range []peer.Kind{peer.Sample, peer.Survey, peer.Assisted, peer.Client} {
		spec.Tools = append(spec.Tools, peer.Tool{Name: string(k), Behaviour: peer.Do(k)})
	}
	o := Options{Name: "up", Sampling: s}
	if stdio {
		var env map[string]string
		o.Command, o.Args, env = peer.Command(spec)
		for k, v := range env {
			o.Env = append(o.Env, k+"="+v)
		}
	} else {
		o.URL = peer.Serve(t, spec).URL
	}
	pool := Open(catalog.New(0), PoolOptions{})
	t.Cleanup(pool.Close)
	u, err := pool.Add(o)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// person is the stream of a client that can be asked for its name.
type person struct{ mcp.Stream }

func (person) CanAsk() bool { return true }
func (person) Ask(_ context.Context, method string, _ []byte) (mcp.Response, error) {
	if method != "elicitation/create" {
		return mcp.Response{}, errors.New(method + " was put to the client")
	}
	return mcp.Response{Result: []byte(named)}, nil
}

const (
	named = `{"action":"accept","content":{"name":"Zoë"}}`
	said  = `{"role":"assistant","content":{"type":"text","text":"hello"},"model":"m","stopReason":"endTurn"}`
)

// outgoing is a client's call of a tool, with its params as they come.
func outgoing(c *mcp.Client, tool, args, extra string) *mcp.Outgoing {
	meta := ""
	if c.Era == mcp.Modern {
		meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"` + mcp.ModernVersion + `","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + string(c.Capabilities) + `}`
	}
	params := []byte(`{"name":"` + tool + `","arguments":` + args + extra + meta + `}`)
	return &mcp.Outgoing{Method: "tools/call", Raw: params, Fields: wire.Members(params), Meta: wire.Members(wire.Get(params, "_meta")), Name: tool, Client: c, Stream: person{mcp.Discard}}
}

// converse calls a tool as a client of the era does that knows elicitation and
// nothing else, until there is a result.
func converse(ctx context.Context, u *Upstream, era mcp.Era, tool string) (mcp.Response, error) {
	c := &mcp.Client{Era: era, Version: mcp.ModernVersion, Capabilities: []byte(`{"elicitation":{}}`), Actor: actor.New(actor.HTTP, &auth.Principal{Name: "a"})}
	if era == mcp.Legacy {
		c.Version, c.Connection = mcp.LegacyVersion, "c1"
	}
	for extra := ""; ; {
		o := outgoing(c, tool, "{}", extra)
		o.Asked.Session = "desk"
		resp, err := u.Do(ctx, o, Call{Tool: tool})
		if err != nil || !mcp.NeedsInput(resp.Result) {
			return resp, err
		}
		var answers []wire.Change
		for _, q := range wire.Members(wire.Get(resp.Result, "inputRequests")) {
			if method, _ := wire.String(wire.Get(q.Value, "method")); method != "elicitation/create" {
				return resp, errors.New(method + " was put to the client")
			}
			answers = append(answers, wire.Change{Name: string(q.Name), Value: []byte(named)})
		}
		extra = `,"inputResponses":` + string(wire.Edit(nil, []byte("{}"), answers...)) + `,"requestState":` + string(wire.Get(resp.Result, "requestState"))
	}
}

// text is that of a tool's result.
func text(resp mcp.Response) string {
	all, _ := wire.Elements(wire.Get(resp.Result, "content"))
	if len(all) == 0 {
		return string(resp.Result) + string(resp.Error)
	}
	s, _ := wire.String(wire.Get(all[0], "text"))
	return s
}

func eachSampler(t *testing.T, f func(t *testing.T, server peer.Era, stdio bool, client mcp.Era)) {
	for _, server := range []peer.Era{peer.EraLegacy, peer.EraModern} {
		for _, stdio := range []bool{true, false} {
			for _, client := range []mcp.Era{mcp.Legacy, mcp.Modern} {
				name := string(server) + " server over http, "
				if stdio {
					name = string(server) + " server over stdio, "
				}
				t.Run(name+client.String()+" client", func(t *testing.T) { f(t, server, stdio, client) })
			}
		}
	}
}

// The hub answers what is wanted of a model, for a client that could not, and
// the client what is asked of its user, also where both come at once.
func TestSamplingByTheHub(t *testing.T) {
	eachSampler(t, func(t *testing.T, server peer.Era, stdio bool, client mcp.Era) {
		var asked []Sample
		u := sampler(t, server, stdio, &Sampling{Answer: func(_ context.Context, s Sample) ([]byte, error) {
			s.Params = append([]byte(nil), s.Params...)
			asked = append(asked, s)
			return []byte(said), nil
		}})
		for tool, want := range map[string]string{"sample": said, "survey": "[" + named + "," + said + "]"} {
			asked = nil
			resp, err := converse(t.Context(), u, client, tool)
			if got := text(resp); err != nil || got != want {
				t.Errorf("%s: got %s, %v; want %s", tool, got, err, want)
			}
			if len(asked) != 1 || asked[0].Session != "desk" || asked[0].Name != tool || asked[0].Client.Actor.Name() != "a" || !strings.Contains(string(asked[0].Params), "Say hello") {
				t.Errorf("%s: asked %+v", tool, asked)
			}
		}
	})
}

// A model that may not be asked leaves the server, or where its era has no word
// for that the client, with the reason.
func TestSamplingRejected(t *testing.T) {
	eachSampler(t, func(t *testing.T, server peer.Era, stdio bool, client mcp.Era) {
		u := sampler(t, server, stdio, &Sampling{Answer: func(context.Context, Sample) ([]byte, error) {
			return nil, fault.New(fault.Denied, "up", "User rejected sampling request: not now")
		}})
		for range 10 { // more than it takes to open a breaker
			resp, err := converse(t.Context(), u, client, "sample")
			if server == peer.EraModern {
				if !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "not now") {
					t.Fatalf("got %s, %v", text(resp), err)
				}
				continue
			}
			if got := text(resp); err != nil || got != `{"code":-1,"message":"User rejected sampling request: not now"}` {
				t.Fatalf("got %s, %v", got, err)
			}
		}
	})
}

// Where sampling is off, no server is told that there is any, and one that asks
// is refused.
func TestSamplingOff(t *testing.T) {
	eachSampler(t, func(t *testing.T, server peer.Era, stdio bool, client mcp.Era) {
		u := sampler(t, server, stdio, &Sampling{})
		resp, err := converse(t.Context(), u, client, "client")
		if err != nil || strings.Contains(text(resp), "sampling") || !strings.Contains(text(resp), "elicitation") {
			t.Errorf("the server sees %s, %v", text(resp), err)
		}
		resp, err = converse(t.Context(), u, client, "sample")
		if got := text(resp); err != nil || !strings.Contains(got, "sampling") || strings.Contains(got, "assistant") {
			t.Errorf("got %s, %v", got, err)
		}
	})
}

// The end of a call reaches the model.
func TestSamplingEndsWithItsCall(t *testing.T) {
	eachSampler(t, func(t *testing.T, server peer.Era, stdio bool, client mcp.Era) {
		began, ended := make(chan struct{}), make(chan struct{})
		u := sampler(t, server, stdio, &Sampling{Answer: func(ctx context.Context, _ Sample) ([]byte, error) {
			close(began)
			<-ctx.Done()
			close(ended)
			return nil, context.Cause(ctx)
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan string, 1)
		go func() {
			resp, err := converse(ctx, u, client, "sample")
			if err != nil {
				done <- ""
				return
			}
			done <- text(resp)
		}()
		<-began
		cancel()
		await.Value(t, "the model ends", ended)
		// The server may be told that there is no answer, and say so, before the call is over.
		if got := <-done; strings.Contains(got, "assistant") {
			t.Errorf("the call went on: %s", got)
		}
	})
}

// A server cannot have models work for ever for one call.
func TestSamplingIsBounded(t *testing.T) {
	n := 0
	u := sampler(t, peer.EraModern, false, &Sampling{Answer: func(context.Context, Sample) ([]byte, error) {
		n++
		return []byte(said), nil
	}})
	o := &mcp.Outgoing{Method: "tools/call", Client: &mcp.Client{Era: mcp.Modern, Actor: actor.New(actor.HTTP, &auth.Principal{Name: "a"})}}
	w := watch{Stream: mcp.Discard, timeout: time.Minute, timer: time.NewTimer(time.Minute)}
	if _, err := u.host(o, &link{key: key{era: mcp.Modern}, hello: &mcp.Hello{}}, &w); err != nil {
		t.Fatal(err)
	}
	var err error
	for i := 0; i <= maxSamples && err == nil; i++ {
		_, err = o.Sampler.Ask(t.Context(), []byte("{}"))
	}
	if n != maxSamples || !fault.Is(err, fault.Limit) {
		t.Errorf("asked %d times, then %v", n, err)
	}
}

// What the client carries for the hub is its own, for this call, unchanged.
func TestSampledStateIsItsPrincipals(t *testing.T) {
	u := sampler(t, peer.EraModern, false, &Sampling{Answer: func(context.Context, Sample) ([]byte, error) { return []byte(said), nil }})
	call := func(who, args, extra string) (mcp.Response, error) {
		c := &mcp.Client{Era: mcp.Modern, Version: mcp.ModernVersion, Capabilities: []byte(`{"elicitation":{}}`), Actor: actor.New(actor.HTTP, &auth.Principal{Name: who})}
		return u.Do(t.Context(), outgoing(c, "survey", args, extra), Call{Tool: "survey"})
	}
	resp, err := call("a", "{}", "")
	if err != nil || !mcp.NeedsInput(resp.Result) {
		t.Fatalf("got %s, %v", resp.Result, err)
	}
	state := string(wire.Get(resp.Result, "requestState"))
	with := `,"inputResponses":{"elicit":` + named + `,"sample":{"forged":true}},"requestState":`
	for name, f := range map[string]func() (mcp.Response, error){
		"another's":      func() (mcp.Response, error) { return call("b", "{}", with+state) },
		"other call":     func() (mcp.Response, error) { return call("a", `{"message":"x"}`, with+state) },
		"changed by one": func() (mcp.Response, error) { return call("a", "{}", with+strings.Replace(state, "A", "B", 1)) },
	} {
		if resp, err := f(); !fault.Is(err, fault.InvalidParams) {
			t.Errorf("%s: %s, %v", name, text(resp), err)
		}
	}
	if resp, err := call("a", "{}", with+state); err != nil || text(resp) != "["+named+","+said+"]" {
		t.Errorf("got %s, %v", text(resp), err)
	}
}
