package chatws

import (
	"bytes"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/fault"
)

// filesAt serves files to the principal that a request names.
func filesAt(t *testing.T, o chat.FileOptions) *httptest.Server {
	t.Helper()
	kept, err := chat.OpenFiles(t.Context(), nil, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kept.Close)
	f, mux := NewFiles(kept), http.NewServeMux()
	for pattern, serve := range map[string]func(http.ResponseWriter, *http.Request, *auth.Principal) error{
		"POST /api/files": f.Post, "GET /api/files": f.List, "GET /api/files/{id}": f.Get, "DELETE /api/files/{id}": f.Delete,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := serve(w, r, &auth.Principal{Name: r.Header.Get("Who")}); err != nil {
				http.Error(w, fault.Of(err).Kind.String()+" "+err.Error(), http.StatusTeapot)
			}
		})
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func do(t *testing.T, method, url, who string, header map[string]string, body string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Who", who)
	for k, v := range header {
		r.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

func TestFileOverHTTP(t *testing.T) {
	s := filesAt(t, chat.FileOptions{})
	at := s.URL + "/api/files"
	resp, body := do(t, "POST", at+"?name=page.html", "ann", map[string]string{"Content-Type": "text/html"}, "<script>alert(1)</script>")
	var f chat.File
	if err := json.Unmarshal([]byte(body), &f); err != nil || resp.StatusCode != http.StatusCreated || f.Name != "page.html" || f.Size != 25 || f.Type != "text/html" || f.Expires.IsZero() || resp.Header.Get("Location") != "/api/files/"+f.ID {
		t.Fatalf("%d %s %v", resp.StatusCode, body, err)
	}
	resp, body = do(t, "GET", at+"/"+f.ID, "ann", nil, "")
	if body != "<script>alert(1)</script>" || resp.Header.Get("Content-Disposition") != "attachment; filename=page.html" || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s %v", body, resp.Header)
	}
	if _, body := do(t, "GET", at, "ann", nil, ""); !strings.Contains(body, f.ID) {
		t.Error(body)
	}
	if _, body := do(t, "GET", at, "bob", nil, ""); body != `{"files":[]}`+"\n" {
		t.Error(body)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if _, body := do(t, method, at+"/"+f.ID, "bob", nil, ""); !strings.HasPrefix(body, "resource_not_found") {
			t.Errorf("%s by another: %s", method, body)
		}
	}
	if _, body := do(t, "DELETE", at+"/"+f.ID, "ann", nil, ""); !strings.Contains(body, f.ID) {
		t.Error(body)
	}
	if _, body := do(t, "GET", at+"/"+f.ID, "ann", nil, ""); !strings.HasPrefix(body, "resource_not_found") {
		t.Error(body)
	}
}

func TestFileOfAForm(t *testing.T) {
	s := filesAt(t, chat.FileOptions{MaxBytes: 20})
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	_ = form.WriteField("comment", "not a file") // to a buffer nothing fails
	part, _ := form.CreateFormFile("upload", "Müller.csv")
	_, _ = part.Write([]byte("a,b"))
	form.Close()
	header := map[string]string{"Content-Type": form.FormDataContentType()}
	if _, body := do(t, "POST", s.URL+"/api/files", "ann", header, b.String()); !strings.Contains(body, `"name":"Müller.csv","size":3,`) {
		t.Error(body)
	}
	boundary := map[string]string{"Content-Type": "multipart/form-data; boundary=x"}
	for _, tc := range []struct {
		name, body, want string
		header           map[string]string
	}{
		{"no file", "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--x--\r\n", "invalid_params file: the form holds no file", boundary},
		{"no form", "nonsense", "invalid_request the form cannot be read", boundary},
		{"no boundary", "x", "invalid_request Content-Type: a form needs a boundary", map[string]string{"Content-Type": "multipart/form-data"}},
		{"cut off", "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nb", "invalid_request a: the file has not come whole", boundary},
		{"empty", "", "invalid_params unnamed: the file is empty", nil},
		{"too large", strings.Repeat("x", 21), "too_large b.txt: the file has more than 20 bytes", map[string]string{"Content-Disposition": `attachment; filename="b.txt"`}},
	} {
		if _, body := do(t, "POST", s.URL+"/api/files", "ann", tc.header, tc.body); !strings.HasPrefix(body, tc.want) {
			t.Errorf("%s: %s", tc.name, body)
		}
	}
}
