package hub_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
)

// openSocket dials a socket and returns it, or how it was refused.
func openSocket(t *testing.T, h *hubtest.Hub, path, token string) (*websocket.Conn, *http.Response) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	o := &websocket.DialOptions{HTTPHeader: http.Header{}}
	if token != "" {
		o.HTTPHeader.Set("Authorization", "Bearer "+token)
	}
	conn, resp, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(h.URL, "http")+path, o)
	if err != nil {
		if resp == nil {
			t.Fatal(err)
		}
		return nil, resp
	}
	t.Cleanup(func() { conn.CloseNow() })
	return conn, nil
}

// Who has as many sockets as one principal may is told so, to come again later,
// by which setting, and not that a message was too long. All who need no token
// here share one bound, which is a wider one. A reload changes it.
func TestSocketsOfAPrincipal(t *testing.T) {
	hubtest.Parallel(t)
	few := hubtest.Config(func(c *config.Config) { c.Limits.Sockets = 2 })
	h := hubtest.New(t, few)
	ann := tokenFor(t, h, "ann", "*").token
	for who, most := range map[string]int{ann: 2, "": 8} {
		for i := range most {
			if _, no := openSocket(t, h, "/ws/crud", who); no != nil {
				t.Fatalf("socket %d of %d: %s", i+1, most, no.Status)
			}
		}
		_, no := openSocket(t, h, "/ws/crud", who)
		if no == nil {
			t.Fatalf("more than %d sockets", most)
		}
		body := make([]byte, 1024)
		n, _ := no.Body.Read(body)
		if said := string(body[:n]); no.StatusCode != http.StatusTooManyRequests || no.Header.Get("Retry-After") == "" || !strings.Contains(said, "limits.sockets") {
			t.Errorf("refused with %s, Retry-After %q: %s", no.Status, no.Header.Get("Retry-After"), said)
		}
	}
	if _, err := h.Reload(setupOf(h, hubtest.Config(func(c *config.Config) { c.Limits.Sockets = 3 }))); err != nil {
		t.Fatal(err)
	}
	if _, no := openSocket(t, h, "/ws/crud", ann); no != nil {
		t.Errorf("after the bound was raised: %s", no.Status)
	}
}

// A body that breaks off is not one that is too long.
func TestBodyThatBreaksOff(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	c.put("work", "v", `1`)
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.hub.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PUT /api/v1/sessions/work/values/v HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\n123", strings.TrimPrefix(c.hub.URL, "http://"), c.token)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("half a body: %s", resp.Status)
	}
	if a := c.do("PUT", "/api/v1/sessions/work/values/v", `"`+strings.Repeat("x", 11<<20)+`"`); a.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("a long body: %d %s", a.Status, a.Body)
	}
}

// Who registers agents too fast is told to come again, and not that something is
// wrong with the registration: an agent gives up for good then.
func TestRegistersTooFast(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t)
	c := tokenWith(t, h, "ann", auth.Rights{auth.RightRegister}, "*")
	for i := range 60 {
		a := c.do("POST", "/mcps", fmt.Sprintf(`{"name":"a%d","url":"http://192.0.2.1/mcp"}`, i))
		if a.Status == http.StatusBadRequest {
			continue // where it is may not be
		}
		if a.Status != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "" {
			t.Errorf("registration %d: %d %s", i, a.Status, a.Body)
		}
		return
	}
	t.Error("sixty at once, and none was held back")
}
