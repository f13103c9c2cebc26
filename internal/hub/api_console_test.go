package hub_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/secret"
)

type shownServer struct {
	Server struct {
		State string
		Pids  []int
	}
	Connections  []struct{ Pid int }
	Capabilities map[string]any
	Changes      []struct {
		Items []struct {
			Kind, Name, What string
			Before, After    json.RawMessage
		}
	}
}

func TestAPIServerRestart(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	show := func() shownServer {
		return hubtest.Decode[shownServer](c.ok("GET", "/api/v1/servers/up", ""))
	}
	was := show()
	if len(was.Connections) != 1 || was.Connections[0].Pid == 0 || was.Capabilities["tools"] == nil || len(was.Changes) != 0 {
		t.Fatalf("before: %+v", was)
	}
	if a := tokenFor(t, c.hub, "ann", "*").do("POST", "/api/v1/servers/up/restart", ""); a.Status != http.StatusForbidden {
		t.Errorf("somebody else restarts it: %d %s", a.Status, a.Body)
	}
	if a := c.do("POST", "/api/v1/servers/upp/restart", ""); a.Status != http.StatusNotFound || !strings.Contains(string(a.Body), "Did you mean up?") {
		t.Errorf("one that is not there: %d %s", a.Status, a.Body)
	}
	if a := c.do("POST", "/api/v1/servers/up/restart", ""); a.Status != http.StatusAccepted {
		t.Fatalf("restart: %d %s", a.Status, a.Body)
	}
	await.Until(t, "there is another process", func() bool {
		now := show()
		return now.Server.State == "connected" && len(now.Connections) == 1 && now.Connections[0].Pid != was.Connections[0].Pid
	})
	if status, e := c.tool("up__echo", `{"text":"hi"}`); status != 200 || !*e.Success {
		t.Errorf("a call after it: %d %+v", status, e)
	}
}

func TestAPICatalogueChanges(t *testing.T) {
	hubtest.Parallel(t)
	web := peer.Serve(t, peer.Spec{Tools: []peer.Tool{{Name: "grow", Behaviour: peer.Do(peer.Notify)}}})
	h := hubtest.New(t, hubtest.HTTP("up", web.URL), hubtest.Modules())
	waitTools(t, h)
	c := apiClient{t, h, h.Token}
	var got shownServer
	await.Until(t, "a change is told", func() bool {
		c.tool("up__grow", `{}`) // the first may be told together with what was there at first
		got = hubtest.Decode[shownServer](c.ok("GET", "/api/v1/servers/up", ""))
		return len(got.Changes) > 0
	})
	one := got.Changes[len(got.Changes)-1].Items
	if len(one) == 0 || one[0].Kind != "tool" || one[0].What != "added" || !strings.HasPrefix(one[0].Name, "extra_") || one[0].Before != nil || !strings.Contains(string(one[0].After), one[0].Name) {
		t.Errorf("%+v", one)
	}
}

func TestAPILogs(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	log := c.hub.Logs().Logger()
	log.Info("first of them", "n", 1)
	log.Warn("second of them", "n", 2)
	type page struct {
		Logs []struct {
			Level, Message string
			Attributes     map[string]any
		}
		Next uint64
	}
	read := func(query string) (got []string, next uint64) {
		p := hubtest.Decode[page](c.ok("GET", "/api/v1/logs?"+query, ""))
		for _, l := range p.Logs {
			got = append(got, l.Level+" "+l.Message)
		}
		return got, p.Next
	}
	got, next := read("search=of+them")
	if diff := cmp.Diff([]string{"info first of them", "warn second of them"}, got); diff != "" {
		t.Error(diff)
	}
	if got, _ := read("search=of+them&level=warn"); len(got) != 1 {
		t.Errorf("by level: %v", got)
	}
	log.Info("third of them")
	log.Info("fourth of them")
	got, after := read(fmt.Sprintf("search=of+them&after=%d&limit=1", next))
	if diff := cmp.Diff([]string{"info third of them"}, got); diff != "" {
		t.Errorf("what followed: %s", diff)
	}
	if got, _ = read(fmt.Sprintf("search=of+them&after=%d", after)); len(got) != 1 || got[0] != "info fourth of them" {
		t.Errorf("what followed that: %v", got)
	}
	for _, bad := range []string{"level=loud", "limit=0", "limit=1001", "after=x", "lines=1"} {
		if a := c.do("GET", "/api/v1/logs?"+bad, ""); a.Status != http.StatusBadRequest {
			t.Errorf("%s: %d", bad, a.Status)
		}
	}
	if a := tokenFor(t, c.hub, "ann", "*").do("GET", "/api/v1/logs", ""); a.Status != http.StatusForbidden {
		t.Errorf("somebody else: %d %s", a.Status, a.Body)
	}
}

func TestAPIConfig(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t, hubtest.Config(func(cfg *config.Config) {
		cfg.Servers[0].Env["API_KEY"] = secret.New("correct-horse")
	}))
	raw := c.ok("GET", "/api/v1/config", "")
	got := hubtest.Decode[struct {
		Config  map[string]any
		Origins map[string]string
	}](raw)
	if got.Config["servers"] == nil || got.Origins["/servers/up/command"] == "" || strings.Contains(string(raw), "correct-horse") || !strings.Contains(string(raw), secret.Dots) {
		t.Errorf("%s", raw)
	}
	if a := tokenFor(t, c.hub, "ann", "*").do("GET", "/api/v1/config", ""); a.Status != http.StatusForbidden {
		t.Errorf("somebody else: %d %s", a.Status, a.Body)
	}
}

