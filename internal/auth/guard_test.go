package auth

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

func newGuard(t testing.TB, opt Options) *Guard {
	t.Helper()
	g, err := NewGuard(opt)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// whoami answers with the principal's name.
func whoami(w http.ResponseWriter, _ *http.Request, who *Principal) { fmt.Fprint(w, who.Name) }

func ask(h http.Handler, host string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/mcp", strings.NewReader("{}"))
	r.Host = host
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func wantError(t *testing.T, w *httptest.ResponseRecorder, status int, kind string) {
	t.Helper()
	if w.Code != status {
		t.Fatalf("status %d, want %d: %s", w.Code, status, w.Body)
	}
	var body struct {
		JSONRPC string
		ID      json.RawMessage
		Error   struct{ Data struct{ Kind string } }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatal(err)
	}
	if body.JSONRPC != "2.0" || string(body.ID) != "null" || body.Error.Data.Kind != kind {
		t.Fatalf("%s", w.Body)
	}
}

func TestGuardHostAndOrigin(t *testing.T) {
	loop := newGuard(t, Options{Loopback: true, Hosts: []string{"Hub.local", "box:9000"}, Origins: []string{"https://App.example.com", "vscode-webview://abc"}}).Accept(whoami)
	for _, tt := range []struct {
		host, origin string
		ok           bool
	}{
		{"localhost:8080", "", true}, {"LOCALHOST", "", true}, {"127.0.0.1:1", "", true}, {"127.9.8.7", "", true}, {"[::1]:8080", "", true}, {"[::1]", "", true},
		{"hub.local", "", true}, {"hub.LOCAL:1234", "", true}, {"box:9000", "", true}, {"box:9001", "", false}, {"box", "", false},
		{"evil.com", "", false}, {"evil.com:8080", "", false}, {"localhost.evil.com", "", false}, {"127.0.0.1.evil.com", "", false}, {"10.0.0.1", "", false},
		{"192.168.1.1:80", "", false}, {"[::2]", "", false}, {"::1", "", false}, {"", "", false}, {"localhost:", "", false}, {"localhost:x", "", false}, {"localhost@evil.com", "", false},
		{"localhost evil", "", false}, {"[::1", "", false}, {"[localhost]", "", false}, {"1.", "", false}, {"0x7f.1", "", false},
		{"localhost:1", "http://localhost:3000", false}, {"localhost:1", "https://127.0.0.1", false}, {"localhost:1", "http://[::1]:5", false},
		{"localhost:1", "http://localhost:1", true}, {"127.0.0.1:1", "http://localhost:1", false}, {"[::1]:5", "http://[::1]:5", true}, {"localhost", "http://localhost", true},
		{"hub.local:1", "http://hub.local:1", true}, {"hub.local:1", "http://hub.local:2", false},
		{"localhost:1", "https://app.example.com", true}, {"localhost:1", "vscode-webview://abc", true}, {"localhost:1", "https://app.example.com:444", false},
		{"localhost:1", "https://evil.com", false}, {"localhost:1", "null", false}, {"localhost:1", "file://", false}, {"localhost:1", "ftp://localhost", false},
		{"localhost:1", "http://localhost.evil.com", false}, {"localhost:1", "http://localhost:1/path", false}, {"localhost:1", "http://evil.com#@localhost", false},
	} {
		header := []string{}
		if tt.origin != "" {
			header = []string{"Origin", tt.origin}
		}
		w := ask(loop, tt.host, header...)
		if !tt.ok {
			wantError(t, w, 403, "foreign_origin")
		} else if w.Code != 200 || w.Body.String() != "local" {
			t.Errorf("%q from %q: %d %s", tt.host, tt.origin, w.Code, w.Body)
		}
	}
	wantError(t, ask(loop, "localhost", "Origin", "http://localhost", "Origin", "http://localhost"), 403, "foreign_origin")
}

// A browser says where a request is from, also where it sends no Origin.
func TestGuardFetchSite(t *testing.T) {
	g := newGuard(t, Options{Loopback: true, Origins: []string{"https://app.example.com"}})
	public := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "all") })
	for _, tt := range []struct {
		verb, origin, site, dest string
		accepted, public         int
	}{
		{"GET", "", "", "", 200, 200},
		{"GET", "", "none", "document", 200, 200},
		{"GET", "", "same-origin", "empty", 200, 200},
		{"GET", "", "same-site", "empty", 403, 403},
		{"GET", "", "cross-site", "image", 403, 403},
		{"GET", "", "cross-site", "iframe", 403, 403},
		{"GET", "", "cross-site", "document", 403, 200}, // a link
		{"GET", "", "same-site", "script", 403, 200},    // MCPBrowserClient.js
		{"POST", "", "cross-site", "document", 403, 403},
		{"POST", "http://localhost:1", "same-site", "empty", 403, 403},
		{"POST", "http://localhost:1", "same-origin", "empty", 200, 200},
		{"POST", "https://app.example.com", "cross-site", "empty", 200, 200},
		{"GET", "https://evil.com", "same-origin", "script", 403, 403},
	} {
		for face, want := range map[string]int{"accept": tt.accepted, "public": tt.public} {
			h := g.Accept(whoami)
			if face == "public" {
				h = g.Public(public)
			}
			r := httptest.NewRequest(tt.verb, "http://localhost:1/x", nil)
			for name, value := range map[string]string{"Origin": tt.origin, "Sec-Fetch-Site": tt.site, "Sec-Fetch-Dest": tt.dest} {
				if value != "" {
					r.Header.Set(name, value)
				}
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s: %+v: %d %s", face, tt, w.Code, w.Body)
			}
		}
	}
}

