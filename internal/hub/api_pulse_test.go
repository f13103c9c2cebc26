package hub_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
)

// The pulse tells of calls by time, to the hub's owner, and of errors.
func TestAPIPulse(t *testing.T) {
	c := apiHub(t)
	if a := tokenFor(t, c.hub, "other", "*").do("GET", "/api/v1/pulse", ""); a.Status != http.StatusForbidden {
		t.Errorf("for others: %d %s", a.Status, a.Body)
	}
	type page struct {
		StepMs        int64
		End           time.Time
		Calls, Failed []int
		P50           []int64 `json:"p50_us"`
		Errors        int
	}
	c.tool("up__no", "{}")
	await.Until(t, "an error is counted", func() bool { return hubtest.Decode[page](c.ok("GET", "/api/v1/pulse", "")).Errors > 0 })
	// Calls of the step that runs are not told yet, so that these are dated back.
	for range 3 {
		c.hub.Events().Emit(event.Record{Type: event.CallDone, Time: time.Now().Add(-time.Minute), TookUS: 100, Kind: "timeout"})
	}
	p := hubtest.Decode[page](c.ok("GET", "/api/v1/pulse", ""))
	calls, failed := 0, 0
	for i := range p.Calls[:len(p.Calls)-5] { // the last may have those of apiHub
		calls, failed = calls+p.Calls[i], failed+p.Failed[i]
	}
	if len(p.Calls) != event.PulsePoints || p.StepMs != event.PulseStep.Milliseconds() || calls != 3 || failed != 3 {
		t.Errorf("%d calls, %d failed in %d steps of %d ms", calls, failed, len(p.Calls), p.StepMs)
	}
	if since := time.Since(p.End); since < 0 || since > 2*event.PulseStep {
		t.Errorf("it ends %v ago", since)
	}
}

// Long answers of the API come compressed to those who take that, and are the
// same; others come as they are.
func TestAPICompresses(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	for range 500 {
		c.hub.Events().Emit(event.Record{Type: event.CallDone, Upstream: "up", Tool: "echo", Session: "work"})
	}
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	get := func(path, encoding string) (*http.Response, []byte) {
		t.Helper()
		r, err := http.NewRequest("GET", c.hub.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+c.hub.Token)
		r.Header.Set("Accept-Encoding", encoding)
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %v %s", path, resp.Status, err, body)
		}
		if resp.Header.Get("Content-Encoding") != "gzip" {
			return resp, body
		}
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil || len(body)*5 > len(text) {
			t.Errorf("%s: %d bytes of %d: %v", path, len(body), len(text), err)
		}
		return resp, text
	}
	const long, short = "/api/v1/events?after=0&limit=400&wait=0s", "/api/v1/events?after=0&limit=1&wait=0s"
	for _, tc := range []struct{ path, encoding, want string }{{long, "gzip, br", "gzip"}, {long, "identity", ""}, {short, "gzip", ""}} {
		resp, text := get(tc.path, tc.encoding)
		if got := resp.Header.Get("Content-Encoding"); got != tc.want {
			t.Errorf("%s for %s: encoded by %q", tc.path, tc.encoding, got)
		}
		if !json.Valid(text) || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s for %s: %s %.100s", tc.path, tc.encoding, resp.Header.Get("Content-Type"), text)
		}
	}
}
