package hub_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/collector"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// figures watches the metrics of a hub, and which of them have moved.
type figures struct {
	t     *testing.T
	h     *hubtest.Hub
	moved map[string]bool
}

// value is one series; 0 if there is none.
func (f *figures) value(series string) float64 {
	_, page := f.h.Get("/metrics")
	return f.of(page, series)
}

func (f *figures) of(page []byte, series string) float64 {
	for line := range strings.Lines(string(page)) {
		if name, text, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == series {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				f.t.Fatalf("%s: %v", line, err)
			}
			return v
		}
	}
	return 0
}

// rises does something that makes each series rise.
func (f *figures) rises(do func(), series ...string) {
	f.t.Helper()
	before := map[string]float64{}
	_, page := f.h.Get("/metrics")
	for _, s := range series {
		before[s] = f.of(page, s)
	}
	do()
	for _, s := range series {
		await.Until(f.t, fmt.Sprintf("%s is over %v", s, before[s]), func() bool { return f.value(s) > before[s] })
		name, _, _ := strings.Cut(s, "{")
		f.moved[strings.TrimSuffix(name, "_count")] = true
	}
}

// becomes waits until a series has a value.
func (f *figures) becomes(series string, want float64) {
	f.t.Helper()
	await.Until(f.t, fmt.Sprintf("%s is %v", series, want), func() bool { return f.value(series) == want })
}

// figuresHub says what the hub of the figures is made of; so many calls may wait
// in the queue of one upstream.
func figuresHub(r *collector.Receiver, capacity int) []hubtest.Edit {
	named := func(name string, b peer.Behaviour) peer.Tool { return peer.Tool{Name: name, Behaviour: b} }
	breaker := func(s *config.Server) {
		s.Breaker = config.Breaker{Failures: 2, Window: time.Minute, Cooldown: time.Minute}
	}
	spec := peer.Spec{Tools: []peer.Tool{
		named("echo", peer.Do(peer.Echo)), named("grow", peer.Do(peer.Notify)), named("hang", peer.Do(peer.Hang)), {Name: "ask"},
		named("refuse", peer.Behaviour{Kind: peer.Verbatim, Raw: `{"isError":true,"content":[]}`}),
		named("broken", peer.Behaviour{Kind: peer.Error, Raw: `{"code":-32603,"message":"broken"}`}),
	}}
	slow := peer.Spec{Tools: []peer.Tool{named("slow", peer.Behaviour{Kind: peer.Slow, For: time.Hour})}}
	return []hubtest.Edit{hubtest.Modules(), traced(r, "hub"),
		hubtest.Stdio("up", spec, breaker, func(s *config.Server) {
			s.Tools.Override = map[string]config.Override{"hang": {Timeout: 100 * time.Millisecond}}
		}),
		hubtest.Stdio("frail", peer.Spec{Tools: []peer.Tool{named("crash", peer.Do(peer.Crash)), {Name: "echo"}}}, breaker),
		hubtest.Stdio("own", spec, func(s *config.Server) { s.Sharing = config.PerSession }),
		hubtest.Stdio("queue", slow, func(s *config.Server) {
			s.Queue = &config.Queue{Concurrency: 1, Capacity: capacity, Timeout: time.Hour}
		}),
		// It takes so long to be there that nobody misses that it is not.
		hubtest.Stdio("mortal", peer.Spec{Tools: echoTool(), Quirks: peer.Quirks{SlowStart: 500 * time.Millisecond}}),
		hubtest.Stdio("kept", peer.Spec{Tools: []peer.Tool{counting("count", pure)}}, func(s *config.Server) {
			s.Tools.Override = map[string]config.Override{"count": {Cache: config.Cache{TTL: time.Hour}}}
		}),
		hubtest.Stdio("later", spec, func(s *config.Server) { s.Task = config.TaskAlways }),
		hubtest.Config(func(c *config.Config) {
			c.Policy.Rules = config.Rules{Rules: []config.Rule{{Tools: []string{"up:ask"}, Action: "ask"}}}
		})}
}

