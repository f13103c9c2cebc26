package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// serve runs a role's handler and returns its host:port.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.Listener.Addr().String()
}

// The whole chain without the hub: every era, size and mode through the proxy.
func TestLoadThroughProxy(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the loader reads CPU clocks the way Linux offers it")
	}
	up := serve(t, newUpstream(smallCatalogue))
	through := newProxy(up)
	for name, address := range map[string]string{"direct": up, "proxy": serve(t, through)} {
		for _, e := range []era{legacy, modern} {
			for _, size := range []int{100, 1 << 20} {
				for _, progress := range []bool{false, true} {
					l := load{endpoint: endpoint{address, "/mcp"}, Tools: smallCatalogue, PID: os.Getpid(),
						scenario: scenario{Era: e, Conns: 3, Size: size, Progress: progress},
						Window:   5 * time.Millisecond}
					got, err := l.run()
					if err != nil {
						t.Errorf("%s, %s, %d B, progress %v: %v", name, e, size, progress, err)
						continue
					}
					if got.Calls < 3 || got.P50 <= 0 || got.P99 < got.P50 || got.CPU <= 0 || got.RSS <= 0 || got.Elapsed < l.Window {
						t.Errorf("%s, %s, %d B, progress %v: implausible sample %+v", name, e, size, progress, got)
					}
				}
			}
		}
	}
}

func TestLoadReportsErrors(t *testing.T) {
	refuse := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no sessions left", http.StatusServiceUnavailable)
	}))
	for _, e := range []era{legacy, modern} {
		_, err := load{endpoint: endpoint{refuse, "/mcp"}, scenario: scenario{Era: e, Conns: 1, Size: 100}}.run()
		if err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "no sessions left") {
			t.Errorf("%s: error %v, want the status and the text", e, err)
		}
	}
}

func TestUpstreamPagesItsTools(t *testing.T) {
	c, err := dial(serve(t, newUpstream(pageSize+5)), time.Now().Add(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	e := endpoint{c.tcp.RemoteAddr().String(), "/mcp"}
	var names []string
	for cursor, page := "", 0; page == 0 || cursor != ""; page++ {
		params := "{}"
		if cursor != "" {
			params = fmt.Sprintf(`{"cursor":%q}`, cursor)
		}
		if _, err := c.roundTrip(e.post("", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":`+params+`}`)); err != nil {
			t.Fatal(err)
		}
		var v struct {
			Result struct {
				NextCursor string
				Tools      []struct{ Name string }
			}
		}
		if err := json.Unmarshal(c.body, &v); err != nil {
			t.Fatal(err)
		}
		for _, tool := range v.Result.Tools {
			names = append(names, tool.Name)
		}
		if cursor = v.Result.NextCursor; page > 2 {
			t.Fatal("the list does not end")
		}
	}
	if len(names) != pageSize+5 || names[0] != toolName(0) || names[len(names)-1] != toolName(pageSize+4) {
		t.Errorf("%d tools from %s to %s", len(names), names[0], names[len(names)-1])
	}
}

func TestUpstreamSpeaksBothEras(t *testing.T) {
	c, err := dial(serve(t, newUpstream(1)), time.Now().Add(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	e := endpoint{c.tcp.RemoteAddr().String(), "/mcp"}
	for _, tc := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{` + modernMeta + `}}}`, 200, `"supportedVersions"`},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, 200, `"protocolVersion":"2025-11-25"`},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, 200, `"result":{}`},
		{`{"jsonrpc":"2.0","id":1,"method":"prompts/list","params":{"_meta":{` + modernMeta + `}}}`, 404, `-32601`},
		{`{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`, 200, `-32601`},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202, ``},
		{`[]`, 400, `not a JSON object`},
	} {
		r, err := c.roundTrip(e.post("", tc.body))
		if err != nil {
			t.Fatalf("%s: %v", tc.body, err)
		}
		if r.status != tc.status || !strings.Contains(string(c.body), tc.want) {
			t.Errorf("%s: HTTP %d %s, want %d and %s", tc.body, r.status, c.body, tc.status, tc.want)
		}
		if tc.status == 200 && !json.Valid(c.body) {
			t.Errorf("%s: answer is no JSON: %s", tc.body, c.body)
		}
	}
}

func TestIdleKinds(t *testing.T) {
	up, bare := serve(t, newUpstream(1)), serve(t, newBare())
	for _, h := range []hold{
		{endpoint: endpoint{bare, "/mcp"}, Kind: idlePost, Bare: true},
		{endpoint: endpoint{bare, "/sse"}, Kind: idleGet, Bare: true},
		{endpoint: endpoint{bare, "/sse"}, Kind: idleListen, Bare: true},
		{endpoint: endpoint{up, "/mcp"}, Kind: idleGet},
		{endpoint: endpoint{up, "/mcp"}, Kind: idleListen},
	} {
		h.Count = 20
		conns, err := h.openAll()
		if err != nil {
			t.Errorf("%s at %s: %v", h.Kind, h.Path, err)
		}
		for _, c := range conns {
			if c != nil {
				c.close()
			}
		}
	}
}

func TestReadHead(t *testing.T) {
	r, err := readHead(bufio.NewReader(strings.NewReader("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; x\r\nTransfer-Encoding: chunked\r\nMCP-SESSION-ID: s1\r\n\r\n")))
	if want := (response{status: 200, length: -1, sse: true, session: "s1"}); err != nil || r != want {
		t.Errorf("readHead = %+v, %v; want %+v", r, err, want)
	}
	for _, in := range []string{"", "HTTP/1.0 200 OK\r\n\r\n", "HTTP/1.1 abc\r\n\r\n", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"} {
		if _, err := readHead(bufio.NewReader(strings.NewReader(in))); err == nil {
			t.Errorf("readHead(%q) found a head", in)
		}
	}
}
