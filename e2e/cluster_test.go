package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/port"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// fleet is several hubs on one store, behind a balancer that sends each request to the next of them.
type fleet struct {
	env     []string
	hubs    []hub
	running []*process
	front   hub // the balancer, which looks like one hub
}

// haproxy is the balancer's program. Where it has to be, its absence is a failure.
func haproxy(t *testing.T) string {
	t.Helper()
	given := os.Getenv("STOA_HAPROXY")
	if given == "none" {
		t.Skip("there is no HAProxy (STOA_HAPROXY=none)")
	}
	if given == "" {
		given = "haproxy"
	}
	path, err := exec.LookPath(given)
	if err != nil && os.Getenv("STOA_E2E") == "require" {
		t.Fatalf("no HAProxy is installed; run `make tools` as root, or set STOA_HAPROXY to one, or to none: %v", err)
	}
	if err != nil {
		t.Skip("no HAProxy is installed; run `make tools` as root, or set STOA_HAPROXY")
	}
	return path
}

// startFleet runs so many hubs with the same servers until the test ends.
func startFleet(t *testing.T, set toolset, count int, servers map[string]server) *fleet {
	t.Helper()
	balancer := haproxy(t)
	store := storetest.StartServer(t)
	f := &fleet{env: append(environment(t, set), "STOA_STORE_KEY=one secret that all hubs of the fleet are given"), front: hub{address: port.Address(t)}}
	config := writeConfig(t, servers, map[string]any{"store": map[string]any{"url": store.URL}})
	var lines []string
	for i := range count {
		h, p := launch(t, f.env, hub{config: config, data: filepath.Join(t.TempDir(), "data"), address: port.Address(t)})
		for name := range servers {
			p.await(t, "server "+name+" lists its tools", func() error { return listsTools(h.agent(name)) })
		}
		f.hubs, f.running = append(f.hubs, h), append(f.running, p)
		lines = append(lines, fmt.Sprintf("  server hub%d %s check inter 200ms fall 2 rise 1 on-marked-down shutdown-sessions", i, h.address))
	}
	settings := filepath.Join(t.TempDir(), "haproxy.cfg")
	text := fmt.Sprintf(`defaults
  mode http
  timeout connect 5s
  timeout client 5m
  timeout server 5m
  timeout tunnel 5m
frontend front
  bind %s
  default_backend hubs
backend hubs
  balance roundrobin
  option httpchk
  http-check send meth GET uri /healthz ver HTTP/1.1 hdr Host localhost
%s
`, f.front.address, strings.Join(lines, "\n"))
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, f.env, balancer, "-db", "-f", settings)
	p.await(t, "a hub answers behind the balancer", func() error { return get("http://" + f.front.address + "/healthz") })
	return f
}

// The suite finds in three hubs, of which each request reaches another, what it finds in one.
func TestConformanceOfSeveralHubs(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	// Over stdio each hub would have a fixture of its own, and what one changes the others would not tell of.
	names := map[string]string{legacy: "legacy", modern: "modern"}
	f := startFleet(t, set, 3, map[string]server{"legacy": {URL: fixtureHTTP(t, set, legacy)}, "modern": {URL: fixtureHTTP(t, set, modern)}})
	for _, version := range []string{legacy, modern} {
		t.Run(version, func(t *testing.T) { conform(t, set, f.front.agent(names[version]), version) })
	}
}

// visitor is a legacy client that asks again where nobody can tell whether it was heard, as clients behind balancers do.
type visitor struct {
	t       *testing.T
	url     string
	session string
	again   int // how often it had to
}

// ask sends a request, which bears repeating, until it is answered.
func (v *visitor) ask(method, params string) json.RawMessage {
	v.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	for deadline := time.Now().Add(readyDeadline); ; v.again++ {
		result, why := v.try(body)
		if why == "" {
			return result
		}
		if strings.Contains(why, "404") || time.Now().After(deadline) {
			v.t.Fatalf("%s: %s", method, why)
		}
	}
}

func (v *visitor) try(body string) (result json.RawMessage, why string) {
	request, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, v.url, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	if v.session != "" {
		request.Header.Set("Mcp-Session-Id", v.session)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err.Error()
	}
	var answer struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal(text, &answer); err != nil || response.StatusCode != http.StatusOK || answer.Error != nil {
		return nil, fmt.Sprintf("%s: %.300s", response.Status, text)
	}
	if v.session == "" {
		v.session = response.Header.Get("Mcp-Session-Id")
	}
	return answer.Result, ""
}

// A legacy client behind a balancer keeps its connection while hubs are killed and come back: what it stored before is
// there, and nothing tells it to begin again.
func TestClientOutlivesHubs(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	f := startFleet(t, set, 3, map[string]server{"fixture": {Command: fixtureBinary(t)}})
	v := &visitor{t: t, url: f.front.merged()}
	v.ask("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"visitor","version":"1"}}`)
	if v.session == "" {
		t.Fatal("the client got no session")
	}
	for round := range 2 * len(f.hubs) {
		for i := range 6 {
			v.ask("tools/call", fmt.Sprintf(`{"name":"context_add","arguments":{"name":"v%d","data":%d}}`, round, i))
			v.ask("tools/list", "{}")
		}
		victim := round % len(f.hubs)
		f.running[victim].end(t, syscall.SIGKILL)
		for seen := range round + 1 {
			got := string(v.ask("tools/call", fmt.Sprintf(`{"name":"context_get","arguments":{"name":"v%d"}}`, seen)))
			if !strings.Contains(got, `\"data\":5`) {
				t.Errorf("after %d kills v%d is %s", round+1, seen, got)
			}
		}
		_, f.running[victim] = launch(t, f.env, f.hubs[victim])
	}
	t.Logf("asked again %d times", v.again)
}