// Every figure that is listed moves when what it says happens.
func TestFiguresMove(t *testing.T) {
	hubtest.Parallel(t)
	r := collector.New(t)
	f := &figures{t: t, moved: map[string]bool{}}
	f.h = hubtest.New(t, figuresHub(r, 7)...)
	for _, name := range []string{"up", "frail", "own", "queue", "later", "mortal", "kept"} {
		settled(t, f.h, name)
	}
	api := apiClient{t, f.h, f.h.Token}
	c := f.h.Client(t, hubtest.ClientOptions{Header: in("work")})
	f.calls(c)
	f.upstreams(c)
	f.death()
	f.reload(r)
	f.state(c)
	f.work(c, api)
	f.watchers(api)
	for _, m := range f.h.Metrics().List() {
		if !f.moved[m.Name] {
			t.Errorf("nothing makes %s move", m.Name)
		}
	}
}

func (f *figures) calls(c *hubtest.Client) {
	f.rises(func() { c.Tool("up__echo", `{}`) }, `stoa_calls_total{outcome="ok",tool="echo",upstream="up"}`, `stoa_call_seconds_count{upstream="up"}`, `stoa_trace_spans{state="sent"}`)
	f.rises(func() { c.Tool("up__refuse", `{}`) }, `stoa_calls_total{outcome="tool_error",tool="refuse",upstream="up"}`, `stoa_incidents`)
	f.rises(func() { c.Tool("up__hang", `{}`) }, `stoa_errors_total{kind="timeout"}`, `stoa_calls_total{outcome="fault",tool="hang",upstream="up"}`)
	f.rises(func() { c.Tool("kept__count", `{}`) }, `stoa_cache_total{outcome="miss",upstream="kept"}`, `stoa_cache_entries`, `stoa_cache_bytes`)
	f.rises(func() { c.Tool("up__none", `{}`) }, `stoa_errors_total{kind="unknown_tool"}`, `stoa_calls_total{outcome="fault",tool="tools/call",upstream=""}`)
}

func (f *figures) upstreams(c *hubtest.Client) {
	t := f.t
	f.rises(func() {
		for range 3 {
			c.Tool("up__broken", `{}`)
		}
	}, `stoa_tool_breakers_open{upstream="up"}`, `stoa_errors_total{kind="breaker_open"}`)
	f.rises(func() { c.Tool("frail__crash", `{}`) }, `stoa_upstream_starts{upstream="frail"}`)
	f.rises(func() { c.Tool("frail__crash", `{}`) }, `stoa_breaker_open{upstream="frail"}`)
	var waiting []*hubtest.Exchange
	f.rises(func() {
		for range 3 {
			waiting = append(waiting, c.Go("tools/call", hubtest.ToolParams("queue__slow", `{}`)))
		}
	}, `stoa_queue_running{upstream="queue"}`, `stoa_upstream_running{upstream="queue"}`, `stoa_queue_waiting{upstream="queue"}`)
	f.becomes(`stoa_queue_waiting{upstream="queue"}`, 2)
	for _, x := range waiting {
		x.Close()
	}
	f.becomes(`stoa_queue_waiting{upstream="queue"}`, 0)
	f.becomes(`stoa_queue_running{upstream="queue"}`, 0)
	// Each client has a process of its own there.
	f.rises(func() {
		f.h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy}).Tool("own__echo", `{}`)
	}, `stoa_processes`, `stoa_connections`, `stoa_sessions`)
	f.rises(func() { c.Tool("up__grow", `{}`) }, `stoa_catalog_tools`)
}

// death ends the process of an upstream, which comes back.
func (f *figures) death() {
	const up = `stoa_upstream_up{upstream="mortal"}`
	f.becomes(up, 1)
	was := status(f.t, f.h, "mortal").Pids
	if len(was) == 0 {
		f.t.Fatal("it has no process")
	}
	for _, pid := range was {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			f.t.Fatal(err)
		}
	}
	f.becomes(up, 0)
	f.becomes(up, 1)
	if now := status(f.t, f.h, "mortal").Pids; slices.Equal(was, now) {
		f.t.Errorf("it is up with processes %v, as before", now)
	}
	f.moved["stoa_upstream_up"] = true
}

