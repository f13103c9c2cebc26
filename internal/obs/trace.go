package obs

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// TraceOptions say where traces go.
type TraceOptions struct {
	Endpoint string            // the http or https address of an OTLP receiver, with or without /v1/traces; empty: no traces
	Headers  map[string]string // sent with every export
	Sample   float64           // the share of traces that begin here and are kept, from 0 to 1
	Service  string            // the name of this hub in traces
	Version  string
	// Failed is told of an export that did not work, unless the one before it
	// did not either; Recovered of the next that does, and how many spans were
	// lost until then. They must not block; nil means that nobody wants to know.
	Failed    func(error)
	Recovered func(lost int64)
}

// Tracer makes spans and sends them to an OTLP receiver. Whoever ends a span
// never waits for that: what the receiver is too slow for is dropped and
// counted. A nil Tracer makes none, and costs nothing.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	client   *http.Client
	sender   *sender
	recent   *recent
}

// exportEvery is how often spans are sent, and exportTime how long that may
// take; maxWaiting is how many wait at most, more are dropped.
const (
	exportEvery = 2 * time.Second
	exportTime  = 10 * time.Second
	maxWaiting  = 4096
)

// OpenTracer returns a Tracer, or nil if there is no endpoint. Nothing is sent
// yet, so that a receiver that is away is no reason to fail.
func OpenTracer(o TraceOptions) (*Tracer, error) {
	if o.Endpoint == "" {
		return nil, nil
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("traces: the endpoint is no http or https address")
	}
	if !strings.HasSuffix(u.Path, "/v1/traces") {
		u.Path = strings.TrimRight(u.Path, "/") + "/v1/traces"
	}
	// One of our own, so that its connections end with it.
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: exportTime}, Timeout: exportTime}
	to := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(u.String()), otlptracehttp.WithTimeout(exportTime), otlptracehttp.WithHTTPClient(client)}
	if len(o.Headers) > 0 { // else those of OTEL_EXPORTER_OTLP_HEADERS
		to = append(to, otlptracehttp.WithHeaders(o.Headers))
	}
	exporter, err := otlptracehttp.New(context.Background(), to...)
	if err != nil {
		return nil, fmt.Errorf("traces: open exporter: %w", err)
	}
	t := &Tracer{client: client, sender: &sender{SpanExporter: exporter, o: o}, recent: &recent{}}
	batches := sdktrace.NewBatchSpanProcessor(t.sender, sdktrace.WithBatchTimeout(exportEvery), sdktrace.WithExportTimeout(exportTime), sdktrace.WithMaxQueueSize(maxWaiting))
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(bounded{batches, t}),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(o.Sample))),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", o.Service), attribute.String("service.version", o.Version))),
	)
	t.tracer = t.provider.Tracer("stoa")
	return t, nil
}

// Close sends what is left, if that can be done soon.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	t.sender.closing.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), exportEvery)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // what cannot be sent is lost, as spans are
	t.client.CloseIdleConnections()
}

// Parent is what a request says of the trace that it is part of, in the form
// of W3C. The zero Parent says nothing.
type Parent struct {
	Traceparent string `json:"traceparent,omitempty"`
	Tracestate  string `json:"tracestate,omitempty"`
}

// into returns a context below p, or ctx itself if p makes no sense: then a new
// trace begins, and the state of the old one is not carried on.
func (p Parent) into(ctx context.Context) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": p.Traceparent, "tracestate": p.Tracestate})
}

// Trace is the id of the trace; "" if there is none, or it makes no sense.
func (p Parent) Trace() string {
	if p.Traceparent == "" {
		return ""
	}
	if c := trace.SpanContextFromContext(p.into(context.Background())); c.IsValid() {
		return c.TraceID().String()
	}
	return ""
}

// ParentOf reads the headers of an HTTP request. What makes no sense is none.
func ParentOf(h http.Header) Parent {
	p := Parent{h.Get("Traceparent"), strings.Join(h.Values("Tracestate"), ",")}
	if p.Trace() == "" {
		return Parent{}
	}
	return p
}

// Carried is the span of ctx, to be named to others.
func Carried(ctx context.Context) Parent { return parentOf(trace.SpanContextFromContext(ctx)) }

func parentOf(c trace.SpanContext) Parent {
	if !c.IsValid() {
		return Parent{}
	}
	flags := c.TraceFlags() & trace.FlagsSampled
	return Parent{"00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + flags.String(), c.TraceState().String()}
}

// Descend returns ctx with the span that other has, for work that outlives it.
func Descend(ctx, other context.Context) context.Context {
	if c := trace.SpanContextFromContext(other); c.IsValid() {
		return trace.ContextWithSpanContext(ctx, c)
	}
	return ctx
}

// Span is a part of a trace. A nil Span is none.
type Span struct{ span trace.Span }

// Start begins a span below that of ctx or, if that has none, below p. The
// attributes are pairs of name and value; empty values are left out. The
// context that is returned has the span.
func (t *Tracer) Start(ctx context.Context, name string, p Parent, pairs ...string) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	if p.Traceparent != "" && !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = p.into(ctx)
	}
	ctx, s := t.tracer.Start(ctx, name, trace.WithAttributes(attributes(pairs)...))
	return ctx, &Span{s}
}

func attributes(pairs []string) []attribute.KeyValue {
	out := make([]attribute.KeyValue, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out = append(out, attribute.String(pairs[i], pairs[i+1]))
		}
	}
	return out
}

// Parent names the span to others.
func (s *Span) Parent() Parent {
	if s == nil {
		return Parent{}
	}
	return parentOf(s.span.SpanContext())
}

// Trace is the id of the span's trace; "" if there is none.
func (s *Span) Trace() string {
	if s == nil {
		return ""
	}
	return s.span.SpanContext().TraceID().String()
}

// Count adds a figure to the span.
func (s *Span) Count(name string, n int) {
	if s != nil {
		s.span.SetAttributes(attribute.Int(name, n))
	}
}

// End ends the span with more attributes; kind says why it failed, if it did.
func (s *Span) End(kind string, pairs ...string) {
	if s == nil {
		return
	}
	s.span.SetAttributes(attributes(pairs)...)
	if kind != "" {
		s.span.SetStatus(codes.Error, kind)
		s.span.SetAttributes(attribute.String(attrKind, kind))
	}
	s.span.End()
}

const attrKind = "stoa.kind"
