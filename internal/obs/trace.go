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
	// Failed is told of an export that did not work. It must not block; nil
	// means that nobody wants to know.
	Failed func(error)
}

// Tracer makes spans and sends them to an OTLP receiver. A nil Tracer makes
// none, and costs nothing.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	client   *http.Client
}

// exportEvery is how often spans are sent, and exportTime how long that may
// take; queued is how many wait at most, more are dropped.
const (
	exportEvery = 2 * time.Second
	exportTime  = 10 * time.Second
	queued      = 4096
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
	t := &Tracer{client: client, provider: sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(told{exporter, o.Failed}, sdktrace.WithBatchTimeout(exportEvery), sdktrace.WithExportTimeout(exportTime), sdktrace.WithMaxQueueSize(queued)),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(o.Sample))),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", o.Service), attribute.String("service.version", o.Version))),
	)}
	t.tracer = t.provider.Tracer("stoa")
	return t, nil
}

// told is an exporter whose failures are told.
type told struct {
	sdktrace.SpanExporter
	failed func(error)
}

func (e told) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err != nil && e.failed != nil && ctx.Err() == nil {
		e.failed(err)
	}
	return nil // else the library writes it to stderr, which is not its to write to
}

// Close sends what is left, if that can be done soon.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), exportEvery)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // what cannot be sent is lost, as spans are
	t.client.CloseIdleConnections()
}

// Span is a part of a trace. A nil Span is none.
type Span struct{ span trace.Span }

// Start begins a span below that of parent, a traceparent of W3C, or, if that
// is empty or none, below that of ctx. The attributes are pairs of name and
// value; empty values are left out. The context that is returned has the span.
func (t *Tracer) Start(ctx context.Context, name, parent string, pairs ...string) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	if parent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": parent})
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

// Traceparent names the span to others; "" if there is none.
func (s *Span) Traceparent() string {
	if s == nil {
		return ""
	}
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), s.span), c)
	return c["traceparent"]
}

// Trace is the id of the span's trace; "" if there is none.
func (s *Span) Trace() string {
	if s == nil {
		return ""
	}
	return s.span.SpanContext().TraceID().String()
}

// End ends the span with more attributes; kind says why it failed, if it did.
func (s *Span) End(kind string, pairs ...string) {
	if s == nil {
		return
	}
	s.span.SetAttributes(attributes(pairs)...)
	if kind != "" {
		s.span.SetStatus(codes.Error, kind)
		s.span.SetAttributes(attribute.String("stoa.kind", kind))
	}
	s.span.End()
}

var _ sdktrace.SpanExporter = told{}
