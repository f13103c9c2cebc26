package hub

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/guard"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/upstream"
)

// observe is told a figure and the labels that it has.
type observe = func(value float64, pairs ...string)

// openTracer opens the way of traces to their receiver, if the config has one.
func (h *Hub) openTracer() (err error) {
	t := h.cfg.Telemetry
	o := obs.TraceOptions{Endpoint: t.Endpoint, Sample: 1, Service: t.Service, Version: h.version, Headers: map[string]string{}}
	for name, value := range t.Headers {
		o.Headers[name] = value.Reveal()
	}
	if t.Sample != nil {
		o.Sample = *t.Sample
	}
	log := h.logger("telemetry")
	o.Failed = func(err error) { log.Warn("traces cannot be sent", obs.KeyAction, "export", obs.KeyErr, err) }
	o.Recovered = func(lost int64) { log.Info("traces can be sent again", obs.KeyAction, "export", "lost", lost) }
	if h.tracer, err = obs.OpenTracer(o); err != nil {
		return err
	}
	h.opened(h.tracer.Close)
	return nil
}

// Metrics is what is measured.
func (h *Hub) Metrics() *obs.Metrics { return h.metrics }

// countedTools says whether calls of a tool are told apart for somebody, for whom
// there may be no such tool: it is forbidden, or the published plan of another.
func (h *Hub) countedTools(who *auth.Principal) func(upstream, tool string) bool {
	view, now := h.door.View(apiClient(who), ""), h.cat.Now()
	return func(upstream, tool string) bool {
		if it := now.Tool(upstream, tool); it != nil {
			return view.Item(it)
		}
		return upstream == "" || isMethod(tool)
	}
}

