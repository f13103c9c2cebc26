package web_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stoahub/stoa/web"
)

// TestConsoleIsCompressed asks for every file plain and compressed: both are
// the file, each has a tag of its own, and who has one is not sent it again.
func TestConsoleIsCompressed(t *testing.T) {
	s := httptest.NewServer(web.Console())
	defer s.Close()
	get := func(path, encoding, tag string) (*http.Response, []byte) {
		t.Helper()
		r, err := http.NewRequest("GET", s.URL+"/console/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", encoding)
		if tag != "" {
			r.Header.Set("If-None-Match", tag)
		}
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, b
	}
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	sent := 0
	err := fs.WalkDir(web.ConsoleFiles(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		want, err := fs.ReadFile(web.ConsoleFiles(), p)
		if err != nil {
			return err
		}
		plain, got := get(p, "br, gzip;q=0", "")
		if p == "index.html" { // it names the edition of what it loads
			if want = got; !bytes.Contains(got, []byte(`src="/console/@`)) {
				t.Errorf("%s", got)
			}
		}
		if plain.Header.Get("Content-Encoding") != "" || !bytes.Equal(got, want) || plain.ContentLength != int64(len(want)) {
			t.Errorf("%s: %d bytes, encoded by %q, want the %d of the file", p, len(got), plain.Header.Get("Content-Encoding"), len(want))
		}
		packed, got := get(p, "br, gzip", "")
		if sent += len(got); packed.Header.Get("Content-Encoding") == "gzip" {
			if packed.ContentLength != int64(len(got)) || len(got) >= len(want) {
				t.Errorf("%s: %d bytes compressed, %d announced, %d plain", p, len(got), packed.ContentLength, len(want))
			}
			if z, err := gzip.NewReader(bytes.NewReader(got)); err != nil {
				t.Errorf("%s: %v", p, err)
			} else if text, err := io.ReadAll(z); err != nil || !bytes.Equal(text, want) {
				t.Errorf("%s: the compressed file is another: %v", p, err)
			}
			if packed.Header.Get("ETag") == plain.Header.Get("ETag") {
				t.Errorf("%s: two answers have one tag", p)
			}
		} else if len(want) > 1000 {
			t.Errorf("%s: %d bytes are sent plain", p, len(want))
		}
		if packed.Header.Get("Vary") != "Accept-Encoding" || packed.Header.Get("Content-Type") != plain.Header.Get("Content-Type") {
			t.Errorf("%s: %v", p, packed.Header)
		}
		if again, got := get(p, "gzip", packed.Header.Get("ETag")); again.StatusCode != http.StatusNotModified || len(got) > 0 {
			t.Errorf("%s: who has it is answered %d with %d bytes", p, again.StatusCode, len(got))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("all files: %d bytes compressed", sent); sent > 300_000 {
		t.Errorf("the console's files are %d bytes, compressed; 300,000 is the most", sent)
	}
}

// TestConsoleIsKept: what the page loads may be kept for good, since its address
// changes with it; what is asked for by another address is asked about each time.
func TestConsoleIsKept(t *testing.T) {
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		web.Console().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w
	}
	page := get("/console/tools")
	if page.Header().Get("Cache-Control") != "no-cache" {
		t.Errorf("the page: %v", page.Header())
	}
	app := regexp.MustCompile(`"(/console/@[0-9a-f]+/)app\.js"`).FindStringSubmatch(page.Body.String())
	if app == nil {
		t.Fatalf("the page: %s", page.Body)
	}
	for path, keep := range map[string]string{app[1] + "app.js": "public, max-age=31536000, immutable", "/console/@0000/app.js": "no-cache", "/console/app.js": "no-cache"} {
		w := get(path)
		want, err := fs.ReadFile(web.ConsoleFiles(), "app.js")
		if err != nil || w.Code != 200 || w.Header().Get("Cache-Control") != keep || !bytes.Equal(w.Body.Bytes(), want) {
			t.Errorf("%s: %d %v, %v", path, w.Code, w.Header(), err)
		}
	}
	for _, path := range []string{app[1] + "none.js", app[1], "/console/@0000/none.js"} {
		if w := get(path); w.Code != 404 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	for _, name := range regexp.MustCompile(`"(/console/[^"]+)"`).FindAllStringSubmatch(page.Body.String(), -1) {
		if w := get(name[1]); w.Code != 200 || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("the page names %s: %d %v", name[1], w.Code, w.Header())
		}
	}
}
