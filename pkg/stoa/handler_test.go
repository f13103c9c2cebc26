package stoa_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stoahub/stoa/pkg/stoa"
)

// served is a hub's Handler on an address, and what asks it.
func served(t *testing.T, h *stoa.Hub, address string) func(method, path, host, token string) (int, string) {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip(err)
	}
	s := httptest.NewUnstartedServer(h.Handler())
	_ = s.Listener.Close()
	s.Listener = ln
	s.Start()
	t.Cleanup(s.Close)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return func(method, path, host, token string) (int, string) {
		t.Helper()
		body := ""
		if method == http.MethodPost {
			body = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		}
		r, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		r.Header.Set("Content-Type", "application/json")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
}

// A hub without servers offers nothing: the agents and the chat of the command
// are not the program's.
func TestHandlerOfAnEmptyHub(t *testing.T) {
	const token = "a-token-of-some-length"
	for _, with := range []string{"", token} {
		ask := served(t, open(t, stoa.Config{Token: with}), "127.0.0.1:0")
		for _, name := range []string{"crud", "news", "collaborator", "AIlumina", "ailumina"} {
			if status, text := ask(http.MethodPost, "/mcps/"+name+"/mcp", "", with); status != http.StatusNotFound {
				t.Errorf("the agent %s: %d %s", name, status, text)
			}
			if status, text := ask(http.MethodGet, "/ws/"+name, "", with); status != http.StatusNotFound {
				t.Errorf("the socket of %s: %d %s", name, status, text)
			}
		}
		for _, path := range []string{"/ws", "/api/chat", "/api/files", "/console/"} {
			closed := strings.HasPrefix(path, "/api/") && with == "" // to all of it there is no way in without a token
			if status, text := ask(http.MethodGet, path, "", with); status != http.StatusNotFound && !(closed && status == http.StatusUnauthorized) {
				t.Errorf("%s: %d %s", path, status, text)
			}
		}
		if _, text := ask(http.MethodGet, "/mcps", "", with); strings.TrimSpace(text) != `{"agents":[]}` {
			t.Errorf("the agents: %s", text)
		}
		if status, text := ask(http.MethodPost, "/mcp", "", with); status != http.StatusOK || !strings.Contains(text, `"tools":[]`) {
			t.Errorf("the tools: %d %s", status, text)
		}
		_, index := ask(http.MethodGet, "/", "", "")
		for _, absent := range []string{"/ws\"", "/console"} {
			if strings.Contains(strings.ReplaceAll(index, "/mcp/ws", ""), absent) {
				t.Errorf("the index names %s: %s", absent, index)
			}
		}
	}
}

// A program may serve the hub on an address that others reach, who can send any
// Host.
func TestHandlerServesThisMachine(t *testing.T) {
	own := ""
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			own = n.IP.String()
		}
	}
	if own == "" {
		t.Skip("this machine has no address but loopback")
	}
	h := open(t, stoa.Config{})
	for address, want := range map[string]int{"127.0.0.1:0": http.StatusOK, own + ":0": http.StatusUnauthorized} {
		if status, text := served(t, h, address)(http.MethodPost, "/mcp", "localhost", ""); status != want {
			t.Errorf("at %s: %d %s, want %d", address, status, text, want)
		}
	}
}
