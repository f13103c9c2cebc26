package obs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel/attribute"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
)

// ToolError is the kind of a call whose tool said no: the call itself worked.
const ToolError = "tool_error"

// callsTotal is the only metric that is about single tools.
const callsTotal = "stoa_calls_total"

// Bounds of label values; what is beyond them is counted under "other".
const (
	maxTools     = 2_000
	maxUpstreams = 500
	maxKinds     = 100
	maxSeries    = 1_000 // of one gauge
	maxCounted   = 200   // of one counter
	other        = "other"
)

// seconds are the bounds of the histogram of calls: from a cached answer to
// the longest that is waited for.
var seconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}

// Metrics counts what happens in one hub.
type Metrics struct {
	registry *prometheus.Registry
	provider *sdk.MeterProvider
	meter    metric.Meter

	took  metric.Float64Histogram
	shown atomic.Int32 // who reads what Shown serves

	counts atomic.Pointer[counts] // replaced whole under mu
	mu     sync.Mutex
	listed []Listed
}

// Listed is a metric as the manual lists it.
type Listed struct{ Name, Kind, Help string }

// ofRuntime collects what the runtime measures, which is the same for all hubs of
// a process. To make it takes longer than all else here: it holds every metric of
// the runtime against patterns.
var ofRuntime = sync.OnceValue(func() prometheus.Collector { return collectors.NewGoCollector() })

// List returns the metrics that are measured here, in the order in which they
// were registered; those of the runtime and the process are not among them.
func (m *Metrics) List() []Listed {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.listed)
}

func (m *Metrics) list(name, kind, help string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listed = append(m.listed, Listed{name, kind, help})
	return help
}

// counts holds what was counted so far. The counters are ours and handed over
// when they are read: counting with the library's costs as much as all else.
type counts struct {
	calls     map[callKey]*series
	kinds     map[string]*series
	tools     map[[2]string]struct{}
	upstreams map[string][]metric.RecordOption
}

type callKey struct{ upstream, tool, outcome string }

// series is one counter with its label set, and that of the histogram.
type series struct {
	n      atomic.Int64
	labels []metric.ObserveOption
	took   []metric.RecordOption
}

func (s *series) observe(o metric.Int64Observer) { o.Observe(s.n.Load(), s.labels...) }

// New returns a Metrics with nothing counted.
func New() (*Metrics, error) {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.counts.Store(&counts{map[callKey]*series{}, map[string]*series{}, map[[2]string]struct{}{}, map[string][]metric.RecordOption{}})
	exporter, err := otelprom.New(
		otelprom.WithRegisterer(m.registry),
		otelprom.WithoutScopeInfo(),
		otelprom.WithoutTargetInfo(),
		// Names are given in full, so that what is written here is what is scraped.
		otelprom.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithoutSuffixes),
	)
	if err != nil {
		return nil, fmt.Errorf("metrics: open exporter: %w", err)
	}
	// The library has a bound of its own, which would fold everything; ours fold less.
	m.provider = sdk.NewMeterProvider(sdk.WithReader(exporter), sdk.WithResource(resource.Empty()), sdk.WithCardinalityLimit(0))
	m.meter = m.provider.Meter("stoa")
	var errs [5]error
	_, errs[0] = m.meter.Int64ObservableCounter(callsTotal,
		metric.WithDescription(m.list(callsTotal, "counter", "Calls by upstream, tool and outcome: ok, tool_error (the tool said no) or fault (it could not be asked). What was refused before it was known whom to ask has no upstream, and its method for a tool.")),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			for _, s := range m.counts.Load().calls {
				s.observe(o)
			}
			return nil
		}))
	_, errs[1] = m.meter.Int64ObservableCounter("stoa_errors_total",
		metric.WithDescription(m.list("stoa_errors_total", "counter", "Calls that could not be made, by kind of fault.")),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			for _, s := range m.counts.Load().kinds {
				s.observe(o)
			}
			return nil
		}))
	m.took, errs[2] = m.meter.Float64Histogram("stoa_call_seconds", metric.WithDescription(m.list("stoa_call_seconds", "histogram", "Time from a call's arrival to its result, by upstream.")), metric.WithExplicitBucketBoundaries(seconds...))
	errs[3] = m.registry.Register(ofRuntime())
	errs[4] = m.registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("metrics: register instruments: %w", err)
	}
	return m, nil
}

