package hub_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/collector"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/secret"
)

func traced(r *collector.Receiver, service string) hubtest.Edit {
	return hubtest.Config(func(c *config.Config) {
		c.Telemetry = config.Telemetry{Endpoint: r.URL, Service: service, Headers: map[string]secret.String{"Authorization": secret.New("Bearer for-the-collector")}}
	})
}

// One trace goes from the client through two hubs to the server behind them.
func TestOneTrace(t *testing.T) {
	hubtest.Parallel(t)
	r := collector.New(t)
	web := peer.Serve(t, peer.Spec{Tools: []peer.Tool{{Name: "params", Behaviour: peer.Do(peer.Params)}, {Name: "fail", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: `{"isError":true,"content":[]}`}}}})
	inner := hubtest.New(t, hubtest.HTTP("up", web.URL), traced(r, "inner"))
	settled(t, inner, "up")
	// Its connection to the receiver is there before the other hub is, which is
	// not to be blamed for it.
	inner.Client(t, hubtest.ClientOptions{}).Tool("up__fail", "")
	r.Await(t, "the inner hub tells of a call", func(s collector.Span) bool { return s.Service == "inner" })
	outer := hubtest.New(t, hubtest.HTTP("hub", inner.URL+"/mcps/up/mcp"), traced(r, "outer"))
	settled(t, outer, "hub")
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	c := outer.Client(t, hubtest.ClientOptions{})
	m := c.Tool("hub__params", `{"secret":"not for the collector"}`, hubtest.Meta(`"traceparent":"00-`+trace+`-`+parent+`-01"`))
	at := func(service string) func(collector.Span) bool {
		return func(s collector.Span) bool { return s.Service == service && s.Name == "tools/call params" }
	}
	first := r.Await(t, "the outer hub tells of the call", at("outer"))
	second := r.Await(t, "the inner hub tells of the call", at("inner"))
	if first.Trace != trace || first.Parent != parent || second.Trace != trace || second.Parent != first.ID || first.Failed {
		t.Errorf("outer %+v, inner %+v", first, second)
	}
	if want := "00-" + trace + "-" + second.ID + "-01"; !strings.Contains(string(m.Raw), want) {
		t.Errorf("the server was not told %s: %s", want, m.Raw)
	}
	if first.Attrs["stoa.upstream"] != "hub" || first.Attrs["gen_ai.tool.name"] != "params" {
		t.Errorf("attributes: %v", first.Attrs)
	}
	c.Tool("hub__fail", "")
	if s := r.Await(t, "the failure is told", func(s collector.Span) bool { return s.Service == "outer" && s.Name == "tools/call fail" }); !s.Failed || s.Trace == trace {
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
	if said := r.Auth(); len(said) == 0 || said[0] != "Bearer for-the-collector" {
		t.Errorf("the receiver was told %q", said)
	}
}

// Without traces of our own, what a client says of its trace goes on, also from
// a header.
func TestTraceGoesOn(t *testing.T) {
	hubtest.Parallel(t)
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
	hubtest.Parallel(t)
	web := peer.Serve(t, peer.Spec{Tools: echoTool()})
	h := hubtest.New(t, hubtest.HTTP("up", web.URL), traced(&collector.Receiver{URL: "http://127.0.0.1:1"}, "stoa"))
	settled(t, h, "up")
	if m := h.Client(t, hubtest.ClientOptions{}).Tool("up__echo", `{"a":1}`); m.Text() != `{"a":1}` {
		t.Fatalf("%s", m.Raw)
	}
	await.Until(t, "it is told", func() bool {
		return slices.ContainsFunc(errorsOf(t, h, "").Last, func(e incidentError) bool {
			return e.Source == "telemetry" && strings.Contains(e.Error.Message, "traces cannot be sent")
		})
	})
}
