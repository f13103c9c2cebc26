package call

import (
	"context"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/mcp"
)

// BenchmarkCounted is what it costs to tell of a call that nobody watches.
func BenchmarkCounted(b *testing.B) {
	d := New(Options{Events: event.New(0)})
	it, err := catalog.Parse(catalog.Tool, "u", []byte(`{"name":"t","inputSchema":{"type":"object"}}`))
	if err != nil {
		b.Fatal(err)
	}
	c := &Call{Req: requestOf(modernCaller(), `{"name":"u__t","arguments":{}}`), Item: it, Upstream: idle(b, "u")}
	result := []byte(`{"content":[{"type":"text","text":"a line"}]}`)
	t := tooled{call: "c_1"}
	b.ReportAllocs()
	for b.Loop() {
		t.ended = time.Now()
		d.count(context.Background(), c, &t, mcp.Response{Result: result}, nil, time.Millisecond)
	}
}
