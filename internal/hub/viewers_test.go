package hub_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// viewerBytes bounds what the hub may hold for one who watches: a few
// records, and what a connection costs.
const viewerBytes = 128 << 10

// Fifty watch and take nothing of what they are sent: all calls are answered,
// and the hub holds no more for them than the bound. When they send rubbish, it
// cuts them off and has its memory back.
func TestStalledViewersAreBounded(t *testing.T) {
	// Nothing is logged, and the server is a process of its own: what either keeps
	// in memory of each call would grow by leaps.
	h := hubtest.New(t, hubtest.Stdio("up", peer.Spec{Tools: []peer.Tool{{Name: "echo"}}}), func(s *hubtest.Setup) { s.Options.Logger = slog.New(slog.DiscardHandler) })
	waitTools(t, h)
	// A client that keeps nothing of its calls, as its memory is counted too.
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	calls := func(n int) {
		t.Helper()
		for i := range n {
			resp, err := client.Do(request(t, h, fmt.Sprintf(`{"n":%d}`, i)))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), fmt.Sprintf(`"n":%d}`, i)) {
				t.Fatalf("call %d: %v %s %s", i, err, resp.Status, body)
			}
		}
	}
	// Calls are told as events. Most are told without a call, which takes a
	// thousand times as long and leaves more in memory than its events.
	told := func(n int) {
		t.Helper()
		for i := range n {
			h.Events().Emit(event.Record{Type: event.CallDone, Level: "info", Session: "work", Principal: "local", Call: fmt.Sprint("call-", i),
				Upstream: "up", Tool: "echo", Method: "tools/call", TookUS: 100, Bytes: 60})
			if i%500 == 0 {
				calls(5)
			}
		}
	}
	stop := h.Events().Watch() // what is told to those who watch fills the records before the first comes
	defer stop()
	told(6600)
	before := live()
	const viewers = 50
	var all []net.Conn
	for range viewers {
		all = append(all, stalled(t, h))
	}
	// Once they are stalled, which takes a busy machine a while, more calls make
	// it no more.
	total, still := int64(0), false
	for i := 0; i < 6 && !still; i++ {
		told(6600)
		now := live()
		grown := int64(now) - int64(before)
		before, total = now, total+grown
		t.Logf("%d KiB more with %d viewers", grown>>10, viewers)
		still = i > 0 && grown < viewers*viewerBytes/8
	}
	if total > viewers*viewerBytes || !still {
		t.Errorf("the hub holds %d KiB more with %d viewers, at rest: %v; %d is the most", total>>10, viewers, still, viewers*viewerBytes>>10)
	}
	for _, conn := range all {
		if err := conn.SetDeadline(time.Now().Add(2 * await.Patience)); err != nil { // the calls took as long as they liked
			t.Fatal(err)
		}
		_, _ = conn.Write(bytes.Repeat([]byte("\x89\x84\x00\x00\x00\x00ping"), 2000)) // the hub may be gone before the end
	}
	calls(100)
	for i, conn := range all {
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("viewer %d is still there, whatever it says", i)
		}
	}
	if now := live(); now > before {
		t.Errorf("the hub holds %d KiB more after the viewers have gone", (now-before)>>10)
	}
}

// request is the call of a tool over the JSON API.
func request(t *testing.T, h *hubtest.Hub, args string) *http.Request {
	t.Helper()
	r, err := http.NewRequest("POST", h.URL+"/api/tools/up__echo", strings.NewReader(args))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+h.Token)
	r.Header.Set("Content-Type", "application/json")
	return r
}

// live is the memory in use.
func live() uint64 {
	runtime.GC()
	runtime.GC() // the first only demotes what pools hold
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// stalled opens a socket of one who watches, and takes nothing but the hub's
// consent.
func stalled(t *testing.T, h *hubtest.Hub) net.Conn {
	t.Helper()
	address := strings.TrimPrefix(h.URL, "http://")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(conn, "GET /api/v1/events/ws HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c3RvYSBiZW5jaCB2aWV3ZQ==\r\n\r\n", address, h.Token)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("watch: %v %v", resp, err)
	}
	return conn
}
