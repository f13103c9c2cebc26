package hub_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
)

// TestConsoleLogin goes the way of a browser: the page is for everybody, the
// API is not; a token is shown once and comes back in a cookie that scripts do
// not see.
func TestConsoleLogin(t *testing.T) {
	h := hubtest.New(t, hubtest.Modules())
	get := func(path string, change func(*http.Request)) *http.Response {
		t.Helper()
		r, err := http.NewRequest("GET", h.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(r)
		}
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	page := get("/console/servers", nil)
	text, err := io.ReadAll(page.Body)
	if err != nil || page.StatusCode != 200 || !strings.Contains(string(text), `src="/console/app.js"`) {
		t.Fatalf("the page: %d %v", page.StatusCode, err)
	}
	if r := get("/", func(r *http.Request) { r.Header.Set("Accept", "text/html") }); r.Header.Get("Location") != "/console/" {
		t.Errorf("a browser at / is sent to %q", r.Header.Get("Location"))
	}
	if r := get("/api/v1/servers", nil); r.StatusCode != 401 {
		t.Errorf("the API without a token: %d", r.StatusCode)
	}
	login, err := http.NewRequest("POST", h.URL+"/console/login", nil)
	if err != nil {
		t.Fatal(err)
	}
	login.Header.Set("Authorization", "Bearer "+h.Token)
	resp, err := http.DefaultTransport.RoundTrip(login)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	cookies := resp.Cookies()
	if resp.StatusCode != 204 || len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode {
		t.Fatalf("login: %d %v", resp.StatusCode, cookies)
	}
	with := func(site string) int {
		return get("/api/v1/servers", func(r *http.Request) {
			r.AddCookie(cookies[0])
			r.Header.Set("Sec-Fetch-Site", site)
		}).StatusCode
	}
	if with("same-origin") != 200 || with("same-site") != 403 {
		t.Errorf("with the cookie: %d from its own page, %d from a neighbour", with("same-origin"), with("same-site"))
	}
}
