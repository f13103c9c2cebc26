package auth

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A connection that was taken over ends with its token, also over TLS and after
// the handler has returned; so does what waits for the request's context.
func TestStayEndsWithItsToken(t *testing.T) {
	tokens, _ := openTokens(t)
	_, kept := create(t, tokens, "kept", "*")
	_, brief := create(t, tokens, "brief", "*")
	g := newGuard(t, Options{Loopback: true, Verifier: tokens})
	mux := http.NewServeMux()
	mux.Handle("/wait", g.Require(func(w http.ResponseWriter, r *http.Request, _ *Principal) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	mux.Handle("/take", g.Require(func(w http.ResponseWriter, r *http.Request, _ *Principal) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		rw.Flush()
		go func() { // which answers for as long as it may
			in := bufio.NewReader(conn)
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				fmt.Fprint(conn, line)
			}
		}()
	}))
	plain, secure := httptest.NewServer(mux), httptest.NewTLSServer(mux)
	defer plain.Close()
	defer secure.Close()
	open := func(s *httptest.Server, path, token string) io.ReadWriteCloser {
		t.Helper()
		req, err := http.NewRequest("GET", s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Authorization": {"Bearer " + token}}
		if path == "/take" {
			req.Header["Upgrade"], req.Header["Connection"] = []string{"websocket"}, []string{"Upgrade"}
		}
		resp, err := s.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		if path != "/take" {
			return struct {
				io.ReadCloser
				io.Writer
			}{resp.Body, io.Discard}
		}
		return resp.Body.(io.ReadWriteCloser)
	}
	stays := open(secure, "/take", kept)
	ends := []io.Reader{open(plain, "/take", brief), open(secure, "/take", brief), open(plain, "/wait", brief), open(secure, "/wait", brief)}
	if _, err := tokens.Revoke("brief"); err != nil {
		t.Fatal(err)
	}
	for _, one := range ends {
		if _, err := io.Copy(io.Discard, one); err != nil {
			t.Logf("ended by %v", err) // either way is an end
		}
	}
	fmt.Fprint(stays, "still there\n")
	if line, err := bufio.NewReader(stays).ReadString('\n'); line != "still there\n" {
		t.Errorf("a token that is good: %q, %v", line, err)
	}
}
