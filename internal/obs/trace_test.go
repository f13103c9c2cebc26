package obs

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/collector"
)

// A receiver that does not answer holds nobody up; so many spans wait, and the
// rest is counted. To close does not wait for it either.
func TestSlowReceiver(t *testing.T) {
	r := collector.New(t)
	r.Hold()
	tr, err := OpenTracer(TraceOptions{Endpoint: r.URL, Sample: 1, Service: "s"})
	if err != nil {
		t.Fatal(err)
	}
	const n = 3 * maxWaiting
	began := time.Now()
	for range n {
		_, s := tr.Start(context.Background(), "x", Parent{}, "k", "v")
		s.End("")
	}
	sent, lost, waiting := tr.Figures()
	if sent != 0 || lost != n-maxWaiting || waiting != maxWaiting {
		t.Errorf("%d sent, %d lost, %d wait", sent, lost, waiting)
	}
	if held := len(tr.recent.ring); held != keptSpans {
		t.Errorf("%d are held", held)
	}
	tr.Close()
	if took := time.Since(began); took >= exportTime {
		t.Errorf("it took %v, and so long the receiver is given", took)
	}
}

// That a receiver is out of order is told once, and once that it is back.
func TestReceiverOutOfOrder(t *testing.T) {
	r := collector.New(t)
	r.Answer(http.StatusBadRequest)
	var failed, back atomic.Int32
	tr, err := OpenTracer(TraceOptions{Endpoint: r.URL, Sample: 1, Service: "s", Failed: func(error) { failed.Add(1) }, Recovered: func(lost int64) { back.Add(int32(lost)) }})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	send := func() {
		_, s := tr.Start(context.Background(), "x", Parent{})
		s.End("")
		if err := tr.provider.ForceFlush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		send()
	}
	if n := failed.Load(); n != 1 || back.Load() != 0 {
		t.Errorf("told %d times", n)
	}
	r.Answer(http.StatusOK)
	send()
	send()
	if back.Load() != 3 || failed.Load() != 1 {
		t.Errorf("that it is back was told with %d lost", back.Load())
	}
	r.Answer(http.StatusBadRequest)
	send()
	if failed.Load() != 2 {
		t.Error("the second time is not told")
	}
	if sent, lost, waiting := tr.Figures(); sent != 2 || lost != 4 || waiting != 0 {
		t.Errorf("%d sent, %d lost, %d wait", sent, lost, waiting)
	}
}

func TestParents(t *testing.T) {
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for text, want := range map[string]string{
		"00-" + trace + "-" + span + "-01":                    trace,
		"00-" + trace + "-" + span + "-00":                    trace,
		"cc-" + trace + "-" + span + "-01-what-later-brings":  trace,
		"00-" + trace + "-" + span + "-01-more":               "",
		"ff-" + trace + "-" + span + "-01":                    "",
		"00-" + strings.ToUpper(trace) + "-" + span + "-01":   "",
		"00-" + strings.Repeat("0", 32) + "-" + span + "-01":  "",
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01": "",
		"00-" + trace + "-" + span:                            "",
		"":                                                    "",
		strings.Repeat("x", 1<<20):                            "",
		"00-" + trace + "-" + span + "-01\n":                  "",
		"00-" + trace + "-" + span + "-0g":                    "",
	} {
		if got := (Parent{Traceparent: text}).Trace(); got != want {
			t.Errorf("%.80q is of trace %q", text, got)
		}
		if got := ParentOf(http.Header{"Traceparent": {text}, "Tracestate": {"a=1", "b=2"}}); want != "" && (got.Traceparent != text || got.Tracestate != "a=1,b=2") || want == "" && got != (Parent{}) {
			t.Errorf("%.80q as a header: %+v", text, got)
		}
	}
	var none *Tracer
	ctx, s := none.Start(context.Background(), "x", Parent{Traceparent: "00-" + trace + "-" + span + "-01"})
	s.Count("n", 1)
	s.End("")
	if s != nil || Carried(ctx) != (Parent{}) || s.Parent() != (Parent{}) || none.Ended(trace) != nil {
		t.Error("nobody traces, and there is a span")
	}
	none.Close()
	for _, bad := range []string{"nonsense", "ftp://x", "http://", ":"} {
		if _, err := OpenTracer(TraceOptions{Endpoint: bad}); err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("the endpoint %q was taken", bad)
		}
	}
}
