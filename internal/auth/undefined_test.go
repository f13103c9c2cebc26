package auth

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// A client in JavaScript without a token sends the word undefined; where no
// token is needed that must not be worse than none, and where one is needed it
// must not pass.
func TestUndefinedTokenCountsAsNone(t *testing.T) {
	g, err := NewGuard(Options{Loopback: true})
	if err != nil {
		t.Fatal(err)
	}
	var got *Principal
	h := func(_ http.ResponseWriter, _ *http.Request, who *Principal) { got = who }
	for _, token := range []string{"undefined", "null"} {
		for _, tt := range []struct {
			name    string
			handler http.Handler
			status  int
		}{
			{"accept", g.Accept(h), http.StatusOK},
			{"require", g.Require(h), http.StatusUnauthorized},
		} {
			got = nil
			r := httptest.NewRequest("POST", "http://127.0.0.1/mcp", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			tt.handler.ServeHTTP(w, r)
			if w.Code != tt.status || (got == Local) != (tt.status == http.StatusOK) {
				t.Errorf("%s with %q: status %d, principal %v", tt.name, token, w.Code, got)
			}
		}
	}
}