func TestAPIValueEdit(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	c.put("work", "rows", `[10, 20, 30]`)
	const at = "/api/v1/sessions/work/values/rows"
	page := hubtest.Decode[struct {
		Page          []int
		Unit          string
		Offset, Total int
		Next          int
	}](c.ok("GET", at+"/page?offset=1&limit=1", ""))
	if diff := cmp.Diff([]int{20}, page.Page); diff != "" || page.Unit != "elements" || page.Total != 3 || page.Next != 2 {
		t.Errorf("a page: %+v", page)
	}
	c.ok("PUT", at+"?over=1", `{"n":1.0}`)
	if got := string(c.ok("GET", at, "")); got != `{"n":1.0}` {
		t.Errorf("edited: %s", got)
	}
	if a := c.do("PUT", at+"?over=1", `2`); a.Status != http.StatusBadRequest || !strings.Contains(string(a.Body), "version 2 of it is current") {
		t.Errorf("over a version that is not current: %d %s", a.Status, a.Body)
	}
	for _, bad := range []string{`{"n"`, ``} {
		if a := c.do("PUT", at, bad); a.Status != http.StatusBadRequest {
			t.Errorf("%q: %d %s", bad, a.Status, a.Body)
		}
	}
	if a := c.do("PUT", "/api/v1/sessions/work/values/rowz", `1`); a.Status != http.StatusNotFound {
		t.Errorf("one that is not there: %d %s", a.Status, a.Body)
	}
	if status, e := c.tool("up__echo?session=work&saveAs=copy", `{"from":"@rows.n"}`); status != 200 || !*e.Success {
		t.Fatalf("a call that uses it: %d %+v", status, e)
	}
	got := hubtest.Decode[struct {
		Versions []struct{ Version int }
		UsedBy   []struct {
			Name, Tool string
			Used       int
		}
	}](c.ok("GET", at+"/provenance", ""))
	if len(got.Versions) != 2 || got.Versions[0].Version != 2 || len(got.UsedBy) != 1 || got.UsedBy[0].Name != "copy" || got.UsedBy[0].Tool != "up:echo" || got.UsedBy[0].Used != 2 {
		t.Errorf("%+v", got)
	}
}

func TestAPISessionPages(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	for i := range 5 {
		c.put(fmt.Sprintf("work%d", i), "v", `1`)
	}
	c.put("other", "v", `1`)
	if diff := cmp.Diff([]string{"local/work2", "local/work3"}, c.sessions("/api/v1/sessions?search=WORK&offset=2&limit=2")); diff != "" {
		t.Error(diff)
	}
	if got := hubtest.Decode[struct{ Total int }](c.ok("GET", "/api/v1/sessions?search=work&limit=1", "")); got.Total != 5 {
		t.Errorf("total %d", got.Total)
	}
}

// The console can be had on a further port, which says no token to a model and
// needs one from whoever comes.
func TestWebDebug(t *testing.T) {
	dir := t.TempDir()
	opened := filepath.Join(dir, "opened")
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte("#!/bin/sh\nprintf %s \"$1\" > "+opened+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	c := apiHub(t)
	type web struct {
		Running  bool
		Port     int
		URL      string
		UptimeMs int64
		Viewers  int
	}
	status := func() web {
		_, e := c.tool("web_debug_status", `{}`)
		return hubtest.Decode[web](e.Data)
	}
	if s := status(); s.Running || s.Port != 0 {
		t.Errorf("before: %+v", s)
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if _, e := c.tool("web_debug_start", fmt.Sprintf(`{"port":%d}`, busy.Addr().(*net.TCPAddr).Port)); *e.Success || !strings.Contains(string(e.Error), "is in use") {
		t.Errorf("a port in use: %+v", e)
	}
	if _, e := tokenFor(t, c.hub, "ann", "*").tool("web_debug_start", `{}`); *e.Success || e.Code != "UNKNOWN_TOOL" {
		t.Errorf("somebody else: %+v", e)
	}
	_, e := c.tool("web_debug_start", `{"openBrowser":true}`)
	s := hubtest.Decode[web](e.Data)
	if !*e.Success || !s.Running || s.URL != fmt.Sprintf("http://127.0.0.1:%d/console/", s.Port) || strings.Contains(string(e.Data)+*e.Message, c.token) {
		t.Fatalf("start: %+v %s", e, e.Data)
	}
	if shown, err := os.ReadFile(opened); err != nil || string(shown) != s.URL {
		t.Errorf("the browser was shown %s (%v)", shown, err)
	}
	if again := status(); !again.Running || again.Port != s.Port || again.UptimeMs < s.UptimeMs {
		t.Errorf("status: %+v", again)
	}
	for path, want := range map[string]int{"/console/": 200, "/api/v1/servers": 401} {
		resp, err := http.DefaultTransport.(*http.Transport).Clone().RoundTrip(hubtestRequest(t, strings.TrimSuffix(s.URL, "/console/")+path))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s at the further port: %d", path, resp.StatusCode)
		}
	}
	c.hub.Stop()
	if ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port)); err != nil {
		t.Errorf("the port after the hub has stopped: %v", err)
	} else {
		ln.Close()
	}
}

func hubtestRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	return r
}
