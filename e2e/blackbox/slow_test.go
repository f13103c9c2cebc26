package blackbox

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// trickle sends the header of a request with a body of 10,000 bytes, then a
// byte of it now and then for as long as the hub takes them, and returns what
// the hub says before it ends the connection.
func (h *hub) trickle(verb, path, token string) (string, error) {
	conn, err := net.Dial("tcp", h.address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(await.Patience)); err != nil {
		return "", err
	}
	header := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 10000\r\n", verb, path, h.address)
	if token != "" {
		header += "Authorization: Bearer " + token + "\r\n"
	}
	if _, err := io.WriteString(conn, header+"\r\n{"); err != nil {
		return "", err
	}
	over := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				if _, err := conn.Write([]byte(" ")); err != nil {
					return
				}
			}
		}
	})
	answer, err := io.ReadAll(conn)
	close(over)
	sending.Wait()
	if err != nil && strings.Contains(err.Error(), "reset by peer") {
		err = nil // it was told to go while it was sending
	}
	return string(answer), err
}

// Whoever sends a body byte by byte does not keep a connection by it, let in or
// not, wanted or not.
func TestSlowBodiesHoldNothing(t *testing.T) {
	t.Parallel()
	files, _ := upstream(t)
	h := serve(t, object{"files": files}, object{"auth": object{"required": true}, "sse": true})
	var all sync.WaitGroup
	for _, c := range []struct{ verb, path, token string }{
		{"POST", "/mcp", ""}, {"POST", "/mcp", "stoa_wrong"}, {"POST", "/s/work/mcp", ""}, {"POST", "/mcps/files/mcp", ""}, {"POST", "/message", ""},
		{"POST", "/mcps", ""}, {"PUT", "/mcps/x", ""}, {"POST", "/api/v1/modules/files", ""}, {"GET", "/api/v1/servers", ""}, {"POST", "/api/tools/files__read", ""},
		{"POST", "/api/chat", ""}, {"POST", "/api/files", ""}, {"POST", "/console/login", ""}, {"POST", "/console/logout", ""}, {"GET", "/console/", ""},
		{"GET", "/healthz", ""}, {"POST", "/healthz", ""}, {"GET", "/", ""}, {"POST", "/nothing", ""}, {"DELETE", "/mcp", ""}, {"GET", "/ws", ""},
		{"POST", "/mcp", h.owner}, {"POST", "/s/work/mcp", h.owner}, {"POST", "/mcps", h.owner}, {"POST", "/api/chat", h.owner}, {"POST", "/console/login", h.owner},
		{"POST", "/message", h.owner}, {"POST", "/api/tools/files__read", h.owner}, {"GET", "/api/v1/servers", h.owner}, {"GET", "/readyz", h.owner}, {"DELETE", "/mcp", h.owner},
	} {
		all.Go(func() {
			if answer, err := h.trickle(c.verb, c.path, c.token); err != nil {
				t.Errorf("%s %s, token %v: %v after %.100q", c.verb, c.path, c.token != "", err, answer)
			}
		})
	}
	all.Wait()
	if got := h.get(t, "/readyz", h.owner); got.status != http.StatusOK {
		t.Errorf("afterwards: %d %s", got.status, got.text)
	}
}
