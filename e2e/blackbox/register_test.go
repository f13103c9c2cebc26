package blackbox

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// A4: who registers an agent does not choose what the hub connects to.

// ownAddress is an address of this machine that is not loopback.
func ownAddress(t testing.TB) netip.Addr {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if p, err := netip.ParsePrefix(one.String()); err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			return p.Addr()
		}
	}
	t.Skip("this machine has no address but loopback")
	return netip.Addr{}
}

// twoDoors is a hub that listens on loopback and on another address, and a token
// for agents whose names begin with m-. h comes in by loopback, far does not.
func twoDoors(t testing.TB, servers object, settings ...object) (h, far *hub, token string) {
	t.Helper()
	own := ownAddress(t).String()
	h = &hub{folder: t.TempDir(), listen: []string{"127.0.0.1:0", own + ":0"}}
	h.config, h.data = filepath.Join(h.folder, "hub.jsonc"), filepath.Join(h.folder, "data")
	h.configure(t, servers, settings...)
	create := []string{"token", "create", "mallory", "--scope", "m-*", "--data", h.data, "--config", h.config, "--json"}
	out, err := h.run(t, append(create, "--right", "register")...)
	if err != nil { // a hub from before there were rights
		if out, err = h.run(t, create...); err != nil {
			t.Fatal(err)
		}
	}
	token = secretOf(t, out)
	h.launch(t)
	h.awaitTools(t, servers)
	there := *h
	there.address = h.all[1]
	return h, &there, token
}

// victim is a service on an address of this machine that only this machine
// should reach, and how often somebody did.
func victim(t testing.TB, address string, answer http.HandlerFunc) (url string, hits *atomic.Int64) {
	t.Helper()
	hits = new(atomic.Int64)
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		answer(w, r)
	}))
	_ = s.Listener.Close()
	s.Listener = ln
	s.Start()
	t.Cleanup(s.Close)
	return s.URL, hits
}

func (h *hub) register(t testing.TB, token, name, url string) reply {
	t.Helper()
	return h.post(t, "/mcps", token, object{"name": name, "url": url, "token": "chosen-by-mallory", "ttlMs": 60000})
}

func TestRegisteringIsNoWayIn(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	h, far, mallory := twoDoors(t, object{"files": files})
	secret, hits := victim(t, "127.0.0.1:0", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, mark) })
	port := secret[strings.LastIndex(secret, ":"):]
	_, hubPort, err := net.SplitHostPort(h.address)
	if err != nil {
		t.Fatal(err)
	}
	for i, url := range []string{
		"http://127.0.0.1:" + hubPort + "/mcp", // the hub's own door, where nobody is asked for a token
		secret + "/mcp", "http://localhost" + port + "/mcp", "http://127.0.0.2" + port + "/", "http://0.0.0.0" + port + "/",
		"http://[::ffff:127.0.0.1]" + port + "/", "http://[::]" + port + "/", "http://[::1]" + port + "/", "http://LOCALHOST." + port + "/",
		"http://169.254.169.254/latest/meta-data", "http://[fe80::1]/", "http://192.0.2.77/", "http://x@127.0.0.1" + port + "/",
	} {
		name := fmt.Sprintf("m-%d", i)
		got := far.register(t, mallory, name, url)
		if got.status/100 != 4 {
			t.Errorf("%s was registered from %s: %d %s", url, far.address, got.status, clip(got.text))
		}
		for _, tool := range []string{"files__write", "write"} {
			far.tool(t, "/mcps/"+name+"/mcp", mallory, tool, object{"path": filepath.Join(h.folder, "struck")})
		}
	}
	l.want(t, "write", 0)
	if n := hits.Load(); n != 0 {
		t.Errorf("a service on loopback was asked %d times", n)
	}
	if got := far.register(t, mallory, "m-x", secret+"/mcp"); !strings.Contains(got.text, "127.0.0.1") || !strings.Contains(got.text, "auth.register") {
		t.Errorf("the refusal does not say what was refused and what would allow it: %s", got.text)
	}
	// A proxy on the hub's machine makes nobody local.
	behind := http.Header{"X-Forwarded-For": {"198.51.100.7"}}
	if got := h.send(t, http.MethodPost, "/mcps", mallory, behind, object{"name": "m-y", "url": secret + "/mcp"}); got.status/100 != 4 {
		t.Errorf("registered through a proxy: %d %s", got.status, got.text)
	}
	// Who is on the hub's machine may register what is there.
	if got := h.register(t, mallory, "m-z", secret+"/mcp"); got.status != http.StatusCreated {
		t.Errorf("registered from loopback: %d %s", got.status, got.text)
	}
}

