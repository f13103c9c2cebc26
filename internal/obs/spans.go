package obs

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// sender is an exporter that counts, and tells of the first failure of many.
type sender struct {
	sdktrace.SpanExporter
	o                   TraceOptions
	waiting, sent, lost atomic.Int64
	closing             atomic.Bool

	// Of the goroutine that sends.
	broken bool
	missed int64
}

func (e *sender) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	n := int64(len(spans))
	e.waiting.Add(-n)
	if err == nil {
		e.sent.Add(n)
		if e.broken && e.o.Recovered != nil {
			e.o.Recovered(e.missed)
		}
		e.broken, e.missed = false, 0
		return nil
	}
	e.lost.Add(n)
	e.missed += n
	if !e.broken && e.o.Failed != nil && !e.closing.Load() {
		e.o.Failed(err)
	}
	e.broken = true
	return nil // else the library writes it to stderr, which is not its to write to
}

// bounded passes spans on to be sent, as many as may wait.
type bounded struct {
	sdktrace.SpanProcessor
	t *Tracer
}

func (b bounded) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	b.t.recent.add(s)
	if e := b.t.sender; e.waiting.Add(1) > maxWaiting {
		e.waiting.Add(-1)
		e.lost.Add(1)
		return
	}
	b.SpanProcessor.OnEnd(s)
}

// Figures are how many spans were sent, how many were lost because the receiver
// was away or too slow, and how many wait.
func (t *Tracer) Figures() (sent, lost, waiting int64) {
	if t == nil {
		return 0, 0, 0
	}
	return t.sender.sent.Load(), t.sender.lost.Load(), t.sender.waiting.Load()
}

// keptSpans is how many spans that have ended are held.
const keptSpans = 4096

// recent holds the last spans that have ended.
type recent struct {
	mu   sync.Mutex
	ring []sdktrace.ReadOnlySpan
	next int
}

func (r *recent) add(s sdktrace.ReadOnlySpan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ring) < keptSpans {
		r.ring = append(r.ring, s)
		return
	}
	r.ring[r.next] = s
	r.next = (r.next + 1) % keptSpans
}

// Ended is a span that has ended.
type Ended struct {
	ID, Parent, Name string
	Began            time.Time
	Took             time.Duration
	Kind             string            // why it failed; "" if it did not
	Attributes       map[string]string // without those that are said above
}

// Ended returns the spans of a trace that ended here and are held still, in the
// order in which they ended.
func (t *Tracer) Ended(id string) (out []Ended) {
	if t == nil {
		return nil
	}
	r := t.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.ring {
		s := r.ring[(r.next+i)%len(r.ring)]
		if s.SpanContext().TraceID().String() != id {
			continue
		}
		one := Ended{ID: s.SpanContext().SpanID().String(), Name: s.Name(), Began: s.StartTime(), Took: s.EndTime().Sub(s.StartTime()), Attributes: map[string]string{}}
		if p := s.Parent(); p.HasSpanID() {
			one.Parent = p.SpanID().String()
		}
		for _, a := range s.Attributes() {
			if string(a.Key) == attrKind {
				one.Kind = a.Value.AsString()
			} else {
				one.Attributes[string(a.Key)] = a.Value.String()
			}
		}
		out = append(out, one)
	}
	return out
}

var (
	_ sdktrace.SpanExporter  = (*sender)(nil)
	_ sdktrace.SpanProcessor = bounded{}
)