// What a page can post without the browser asking first is refused, whatever
// page it is.
func TestGuardPostsOfPages(t *testing.T) {
	h := newGuard(t, Options{Loopback: true, Origins: []string{"https://app.example.com"}}).Accept(whoami)
	for kind, want := range map[string]int{
		"application/json": 200, "application/json; charset=utf-8": 200, "application/octet-stream": 200,
		"": 400, "text/plain": 400, "Text/Plain;charset=UTF-8": 400, "application/x-www-form-urlencoded": 400, "multipart/form-data; boundary=x": 400,
	} {
		for _, origin := range []string{"", "http://localhost:1", "https://app.example.com"} {
			r := httptest.NewRequest("POST", "http://localhost:1/mcp", strings.NewReader("{}"))
			if kind != "" {
				r.Header.Set("Content-Type", kind)
			}
			if origin != "" {
				r.Header.Set("Origin", origin)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != want && origin != "" || w.Code != 200 && origin == "" {
				t.Errorf("%q from %q: %d %s", kind, origin, w.Code, w.Body)
			}
		}
	}
}

func TestGuardRefusesBadLists(t *testing.T) {
	for _, opt := range []Options{{Hosts: []string{""}}, {Hosts: []string{"*"}}, {Origins: []string{"*"}}, {Origins: []string{"app.example.com"}}, {Origins: []string{"https://a/b"}}} {
		if _, err := NewGuard(opt); err == nil {
			t.Errorf("%+v was accepted", opt)
		}
	}
}

func TestGuardTokens(t *testing.T) {
	tokens, path := openTokens(t)
	_, secret := create(t, tokens, "ci", "*")
	for _, tt := range []struct {
		name             string
		loopback         bool
		require          bool
		header           []string
		status           int
		body, challenges string
	}{
		{"loopback", true, false, nil, 200, "local", ""},
		{"loopback, good", true, false, []string{"Authorization", "Bearer " + secret}, 200, "ci", ""},
		{"loopback, wrong", true, false, []string{"Authorization", "Bearer " + secret + "x"}, 401, "", `Bearer error="invalid_token"`},
		{"loopback, other scheme", true, false, []string{"Authorization", "Basic eDp5"}, 401, "", `Bearer error="invalid_token"`},
		{"loopback, forwarded", true, false, []string{"X-Forwarded-For", "203.0.113.9"}, 401, "", "Bearer"},
		{"loopback, forwarded, good", true, false, []string{"Forwarded", "for=x", "Authorization", "Bearer " + secret}, 200, "ci", ""},
		{"required", true, true, nil, 401, "", "Bearer"},
		{"required, good", true, true, []string{"Authorization", "Bearer " + secret}, 200, "ci", ""},
		{"open", false, false, nil, 401, "", "Bearer"},
		{"open, good", false, false, []string{"Authorization", "Bearer " + secret}, 200, "ci", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGuard(t, Options{Loopback: tt.loopback, Verifier: tokens})
			h := g.Accept(whoami)
			if tt.require {
				h = g.Require(whoami)
			}
			w := ask(h, "localhost:8080", tt.header...)
			if tt.status == 401 {
				wantError(t, w, 401, "unauthorized")
			}
			if w.Code != tt.status || tt.body != "" && w.Body.String() != tt.body || w.Header().Get("WWW-Authenticate") != tt.challenges {
				t.Fatalf("%d %s %v", w.Code, w.Body, w.Header())
			}
		})
	}
	t.Run("unreadable file", func(t *testing.T) {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		tokens.keeper.(*fileTokens).checked.Store(0)
		h := newGuard(t, Options{Loopback: true, Verifier: tokens}).Accept(whoami)
		w := ask(h, "localhost", "Authorization", "Bearer "+secret)
		wantError(t, w, 500, "internal")
		if strings.Contains(w.Body.String(), path) {
			t.Fatal("the answer tells the path")
		}
	})
	t.Run("no verifier", func(t *testing.T) {
		h := newGuard(t, Options{Loopback: true}).Accept(whoami)
		wantError(t, ask(h, "localhost", "Authorization", "Bearer x"), 401, "unauthorized")
	})
}

