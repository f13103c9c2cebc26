package web_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stoahub/stoa/web"
)

func ask(t *testing.T, target string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for k, v := range header {
		r.Header[k] = v
	}
	w := httptest.NewRecorder()
	web.Client().ServeHTTP(w, r)
	return w
}

func TestClientForm(t *testing.T) {
	const export = "\nexport {"
	for _, tc := range []struct {
		what, target, mode string
		module             bool
	}{
		{"an import", "/MCPBrowserClient.js", "cors", true},
		{"a program", "/MCPBrowserClient.js", "", true},
		{"a script tag", "/MCPBrowserClient.js", "no-cors", false},
		{"a script tag on plain http", "/MCPBrowserClient.js?classic", "", false},
	} {
		t.Run(tc.what, func(t *testing.T) {
			header := http.Header{}
			if tc.mode != "" {
				header.Set("Sec-Fetch-Mode", tc.mode)
			}
			w := ask(t, tc.target, header)
			if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/javascript; charset=utf-8" {
				t.Fatalf("status %d, header %v", w.Code, w.Header())
			}
			if w.Header().Get("Vary") != "Sec-Fetch-Mode" {
				t.Errorf("a cache would mix the two forms: Vary is %q", w.Header().Get("Vary"))
			}
			if got := strings.Contains(w.Body.String(), export); got != tc.module {
				t.Errorf("it exports: %v, want %v", got, tc.module)
			}
			if !strings.Contains(w.Body.String(), "class MCPBrowserClient") {
				t.Error("the class is not in it")
			}
		})
	}
}

func TestClientIsSentOnce(t *testing.T) {
	module := ask(t, "/MCPBrowserClient.js", nil)
	script := ask(t, "/MCPBrowserClient.js?classic", nil)
	tag := module.Header().Get("ETag")
	if tag == "" || tag == script.Header().Get("ETag") {
		t.Fatalf("the tags %q and %q do not tell the two forms apart", tag, script.Header().Get("ETag"))
	}
	again := ask(t, "/MCPBrowserClient.js", http.Header{"If-None-Match": {tag}})
	if again.Code != http.StatusNotModified || again.Body.Len() != 0 {
		t.Errorf("status %d and %d bytes for one that has it already", again.Code, again.Body.Len())
	}
}
