package hub_test

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/secret"
)

// receiver takes traces as a collector does.
type receiver struct {
	url string

	mu    sync.Mutex
	spans []span
	auth  []string
}

type span struct {
	service, name, trace, id, parent string
	failed                           bool
	attrs                            map[string]string
}

func receive(t testing.TB) *receiver {
	t.Helper()
	r := &receiver{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var body io.Reader = req.Body
		if req.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(body)
			if err != nil {
				t.Error(err)
				return
			}
			body = z
		}
		raw, err := io.ReadAll(body)
		var m collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(raw, &m)
		}
		if err != nil || req.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", req.URL.Path, err)
		}
		r.take(&m, req.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(srv.Close)
	r.url = srv.URL
	return r
}

func (r *receiver) take(m *collector.ExportTraceServiceRequest, auth string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.auth = append(r.auth, auth)
	for _, rs := range m.ResourceSpans {
		service := ""
		for _, a := range rs.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				one := span{service: service, name: s.Name, trace: hex.EncodeToString(s.TraceId), id: hex.EncodeToString(s.SpanId), parent: hex.EncodeToString(s.ParentSpanId),
					failed: s.Status.GetCode() == spans.Status_STATUS_CODE_ERROR, attrs: map[string]string{}}
				for _, a := range s.Attributes {
					one.attrs[a.Key] = a.Value.GetStringValue()
				}
				r.spans = append(r.spans, one)
			}
		}
	}
}

// await returns the span that matches, once it is there.
func (r *receiver) await(t testing.TB, what string, match func(s span) bool) (out span) {
	t.Helper()
	hubtest.Eventually(t, what, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		i := slices.IndexFunc(r.spans, match)
		if i >= 0 {
			out = r.spans[i]
		}
		return i >= 0
	})
	return out
}

func traced(r *receiver, service string) hubtest.Edit {
	return hubtest.Config(func(c *config.Config) {
		c.Telemetry = config.Telemetry{Endpoint: r.url, Service: service, Headers: map[string]secret.String{"Authorization": secret.New("Bearer for-the-collector")}}
	})
}

// One trace goes from the client through two hubs to the server behind them.
func TestOneTrace(t *testing.T) {
	r := receive(t)
	web := peer.Serve(t, peer.Spec{Tools: []peer.Tool{{Name: "params", Behaviour: peer.Do(peer.Params)}, {Name: "fail", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: `{"isError":true,"content":[]}`}}}})
	inner := hubtest.New(t, hubtest.HTTP("up", web.URL), traced(r, "inner"))
	settled(t, inner, "up")
	// Its connection to the receiver is there before the other hub is, which is
	// not to be blamed for it.
	inner.Client(t, hubtest.ClientOptions{}).Tool("up__fail", "")
	r.await(t, "the inner hub tells of a call", func(s span) bool { return s.service == "inner" })
	outer := hubtest.New(t, hubtest.HTTP("hub", inner.URL+"/mcps/up/mcp"), traced(r, "outer"))
	settled(t, outer, "hub")
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	c := outer.Client(t, hubtest.ClientOptions{})
	m := c.Tool("hub__params", `{"secret":"not for the collector"}`, hubtest.Meta(`"traceparent":"00-`+trace+`-`+parent+`-01"`))
	at := func(service string) func(span) bool {
		return func(s span) bool { return s.service == service && s.name == "tools/call params" }
	}
	first := r.await(t, "the outer hub tells of the call", at("outer"))
	second := r.await(t, "the inner hub tells of the call", at("inner"))
	if first.trace != trace || first.parent != parent || second.trace != trace || second.parent != first.id || first.failed {
		t.Errorf("outer %+v, inner %+v", first, second)
	}
	if want := "00-" + trace + "-" + second.id + "-01"; !strings.Contains(string(m.Raw), want) {
		t.Errorf("the server was not told %s: %s", want, m.Raw)
	}
	if first.attrs["stoa.upstream"] != "hub" || first.attrs["gen_ai.tool.name"] != "params" {
		t.Errorf("attributes: %v", first.attrs)
	}
	c.Tool("hub__fail", "")
	if s := r.await(t, "the failure is told", func(s span) bool { return s.service == "outer" && s.name == "tools/call fail" }); !s.failed || s.trace == trace {
		t.Errorf("%+v", s)
	}
	records, _, _ := outer.Events().After(0, 1000)
	told := false
	for _, rec := range records {
		told = told || rec.Tool == "params" && rec.Trace == trace
	}
	if !told {
		t.Error("the event of the call does not name its trace")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.auth) == 0 || r.auth[0] != "Bearer for-the-collector" {
		t.Errorf("the receiver was told %q", r.auth)
	}
}

// Without traces of our own, what a client says of its trace goes on, also from
// a header.
func TestTraceGoesOn(t *testing.T) {
	web := peer.Serve(t, peer.Spec{Tools: []peer.Tool{{Name: "params", Behaviour: peer.Do(peer.Params)}}})
	h := hubtest.New(t, hubtest.HTTP("up", web.URL))
	settled(t, h, "up")
	const text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	c := h.Client(t, hubtest.ClientOptions{})
	s := c.Request("1", "tools/call", hubtest.ToolParams("up__params", ""))
	if s.Header == nil {
		s.Header = http.Header{}
	}
	s.Header.Set("Traceparent", text)
	if a := c.Do(s); !strings.Contains(string(a.Body), text) {
		t.Errorf("from the header: %s", a.Body)
	}
	if m := c.Tool("up__params", "", hubtest.Meta(`"traceparent":"`+text+`"`)); !strings.Contains(string(m.Raw), text) {
		t.Errorf("from _meta: %s", m.Raw)
	}
}

// A receiver that is away costs no call anything, and is told of.
func TestReceiverAway(t *testing.T) {
	web := peer.Serve(t, peer.Spec{Tools: echoTool()})
	h := hubtest.New(t, hubtest.HTTP("up", web.URL), traced(&receiver{url: "http://127.0.0.1:1"}, "stoa"))
	settled(t, h, "up")
	if m := h.Client(t, hubtest.ClientOptions{}).Tool("up__echo", `{"a":1}`); m.Text() != `{"a":1}` {
		t.Fatalf("%s", m.Raw)
	}
	hubtest.Eventually(t, "it is told", func() bool {
		return slices.ContainsFunc(errorsOf(t, h, "").Last, func(e incidentError) bool {
			return e.Source == "telemetry" && strings.Contains(e.Error.Message, "traces cannot be sent")
		})
	})
}
