package auth

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// A browser asks before it lets a page send what we need; only pages that the
// config names are told yes.
func TestGuardShares(t *testing.T) {
	g := newGuard(t, Options{Loopback: true, Origins: []string{"https://App.example.com", "http://localhost:3000"}})
	for _, tt := range []struct {
		what, origin string
		status       int
		shared       bool
	}{
		{"named", "https://app.example.com", http.StatusNoContent, true},
		{"named on this machine", "http://localhost:3000", http.StatusNoContent, true},
		{"its own", "http://localhost:1", http.StatusOK, false},
		{"not named on this machine", "http://localhost:3001", http.StatusForbidden, false},
		{"foreign", "https://evil.com", http.StatusForbidden, false},
	} {
		t.Run(tt.what, func(t *testing.T) {
			for face, h := range map[string]http.Handler{
				"accept": g.Accept(whoami), "require": g.Require(whoami),
				"public": g.Public(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})),
			} {
				r := httptest.NewRequest(http.MethodOptions, "/mcp", nil)
				r.Host = "localhost:1"
				r.Header.Set("Origin", tt.origin)
				r.Header.Set("Access-Control-Request-Method", "POST")
				r.Header.Set("Access-Control-Request-Headers", "authorization,mcp-param-city")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				want := tt.status
				if face == "require" && !tt.shared && want == http.StatusOK {
					want = http.StatusUnauthorized
				}
				if w.Code != want {
					t.Errorf("%s: status %d, want %d", face, w.Code, want)
				}
				allowed := w.Header().Get("Access-Control-Allow-Origin")
				headers := w.Header().Get("Access-Control-Allow-Headers")
				if tt.shared && (allowed != tt.origin || headers != "authorization,mcp-param-city") || !tt.shared && allowed+headers != "" {
					t.Errorf("%s: %v", face, w.Header())
				}
			}
		})
	}
}

func TestGuardSharesAnswers(t *testing.T) {
	g := newGuard(t, Options{Loopback: true, Origins: []string{"https://app.example.com"}})
	w := ask(g.Accept(whoami), "localhost:1", "Origin", "https://app.example.com")
	if w.Body.String() != "local" || w.Header().Get("Access-Control-Allow-Origin") != "https://app.example.com" || w.Header().Get("Access-Control-Expose-Headers") == "" {
		t.Errorf("%s %v", w.Body, w.Header())
	}
	// A refusal is readable too: the page has to know that it needs a token.
	w = ask(g.Require(whoami), "localhost:1", "Origin", "https://app.example.com")
	wantError(t, w, http.StatusUnauthorized, "unauthorized")
	if w.Header().Get("Access-Control-Allow-Origin") == "" {
		t.Errorf("the refusal cannot be read: %v", w.Header())
	}
	if w.Header().Get("Vary") != "Origin" {
		t.Errorf("a cache would show one page's answer to another: Vary is %q", w.Header().Get("Vary"))
	}
	plain := newGuard(t, Options{Loopback: true})
	if w := ask(plain.Accept(whoami), "localhost:1", "Origin", "http://localhost:3000"); w.Header().Get("Vary") != "" || w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("nobody is named, and yet: %v", w.Header())
	}
}
