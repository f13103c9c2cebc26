package hub_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// ask asks the API of a hub in a process of its own.
func (d *durable) ask(t *testing.T, path string) []byte {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(d.data, "token"))
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodGet, d.address()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s %v", path, resp.StatusCode, b, err)
	}
	return b
}

// wrote reports whether a text is in the files of a log.
func (d *durable) wrote(t *testing.T, log, text string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(d.data, "js"), func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.Contains(path, filepath.Join("streams", log, "msgs")) && strings.HasSuffix(path, ".blk") {
			b, err := os.ReadFile(path)
			found = found || bytes.Contains(b, []byte(text))
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Errors are there after the hub was killed, and the counts of what was met
// before and after it add up.
func TestErrorsOutliveAKilledHub(t *testing.T) {
	hubtest.Parallel(t)
	d := newDurable(t)
	c := &http.Client{Transport: &http.Transport{}}
	defer c.CloseIdleConnections()
	fail := func() {
		if _, err := d.tool(c, "s", "context_get", `{"name":"nothing"}`); err == nil {
			t.Fatal("what is not there was found")
		}
	}
	for life := 1; life <= 3; life++ {
		fail()
		id := hubtest.Decode[errorPage](d.ask(t, "/api/v1/errors?tool=context_get")).Last[0].ID
		await.Until(t, "it is in a file", func() bool { return d.wrote(t, "errors", id) })
		d.kill(t)
		d.start(t)
		page := hubtest.Decode[errorPage](d.ask(t, "/api/v1/errors?tool=context_get"))
		if len(page.Groups) != 1 || page.Groups[0].Count != int64(life) || len(page.Last) != life || page.Total != 0 {
			t.Fatalf("life %d: %+v", life, page)
		}
	}
	lines := 0
	for l := bufio.NewScanner(bytes.NewReader(d.ask(t, "/api/v1/errors/export"))); l.Scan(); lines++ {
		if !json.Valid(l.Bytes()) {
			t.Errorf("exported as %s", l.Bytes())
		}
	}
	if lines != 3 {
		t.Errorf("%d are exported", lines)
	}
}

// Errors are broadcast in the form that the source has, member by member.
func TestFormOfABroadcast(t *testing.T) {
	hubtest.Parallel(t)
	web := peer.Serve(t, peer.Spec{Tools: []peer.Tool{{Name: "refuse", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: `{"isError":true,"content":[{"type":"text","text":"not today"}]}`}}}})
	h := hubtest.New(t, hubtest.HTTP("up", web.URL), hubtest.Modules())
	settled(t, h, "up")
	began := time.Now().Add(-time.Millisecond)
	viewer := watch(t, h, "?types=error")
	h.Client(t, hubtest.ClientOptions{}).Tool("up__refuse", `{}`)
	raw := viewer()
	for !strings.Contains(string(raw), `"type":"error"`) {
		raw = viewer()
	}
	var frame struct {
		Type string
		Data map[string]json.RawMessage
	}
	if err := json.Unmarshal(raw, &frame); err != nil || frame.Type != "error" {
		t.Fatalf("%v: %s", err, raw)
	}
	if diff := cmp.Diff([]string{"context", "error", "errorType", "id", "severity", "source", "time"}, slices.Sorted(maps.Keys(frame.Data))); diff != "" {
		t.Errorf("members: %s", diff)
	}
	var id, kind, severity, source string
	var what map[string]string
	var about map[string]string
	for name, to := range map[string]any{"id": &id, "errorType": &kind, "severity": &severity, "source": &source, "error": &what, "context": &about} {
		if err := json.Unmarshal(frame.Data[name], to); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := regexp.MustCompile(`^err_(\d{13})_[0-9a-f]{8}$`).FindStringSubmatch(id)
	if m == nil || m[1] < fmtMilli(began) || m[1] > fmtMilli(time.Now().Add(time.Millisecond)) {
		t.Errorf("id %q", id)
	}
	if kind != "tool-execution" || severity != "error" || source != "call" {
		t.Errorf("errorType %q, severity %q, source %q", kind, severity, source)
	}
	if diff := cmp.Diff(map[string]string{"message": "not today", "code": "TOOL_ERROR"}, what); diff != "" {
		t.Errorf("error: %s", diff)
	}
	if about["tool"] != "refuse" || about["operation"] != "tools/call" || about["upstream"] != "up" || about["call"] == "" {
		t.Errorf("context: %v", about)
	}
}

func fmtMilli(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) }

// watch follows events over a socket; each call returns the next frame.
func watch(t *testing.T, h *hubtest.Hub, query string) func() []byte {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(h.URL, "http")+"/api/v1/events/ws"+query, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + h.Token}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	next := func() []byte {
		ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
		defer cancel()
		_, b, err := conn.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if hello := next(); !strings.Contains(string(hello), `"hello"`) {
		t.Fatalf("greeted by %s", hello)
	}
	return next
}

// A viewer of one trace is told of that only.
func TestWatchOneTrace(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	next := watch(t, c.hub, "?types=call.done,error&trace="+traceID(8))
	client := c.hub.Client(t, hubtest.ClientOptions{})
	client.Tool("up__echo", `{}`, hubtest.Meta(`"traceparent":"`+traceparent(9)+`"`))
	client.Tool("up__no", `{}`, hubtest.Meta(`"traceparent":"`+traceparent(8)+`"`))
	for _, want := range []string{`"type":"call.done"`, `"type":"error"`} {
		if got := string(next()); !strings.Contains(got, want) || !strings.Contains(got, `"trace":"`+traceID(8)+`"`) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// What is wrong with the arguments of the tools that look into the hub is said.
func TestDebugToolsRefuse(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	for tool, bad := range map[string][]string{
		"web_debug_start":  {`{"port":0}`, `{"port":-1}`, `{"port":65536}`, `{"port":3000.5}`, `{"port":"3000"}`, `{"port":null}`, `{"openBrowser":"yes"}`, `{"openBrowser":1}`, `{"prot":3000}`, `[]`, `{"port":1e99}`},
		"web_debug_status": {`{"port":1}`, `[]`},
		"read_logs":        {`{"level":"loud"}`, `{"level":3}`, `{"level":""}`, `{"limit":0}`, `{"limit":-5}`, `{"limit":1001}`, `{"limit":"10"}`, `{"limit":1.5}`, `{"search":7}`, `{"search":"` + strings.Repeat("x", 1001) + `"}`, `{"serach":"x"}`},
	} {
		for _, args := range bad {
			if status, e := c.tool(tool, args); status == http.StatusOK && *e.Success {
				t.Errorf("%s %.60s was taken: %s", tool, args, e.Data)
			} else if e.Code != "INVALID_ARGUMENTS" && status != http.StatusBadRequest {
				t.Errorf("%s %.60s: %d %s", tool, args, status, e.Code)
			}
		}
	}
	if _, e := c.tool("web_debug_status", `{}`); strings.Contains(string(e.Data), `"running":true`) {
		t.Errorf("something was opened: %s", e.Data)
	}
	// Over MCP, in both eras, with what can be said.
	c.hub.Logs().Logger().Warn("a WebSocket of the test", "n", 1)
	for _, era := range bothEras {
		m := c.hub.Client(t, hubtest.ClientOptions{Era: era}).Tool("read_logs", `{"level":"warning","limit":100,"search":"WEBSOCKET of"}`)
		if !strings.Contains(m.Text(), "a WebSocket of the test") || !strings.Contains(m.Text(), `"count":1`) {
			t.Errorf("%s: %s", era, m.Text())
		}
	}
}

// A port that the console has is said to be there; another is refused while it
// is open, and viewers are counted.
func TestWebDebugTwice(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	type web struct {
		Running       bool
		Port, Viewers int
		URL           string
		UptimeMs      int64
	}
	start := func(args string) (web, string) {
		_, e := c.tool("web_debug_start", args)
		if !*e.Success {
			return web{}, string(e.Error)
		}
		return hubtest.Decode[web](e.Data), *e.Message
	}
	first, said := start(`{}`)
	if !first.Running || !strings.Contains(said, first.URL) {
		t.Fatalf("%+v %s", first, said)
	}
	again, said := start(`{"port":` + strconv.Itoa(first.Port) + `}`)
	if again.Port != first.Port || !strings.Contains(said, "already") || again.UptimeMs < first.UptimeMs {
		t.Errorf("the same port: %+v %s", again, said)
	}
	if again, said = start(`{}`); again.Port != first.Port || !strings.Contains(said, "already") {
		t.Errorf("any port: %+v %s", again, said)
	}
	other := 1 + first.Port%65535
	if _, said := start(`{"port":` + strconv.Itoa(other) + `}`); !strings.Contains(said, "already") {
		t.Errorf("another port: %s", said)
	}
	watch(t, c.hub, "")
	_, e := c.tool("web_debug_status", `{}`)
	if s := hubtest.Decode[web](e.Data); s.Viewers != 1 || s.Port != first.Port {
		t.Errorf("%+v", s)
	}
}