// reload changes how many calls may wait while the hub runs.
func (f *figures) reload(r *collector.Receiver) {
	const capacity = `stoa_queue_capacity{upstream="queue"}`
	f.becomes(capacity, 7)
	changes, err := f.h.Reload(setupOf(f.h, figuresHub(r, 9)...))
	if err != nil || described(changes) != "server queue replaced" {
		f.t.Fatalf("reload: %s %v", described(changes), err)
	}
	f.becomes(capacity, 9)
	settled(f.t, f.h, "queue")
	f.moved["stoa_queue_capacity"] = true
}

func (f *figures) state(c *hubtest.Client) {
	f.rises(func() { c.Tool("context_add", `{"name":"v","data":1}`) }, `stoa_kept_sessions`, `stoa_store_entries{log="session"}`, `stoa_store_bytes{log="session"}`)
	f.becomes(`stoa_store_up`, 1) // TestHubWithoutItsStore has one that is away
	f.moved["stoa_store_up"] = true
}

func (f *figures) work(c *hubtest.Client, api apiClient) {
	t := f.t
	leave := attend(t, f.h, f.h.Token)
	var x *hubtest.Exchange
	f.rises(func() { x = c.Go("tools/call", hubtest.ToolParams("up__ask", `{}`)) }, `stoa_approvals_pending`)
	f.rises(func() { api.decide(api.asked().ID, `{"decision":"deny"}`) }, `stoa_approvals_total{outcome="denied"}`)
	x.Response()
	f.becomes(`stoa_approvals_pending`, 0)
	leave()
	f.rises(func() { good(t, c.Tool("plan_execute", `{"plan":{"steps":[{"id":"a","tool":"up__echo"}]}}`)) }, `stoa_plan_runs_total{status="done"}`)
	f.rises(func() {
		x = c.Go("tools/call", hubtest.ToolParams("plan_execute", `{"plan":{"steps":[{"id":"a","tool":"queue__slow"}]}}`))
	}, `stoa_plan_runs{status="running"}`)
	x.Close()
	f.becomes(`stoa_plan_runs{status="running"}`, 0)
	tasks := f.h.Client(t, hubtest.ClientOptions{Capabilities: tasksCapability})
	f.rises(func() { tasks.Tool("later__echo", `{}`) }, `stoa_tasks_total{outcome="ok"}`)
	f.rises(func() {
		talk := dial(t, f.h, "/ws")
		talk.next()
		talk.say("echo hello")
		_ = talk.conn.CloseNow()
	}, `stoa_chat_turns_total{model="script",reason="done"}`, `stoa_chat_tokens_total{direction="output",model="script"}`, `stoa_chat_tokens_total{direction="input",model="script"}`)
}

func (f *figures) watchers(api apiClient) {
	t := f.t
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	f.rises(func() {
		go func() {
			defer close(done)
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/api/v1/events?types=health&after=%d", f.h.URL, f.h.Events().Last()), nil)
			if err != nil {
				return
			}
			req.Header.Set("Authorization", "Bearer "+api.token)
			if resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req); err == nil {
				resp.Body.Close()
			}
		}()
	}, `stoa_event_polls`)
	cancel()
	<-done
	f.becomes(`stoa_event_polls`, 0)
	for range 5000 { // more than are kept
		f.h.Events().Emit(event.Record{Type: event.CallDone})
	}
	var conn *websocket.Conn
	f.rises(func() {
		var err error
		if conn, _, err = websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(f.h.URL, "http")+"/api/v1/events/ws?after=1", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + api.token}}}); err != nil {
			t.Fatal(err)
		}
	}, `stoa_viewers`, `stoa_viewer_lost`)
	_ = conn.CloseNow()
	f.becomes(`stoa_viewers`, 0)
}