// isMethod reports whether what was counted in the place of a tool is the method of
// a request that was about none.
func isMethod(name string) bool {
	return name == "initialize" || name == "ping" || slices.ContainsFunc([]string{"server/", "logging/", "tools/", "prompts/", "resources/", "completion/", "tasks/", "subscriptions/"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// measure registers all figures; docs/metrics.md lists them.
func (h *Hub) measure() {
	h.measureUpstreams()
	h.measureState()
	h.measureWork()
	h.countEvents()
}

func figure(f func() float64) func(observe) { return func(o observe) { o(f()) } }

func (h *Hub) measureUpstreams() {
	each := func(f func(o observe, s *upstream.Status)) func(observe) {
		return func(o observe) {
			for _, s := range h.Upstreams() {
				f(o, &s)
			}
		}
	}
	truth := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	g := h.metrics.Gauge
	g("stoa_upstream_up", "Whether an upstream is connected.", each(func(o observe, s *upstream.Status) { o(truth(s.State == upstream.Connected), "upstream", s.Name) }))
	g("stoa_upstream_starts", "Processes started for an upstream.", each(func(o observe, s *upstream.Status) { o(float64(s.Starts), "upstream", s.Name) }))
	g("stoa_upstream_running", "Calls that an upstream runs now.", each(func(o observe, s *upstream.Status) { o(float64(s.Running), "upstream", s.Name) }))
	g("stoa_breaker_open", "Whether the breaker of an upstream lets nothing through.", each(func(o observe, s *upstream.Status) { o(truth(s.Breaker == string(guard.Open)), "upstream", s.Name) }))
	g("stoa_tool_breakers_open", "Tools of an upstream whose breakers let nothing through.", each(func(o observe, s *upstream.Status) { o(float64(s.OpenTools), "upstream", s.Name) }))
	queue := func(f func(s *upstream.Status) float64) func(observe) {
		return each(func(o observe, s *upstream.Status) {
			if s.Queue != nil {
				o(f(s), "upstream", s.Name)
			}
		})
	}
	g("stoa_queue_waiting", "Calls that wait in the queue of an upstream.", queue(func(s *upstream.Status) float64 { return float64(s.Queue.Queued) }))
	g("stoa_queue_running", "Calls that have left the queue of an upstream and run.", queue(func(s *upstream.Status) float64 { return float64(s.Queue.Running) }))
	g("stoa_queue_capacity", "Calls that may wait in the queue of an upstream.", queue(func(s *upstream.Status) float64 { return float64(s.Queue.Capacity) }))
	g("stoa_processes", "Running processes of upstreams.", figure(func() float64 { return float64(h.pool.Stats().Processes) }))
	g("stoa_connections", "Open connections to upstreams.", figure(func() float64 { return float64(h.pool.Stats().Open) }))
	g("stoa_catalog_tools", "Tools that are offered.", figure(func() float64 { return float64(len(h.cat.Now().Items(0))) }))
}

func (h *Hub) measureState() {
	g := h.metrics.Gauge
	g("stoa_sessions", "Open legacy connections over HTTP.", figure(func() float64 { return float64(h.connections.Len()) }))
	g("stoa_kept_sessions", "Sessions that hold something.", figure(func() float64 { return float64(len(h.state.sessions.All(func(string) bool { return true }))) }))
	g("stoa_store_up", "Whether the store can be written to; none while nothing is kept.", func(o observe) {
		if st := h.storeNow(); st != nil {
			up := 1.0
			if st.State() != nil {
				up = 0
			}
			o(up)
		}
	})
	var look storeLook
	g("stoa_store_entries", "Entries of a log, bucket or queue of the store.", func(o observe) {
		for name, u := range look.of(h.storeNow()) {
			o(float64(u.Entries), "log", name)
		}
	})
	g("stoa_store_bytes", "Bytes that a log, bucket or queue of the store takes.", func(o observe) {
		for name, u := range look.of(h.storeNow()) {
			o(float64(u.Bytes), "log", name)
		}
	})
}

// storeNow is the store, if there is one by now.
func (h *Hub) storeNow() *store.Store {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	return h.state.store
}

// storeLook remembers how much the store holds for a moment: two figures are
// made of one look, and who reads them often must not keep the store busy.
type storeLook struct {
	mu   sync.Mutex
	at   time.Time
	last map[string]store.Usage
}

const lookFor = 2 * time.Second

func (l *storeLook) of(st *store.Store) map[string]store.Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	if st == nil || st.State() != nil || time.Since(l.at) < lookFor {
		return l.last // of a store that fails, what it held
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if now, err := st.Usage(ctx); err == nil {
		l.last = now
	}
	l.at = time.Now()
	return l.last
}

func (h *Hub) measureWork() {
	g := h.metrics.Gauge
	g("stoa_approvals_pending", "Calls that wait for a person.", figure(func() float64 { return float64(len(h.desk.Pending(""))) }))
	g("stoa_plan_runs", "Runs of plans that are not over, by status.", func(o observe) {
		if h.plans.runs == nil {
			return
		}
		n := map[plan.Status]int{plan.Running: 0, plan.Paused: 0, plan.Waiting: 0, plan.Undoing: 0}
		h.plans.runs.All(func(s plan.Summary) bool {
			if _, alive := n[s.Status]; alive {
				n[s.Status]++
			}
			return false
		})
		for status, n := range n {
			o(float64(n), "status", string(status))
		}
	})
	g("stoa_cache_entries", "Results kept to be reused.", figure(func() float64 {
		entries, _ := h.door.CacheFigures()
		return float64(entries)
	}))
	g("stoa_cache_bytes", "Memory of results kept to be reused.", figure(func() float64 {
		_, bytes := h.door.CacheFigures()
		return float64(bytes)
	}))
	g("stoa_event_polls", "Requests that wait for events.", figure(func() float64 { return float64(h.polls.Load()) }))
	g("stoa_viewers", "Sockets that watch events.", figure(func() float64 { return float64(h.viewers.Len()) }))
	g("stoa_viewer_lost", "Events that viewers were too slow for.", figure(func() float64 { return float64(h.viewers.Lost()) }))
	g("stoa_trace_spans", "Spans of traces since the start, by state: sent, lost (the receiver was away or too slow) or waiting; none without a receiver.", func(o observe) {
		if h.tracer != nil {
			sent, lost, waiting := h.tracer.Figures()
			o(float64(sent), "state", "sent")
			o(float64(lost), "state", "lost")
			o(float64(waiting), "state", "waiting")
		}
	})
	g("stoa_incidents", "Faults of any kind that were met since the start.", figure(func() float64 {
		_, total := h.book.Groups()
		return float64(total)
	}))
}

// countEvents counts what is told of turns, runs, tasks and approvals.
func (h *Hub) countEvents() {
	turns := h.metrics.Counter("stoa_chat_turns_total", "Turns of conversations that have ended, by model and reason.")
	tokens := h.metrics.Counter("stoa_chat_tokens_total", "Tokens of turns, by model and direction: input or output.")
	runs := h.metrics.Counter("stoa_plan_runs_total", "Runs of plans that have ended, by status.")
	tasks := h.metrics.Counter("stoa_tasks_total", "Tasks that have ended, by outcome: ok or failed.")
	approvals := h.metrics.Counter("stoa_approvals_total", "Questions to people that were decided, by outcome.")
	h.events.Hear(func(r *event.Record) {
		data, _ := r.Data.(map[string]any)
		switch r.Type {
		case event.TurnEnded:
			model, _ := data["model"].(string)
			turns(1, "model", model, "reason", r.Kind)
			if u, ok := data["usage"].(llm.Usage); ok {
				tokens(int64(u.Input), "model", model, "direction", "input")
				tokens(int64(u.Output), "model", model, "direction", "output")
			}
		case event.RunPrefix + string(plan.RunEnded):
			status, _ := data["status"].(plan.Status)
			runs(1, "status", string(status))
		case event.TaskDone:
			outcome := "ok"
			if r.Kind != "" {
				outcome = "failed"
			}
			tasks(1, "outcome", outcome)
		case event.PolicyDecided:
			if t, ok := r.Data.(policy.Trace); ok {
				approvals(1, "outcome", t.Outcome)
			}
		}
	})
}
