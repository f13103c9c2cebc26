// Package collector owns a receiver of traces for tests: it takes what is sent
// by OTLP over HTTP as a real one does, decodes it by the published protobuf
// definitions, and can be slow or out of order.
package collector

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	received "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// patience is how long Await waits.
const patience = 30 * time.Second

// Span is a span as it was received.
type Span struct {
	Service, Name, Trace, ID, Parent, State string
	Failed                                  bool
	Attrs                                   map[string]string
}

// Receiver takes traces.
type Receiver struct {
	URL string

	mu     sync.Mutex
	spans  []Span
	auth   []string
	status int
	held   chan struct{} // requests wait until it is closed; nil: they do not
}

// New serves a Receiver until the test ends.
func New(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{status: http.StatusOK}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		m, err := read(req)
		if err != nil || req.URL.Path != "/v1/traces" {
			t.Errorf("the collector got %s: %v", req.URL.Path, err)
		}
		r.mu.Lock()
		status, held := r.status, r.held
		r.mu.Unlock()
		if held != nil {
			select {
			case <-held:
			case <-req.Context().Done():
				return
			}
		}
		if status == http.StatusOK {
			r.take(m, req.Header.Get("Authorization"))
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
		w.WriteHeader(status)
	}))
	t.Cleanup(func() {
		r.Release()
		srv.Close()
	})
	r.URL = srv.URL
	return r
}

func read(req *http.Request) (*received.ExportTraceServiceRequest, error) {
	var body io.Reader = req.Body
	if req.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			return nil, err
		}
		body = z
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	m := &received.ExportTraceServiceRequest{}
	return m, proto.Unmarshal(raw, m)
}

func (r *Receiver) take(m *received.ExportTraceServiceRequest, auth string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.auth = append(r.auth, auth)
	for _, rs := range m.ResourceSpans {
		service := texts(rs.Resource.Attributes)["service.name"]
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				r.spans = append(r.spans, Span{Service: service, Name: s.Name, Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId),
					Parent: hex.EncodeToString(s.ParentSpanId), State: s.TraceState, Failed: s.Status.GetCode() == spans.Status_STATUS_CODE_ERROR, Attrs: texts(s.Attributes)})
			}
		}
	}
}

func texts(all []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range all {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			out[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			out[a.Key] = fmt.Sprint(v.IntValue)
		}
	}
	return out
}

// Answer makes the receiver answer with a status; what it does not answer with
// 200 it does not keep.
func (r *Receiver) Answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// Hold makes the receiver answer nobody until Release.
func (r *Receiver) Hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = make(chan struct{})
}

// Release ends Hold.
func (r *Receiver) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held != nil {
		close(r.held)
		r.held = nil
	}
}

// Auth is what senders said to be let in.
func (r *Receiver) Auth() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.auth)
}

// Spans are those that match.
func (r *Receiver) Spans(match func(Span) bool) (out []Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if match(s) {
			out = append(out, s)
		}
	}
	return out
}

// Await returns the first span that matches, once it is there.
func (r *Receiver) Await(t testing.TB, what string, match func(Span) bool) Span {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		if got := r.Spans(match); len(got) > 0 {
			return got[0]
		}
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s; there are %+v", what, r.Spans(func(Span) bool { return true }))
		}
	}
}
