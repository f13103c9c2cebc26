package call

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/exchange"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
)

// Whatever a client or a server calls something, what is kept of it stays small.
func TestLongNamesAreShortened(t *testing.T) {
	long := strings.Repeat("ä", 1<<20)
	bus, ring := event.New(0), exchange.New(func(s string) string { return s })
	stop := bus.Watch()
	defer stop()
	d := New(Options{Events: bus, Raw: ring})
	req := requestOf(modernCaller(), `{"name":"`+long+`"}`)
	req.Session = long
	d.Saw(&mcp.Spoken{What: mcp.Answered, Request: req, Err: fault.New(fault.UnknownTool, "", "it is not there")})
	d.Saw(&mcp.Spoken{What: mcp.Heard, Request: &mcp.Request{Method: long, Client: modernCaller()}})
	d.Saw(&mcp.Spoken{What: mcp.Said, Request: &mcp.Request{Method: long, Client: modernCaller()}})
	d.Aside("u", mcp.Aside{Method: long})
	records, _, _ := bus.After(0, 10)
	if len(records) != 4 {
		t.Fatalf("%d records", len(records))
	}
	for _, r := range records {
		x, _ := ring.Find(r.Call)
		for i := range x.Messages {
			x.Messages[i].Text = "" // which has a bound of its own
		}
		for _, kept := range []any{r, x} {
			b, err := json.Marshal(kept)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(b); n > 4<<10 || !bytes.Contains(b, []byte("ää…")) {
				t.Errorf("%s: %d bytes are kept of %T", r.Type, n, kept)
			}
		}
	}
}

// Why a request of the hub's own got no answer: what lies between the hub and
// the server is not taken for a mistake of the hub's, nor the other way round.
func TestOwnRequestsThatFail(t *testing.T) {
	bus := event.New(0)
	stop := bus.Watch()
	defer stop()
	d := New(Options{Events: bus})
	for _, tt := range []struct {
		err  error
		want fault.Kind
	}{
		{io.ErrUnexpectedEOF, fault.Unreachable},
		{context.DeadlineExceeded, fault.Timeout},
		{fmt.Errorf("list tools: %w", fault.New(fault.Internal, "u", "what the server said made the hub stumble")), fault.Internal},
	} {
		last := bus.Last()
		d.Own("u", &mcp.Outgoing{Method: "tools/list"})(mcp.Response{}, tt.err)
		if got, _, _ := bus.After(last, 10); len(got) != 1 || got[0].Kind != tt.want.String() {
			t.Errorf("%v: %+v, want %v", tt.err, got, tt.want)
		}
	}
}

// BenchmarkCounted is what it costs to tell of a call that nobody watches.
func BenchmarkCounted(b *testing.B) {
	d := New(Options{Events: event.New(0)})
	it, err := catalog.Parse(catalog.Tool, "u", []byte(`{"name":"t","inputSchema":{"type":"object"}}`))
	if err != nil {
		b.Fatal(err)
	}
	c := &Call{Req: requestOf(modernCaller(), `{"name":"u__t","arguments":{}}`), Item: it, Upstream: idle(b, "u")}
	result := []byte(`{"content":[{"type":"text","text":"a line"}]}`)
	t := toolCall{call: "c_1"}
	b.ReportAllocs()
	for b.Loop() {
		t.ended = time.Now()
		d.count(context.Background(), c, &t, mcp.Response{Result: result}, nil, time.Millisecond)
	}
}