// Handler serves the metrics in the text format of Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4})
}

// Close ends the collection.
func (m *Metrics) Close() error { return m.provider.Shutdown(context.Background()) }

// Call counts a call. kind is empty if it worked, ToolError if the tool said
// no, or the name of the fault.Kind for which it could not be made.
func (m *Metrics) Call(upstream, tool, kind string, took time.Duration) {
	key := callKey{upstream, tool, outcome(kind)}
	c := m.counts.Load()
	s := c.calls[key]
	if s == nil {
		s = m.series(key)
	}
	s.n.Add(1)
	m.took.Record(context.Background(), took.Seconds(), s.took...)
	if key.outcome == "fault" {
		s := c.kinds[kind]
		if s == nil {
			s = m.kind(kind)
		}
		s.n.Add(1)
	}
}

func outcome(kind string) string {
	switch kind {
	case "":
		return "ok"
	case ToolError:
		return ToolError
	}
	return "fault"
}

// series returns the counter of key, folded into another where there are too
// many, and remembers it unless it was folded: then the key itself is of an
// unbounded set.
func (m *Metrics) series(key callKey) *series {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := *m.counts.Load()
	if _, ok := c.upstreams[key.upstream]; !ok && len(c.upstreams) >= maxUpstreams {
		key.upstream, key.tool = other, other
	}
	pair := [2]string{key.upstream, key.tool}
	if _, ok := c.tools[pair]; !ok && len(c.tools) >= maxTools {
		key.tool = other
	}
	if s := c.calls[key]; s != nil {
		return s
	}
	if _, ok := c.upstreams[key.upstream]; !ok {
		c.upstreams = maps.Clone(c.upstreams)
		c.upstreams[key.upstream] = []metric.RecordOption{labels("upstream", key.upstream)}
	}
	if key.tool != other {
		c.tools = maps.Clone(c.tools)
		c.tools[pair] = struct{}{}
	}
	s := &series{
		labels: []metric.ObserveOption{labels("upstream", key.upstream, "tool", key.tool, "outcome", key.outcome)},
		took:   c.upstreams[key.upstream],
	}
	c.calls = maps.Clone(c.calls)
	c.calls[key] = s
	m.counts.Store(&c)
	return s
}

func (m *Metrics) kind(kind string) *series {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := *m.counts.Load()
	if _, ok := c.kinds[kind]; !ok && len(c.kinds) >= maxKinds {
		kind = other
	}
	if s := c.kinds[kind]; s != nil {
		return s
	}
	s := &series{labels: []metric.ObserveOption{labels("kind", kind)}}
	c.kinds = maps.Clone(c.kinds)
	c.kinds[kind] = s
	m.counts.Store(&c)
	return s
}

// Gauge registers a measure that is taken whenever the metrics are read: f
// calls observe once for each combination of labels, which are pairs of name
// and value. f runs on the reader's goroutine and must not keep observe. It
// panics if name is not that of a metric.
func (m *Metrics) Gauge(name, help string, f func(observe func(value float64, pairs ...string))) {
	_, err := m.meter.Float64ObservableGauge(name, metric.WithDescription(m.list(name, "gauge", help)),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			n := 0
			f(func(value float64, pairs ...string) {
				if n++; n <= maxSeries {
					o.Observe(value, labels(pairs...))
				}
			})
			return nil
		}))
	if err != nil {
		panic(fmt.Sprintf("obs: gauge %q: %v", name, err))
	}
}

// labels makes a label set of pairs of name and value; a name without a value
// gets an empty one.
func labels(pairs ...string) metric.MeasurementOption {
	set := make([]attribute.KeyValue, 0, (len(pairs)+1)/2)
	for i := 0; i < len(pairs); i += 2 {
		value := ""
		if i+1 < len(pairs) {
			value = pairs[i+1]
		}
		set = append(set, attribute.String(pairs[i], value))
	}
	return metric.WithAttributeSet(attribute.NewSet(set...))
}