// An agent that may be registered does not send the hub on to where it may not.
func TestRegisteredAgentSendsTheHubNowhere(t *testing.T) {
	t.Parallel()
	_, far, mallory := twoDoors(t, object{})
	secret, hits := victim(t, "127.0.0.1:0", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, mark) })
	url, asked := victim(t, ownAddress(t).String()+":0", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", secret+"/mcp")
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	if got := far.register(t, mallory, "m-a", url+"/mcp"); got.status != http.StatusCreated {
		t.Fatalf("an agent where it registers from: %d %s", got.status, got.text)
	}
	await.Until(t, "the hub has asked the agent", func() bool { return asked.Load() > 0 })
	got := far.tool(t, "/mcps/m-a/mcp", mallory, "x", object{})
	lacks(t, "a call", got.text, mark)
	if n := hits.Load(); n != 0 {
		t.Errorf("a service on loopback was asked %d times", n)
	}
}

func TestOwnerListsWhereAgentsMayBe(t *testing.T) {
	t.Parallel()
	_, far, mallory := twoDoors(t, object{}, object{"auth": object{"register": list{"127.0.0.1"}}})
	url, hits := victim(t, "127.0.0.1:0", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, mark) })
	if got := far.register(t, mallory, "m-a", url+"/mcp"); got.status != http.StatusCreated {
		t.Fatalf("an agent at a listed address: %d %s", got.status, got.text)
	}
	await.Until(t, "the hub has asked the agent", func() bool { return hits.Load() > 0 })
}

// A hub that is registered at itself, or that has a hub as a server which has it
// as one, is known by its id: what it offers does not grow.
func TestHubMeetsItself(t *testing.T) {
	t.Parallel()
	files, _ := upstream(t)
	h := serve(t, object{"files": files})
	before := h.names(t, "/mcp", "")
	for i, url := range []string{"http://" + h.address + "/mcp", strings.Replace("http://"+h.address+"/mcp", "127.0.0.1", "localhost", 1), "http://" + h.address + "/mcps/files/mcp"} {
		name := fmt.Sprintf("again-%d", i)
		if got := h.post(t, "/mcps", h.owner, object{"name": name, "url": url}); got.status/100 != 4 {
			t.Errorf("%s was registered at itself: %d %s", url, got.status, clip(got.text))
			await.Until(t, "what it offers has grown", func() bool { return len(h.names(t, "/mcp", "")) > len(before) })
		}
	}
	if after := h.names(t, "/mcp", ""); len(after) != len(before) {
		t.Errorf("%d tools have become %d", len(before), len(after))
	}
}

func TestHubsThatHaveEachOther(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	tools, _ := upstream(t)
	one := serve(t, object{"files": files})
	two := serve(t, object{"tools": tools})
	url := func(h *hub) object { return object{"url": "http://" + h.address + "/mcp"} }
	two.configure(t, object{"tools": tools, "one": url(one)})
	await.Until(t, "the second has the tools of the first", func() bool {
		return slices.Contains(two.names(t, "/mcp", ""), "one__files__write")
	})
	one.configure(t, object{"files": files, "two": url(two)})
	await.Until(t, "the first has the tools of the second", func() bool {
		return slices.Contains(one.names(t, "/mcp", ""), "two__tools__write")
	})
	// Whatever was to come of the change has come when a later one is there.
	for i := range 3 {
		one.configure(t, object{"files": files, "two": url(two), fmt.Sprintf("more%d", i): tools})
		want := fmt.Sprintf("one__more%d__write", i)
		await.Until(t, want, func() bool { return slices.Contains(two.names(t, "/mcp", ""), want) })
	}
	for who, h := range map[string]*hub{"one__": two, "two__": one} {
		for _, name := range h.names(t, "/mcp", "") {
			if strings.Contains(name, "one__two__") || strings.Contains(name, "two__one__") {
				t.Errorf("a hub is offered its own tool behind %s, as %s", who, name)
			}
		}
	}
	two.tool(t, "/mcp", "", "one__files__write", object{"path": filepath.Join(two.folder, "written")})
	l.want(t, "write", 1)
}