func TestGuardAnyHostNeedsToken(t *testing.T) {
	g := newGuard(t, Options{})
	wantError(t, ask(g.Accept(whoami), "hub.example.com"), 401, "unauthorized")
	wantError(t, ask(g.Accept(whoami), "hub.example.com", "Origin", "https://evil.com"), 403, "foreign_origin")
	named := newGuard(t, Options{Hosts: []string{"hub.example.com"}})
	wantError(t, ask(named.Accept(whoami), "other.example.com"), 403, "foreign_origin")
}

func TestGuardPublic(t *testing.T) {
	g := newGuard(t, Options{Loopback: true})
	h := g.Public(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "ok") }))
	if w := ask(h, "localhost"); w.Code != 200 {
		t.Fatal(w.Code)
	}
	wantError(t, ask(h, "evil.com"), 403, "foreign_origin")
}

func TestGuardHoldsBackGuessing(t *testing.T) {
	tokens, _ := openTokens(t)
	_, secret := create(t, tokens, "ci", "*")
	now := time.Now()
	g := newGuard(t, Options{Loopback: true, Verifier: tokens, Now: func() time.Time { return now }})
	h := g.Accept(whoami)
	for range maxAttempts {
		wantError(t, ask(h, "localhost", "Authorization", "Bearer wrong"), 401, "unauthorized")
	}
	now = now.Add(10 * time.Second)
	w := ask(h, "localhost", "Authorization", "Bearer wrong")
	wantError(t, w, 429, "limit")
	if w.Header().Get("Retry-After") != "50" {
		t.Fatal(w.Header())
	}
	if w := ask(h, "localhost", "Authorization", "Bearer "+secret); w.Code != 200 {
		t.Fatalf("a good token behind the same address: %d", w.Code)
	}
	now = now.Add(50 * time.Second)
	wantError(t, ask(h, "localhost", "Authorization", "Bearer wrong"), 401, "unauthorized")
}

func TestAttemptsAreBounded(t *testing.T) {
	now := time.Now()
	a := attempts{now: func() time.Time { return now }}
	for i := range 3 * maxAddresses {
		a.failed(fmt.Sprintf("10.%d.%d.%d:1", i>>16&255, i>>8&255, i&255))
	}
	if len(a.from) != maxAddresses {
		t.Fatalf("%d addresses", len(a.from))
	}
	now = now.Add(attemptWindow)
	a.failed("192.0.2.1:1")
	if len(a.from) != 1 {
		t.Fatalf("%d addresses after the window", len(a.from))
	}
	if origin("[2001:db8::1]:1") != origin("[2001:db8::ffff]:2") || origin("192.0.2.1:1") == origin("192.0.2.2:1") || origin("[::ffff:192.0.2.1]:1") != origin("192.0.2.1:9") {
		t.Fatal("addresses are not grouped as they should be")
	}
}

func TestGuardGoodPathDoesNotAllocate(t *testing.T) {
	h := newGuard(t, Options{Loopback: true, Hosts: []string{"hub.local"}, Origins: []string{"https://app.example.com"}}).Accept(func(http.ResponseWriter, *http.Request, *Principal) {})
	w := httptest.NewRecorder()
	for _, host := range []string{"localhost:8080", "127.0.0.1:8080", "[::1]:8080", "hub.local:8080"} {
		r := httptest.NewRequest("POST", "/mcp", nil)
		r.Host = host
		r.Header.Set("Origin", "http://"+host)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		if n := testing.AllocsPerRun(100, func() { h.ServeHTTP(w, r) }); n != 0 {
			t.Errorf("%s: %v allocations", host, n)
		}
	}
}

func BenchmarkGuardLocal(b *testing.B) {
	h := newGuard(b, Options{Loopback: true}).Accept(func(http.ResponseWriter, *http.Request, *Principal) {})
	r := httptest.NewRequest("POST", "/mcp", nil)
	r.Host = "127.0.0.1:8080"
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}

func BenchmarkGuardToken(b *testing.B) {
	h := newGuard(b, Options{Loopback: true, Verifier: verifierOf("good")}).Require(func(http.ResponseWriter, *http.Request, *Principal) {})
	r := httptest.NewRequest("POST", "/mcp", nil)
	r.Host = "127.0.0.1:8080"
	r.Header.Set("Authorization", "Bearer good")
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}

type verifierOf string

func (v verifierOf) Verify(_ context.Context, token string) (*Principal, error) {
	if token == string(v) {
		return &Principal{Name: "p"}, nil
	}
	return nil, ErrBadToken
}

func (v verifierOf) Again(_ context.Context, who *Principal) (*Principal, error) { return who, nil }
