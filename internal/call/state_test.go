package call

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/seal"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/upstream"
	"github.com/stoahub/stoa/internal/wire"
)

// door is one with Sessions that nothing has been stored in.
func door(t testing.TB) *Door {
	t.Helper()
	r, err := session.Open(context.Background(), nil, session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return New(Options{Sessions: r, Key: seal.Random()})
}

// idle is an upstream that nobody has asked for yet.
func idle(t testing.TB, name string) *upstream.Upstream {
	t.Helper()
	cat := catalog.New(time.Millisecond)
	pool := upstream.Open(cat, upstream.PoolOptions{})
	t.Cleanup(func() {
		cat.Close()
		pool.Close()
	})
	u, err := pool.Add(upstream.Options{Name: name, URL: "http://127.0.0.1:1/mcp", Lazy: true})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func requestOf(client *mcp.Client, params string) *mcp.Request {
	return &mcp.Request{Method: "tools/call", Params: []byte(params), Fields: wire.Members([]byte(params)), Client: client, Stream: mcp.Discard}
}

func modernCaller() *mcp.Client {
	return &mcp.Client{Era: mcp.Modern, Version: mcp.ModernVersion, Actor: actor.New(actor.HTTP, auth.Local)}
}

// What a client brings back is taken only from who was given it, for the same
// call, and for a while.
func TestContinuationsAreChecked(t *testing.T) {
	d, u := door(t), idle(t, "up")
	const params = `{"name":"up__ask","arguments":{"v":"@doc"}}`
	used := []session.Used{{Name: "doc", Version: 3, Entry: 7}}
	fresh := continuation{State: []byte(`"theirs"`), Used: used, Upstream: "up", Principal: auth.LocalName, Digest: digest(requestOf(modernCaller(), params)), Expires: time.Now().Add(time.Minute).UnixMilli()}
	for name, tc := range map[string]struct {
		change func(*continuation)
		key    seal.Key
		params string
		want   fault.Kind // 0: it is taken
	}{
		"as it was":         {func(*continuation) {}, d.key, params, 0},
		"too late":          {func(k *continuation) { k.Expires = time.Now().Add(-time.Millisecond).UnixMilli() }, d.key, params, fault.ContinuationLost},
		"another principal": {func(k *continuation) { k.Principal = "bob" }, d.key, params, fault.InvalidParams},
		"another upstream":  {func(k *continuation) { k.Upstream = "down" }, d.key, params, fault.InvalidParams},
		"other arguments":   {func(*continuation) {}, d.key, strings.Replace(params, "@doc", "@other", 1), fault.InvalidParams},
		"another tool":      {func(*continuation) {}, d.key, strings.Replace(params, "ask", "tell", 1), fault.InvalidParams},
		"another hub":       {func(*continuation) {}, seal.Random(), params, fault.InvalidParams},
	} {
		k := fresh
		tc.change(&k)
		state, err := tc.key.Sign(statePrefix, k)
		if err != nil {
			t.Fatal(err)
		}
		c := &Call{Req: requestOf(modernCaller(), strings.TrimSuffix(tc.params, "}")+`,"requestState":`+string(wire.Quote(state))+`}`), Upstream: u, Kept: true}
		var got toolCall
		pins, err := d.unwrap(c, &got)
		switch {
		case tc.want != 0 && !fault.Is(err, tc.want):
			t.Errorf("%s: %v", name, err)
		case tc.want == 0 && (err != nil || len(pins) != 1 || pins[0] != used[0] || !got.resumed || string(got.state) != `"theirs"`):
			t.Errorf("%s: %v, %v, %+v", name, pins, err, got)
		}
	}
	// States of others are none of ours.
	for _, state := range []string{`"theirs"`, `"stoar"`, `""`, `7`} {
		c := &Call{Req: requestOf(modernCaller(), `{"name":"up__ask","requestState":`+state+`}`), Upstream: u, Kept: true}
		var got toolCall
		if pins, err := d.unwrap(c, &got); pins != nil || err != nil || got.resumed {
			t.Errorf("%s: %v, %v", state, pins, err)
		}
	}
}

// A call that has nothing to do with Sessions pays nothing for them.
func TestPlainCallsCostNothingMore(t *testing.T) {
	d := door(t)
	d.names.n.Store(1 << 20) // small numbers are written for less
	it := tool(t, `{"name":"t","inputSchema":{"type":"object"}}`)
	const params = `{"name":"u__t","arguments":{"path":"notes/todo.md","at":"someone@example.org","n":12}}`
	result := []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("a line of the result ", 100) + `"}]}`)
	for _, client := range []*mcp.Client{modernCaller(), {Era: mcp.Legacy, Version: mcp.LegacyVersion, Actor: actor.New(actor.HTTP, auth.Local), Connection: "C"}} {
		cost := func(kept bool) float64 {
			c := &Call{Req: requestOf(client, params), Item: it, Kept: kept, References: kept}
			return testing.AllocsPerRun(200, func() {
				var got toolCall
				if err := d.prepare(context.Background(), c, &got); err != nil {
					t.Fatal(err)
				}
				resp, err := d.conclude(context.Background(), c, &got, mcp.Response{Result: result})
				if err != nil || len(resp.Result) != len(result) {
					t.Fatalf("%v, %s", err, resp.Result)
				}
			})
		}
		if plain, kept := cost(false), cost(true); kept > plain {
			t.Errorf("%v allocations with Sessions, %v without", kept, plain)
		}
	}
}

func BenchmarkPlainCall(b *testing.B) {
	d := door(b)
	it, err := catalog.Parse(catalog.Tool, "u", []byte(`{"name":"t","inputSchema":{"type":"object"}}`))
	if err != nil {
		b.Fatal(err)
	}
	c := &Call{Req: requestOf(modernCaller(), `{"name":"u__t","arguments":{"path":"notes/todo.md","n":12}}`), Item: it, Kept: true, References: true}
	result := []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("a line of the result ", 100) + `"}]}`)
	b.ReportAllocs()
	for b.Loop() {
		var got toolCall
		if err := d.prepare(context.Background(), c, &got); err != nil {
			b.Fatal(err)
		}
		if _, err := d.conclude(context.Background(), c, &got, mcp.Response{Result: result}); err != nil {
			b.Fatal(err)
		}
	}
}
