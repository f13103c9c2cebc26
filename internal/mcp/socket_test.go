package mcp

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/stoahub/stoa/internal/auth"
)

// face is an endpoint with a socket, on a network of its own.
type face struct {
	*Endpoint
	sage     *sage
	sessions *Sessions
	rt       *http.Transport
	stop     func()
}

func openFace(t *testing.T, opts EndpointOptions) *face {
	f := &face{sage: &sage{}, sessions: NewSessions(10, time.Hour)}
	opts.Sessions = f.sessions
	if opts.MessageBytes == 0 {
		opts.MessageBytes = 4096
	}
	f.Endpoint = NewEndpoint(opts)
	var stop func()
	f.rt, stop = serveMem(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.ServeSocket(w, r, auth.Local, f.sage)
	}))
	f.stop = func() {
		f.Close()
		f.Wait(context.Background())
		f.sessions.Close()
		stop()
	}
	return f
}

// wsClient is the other end of a socket, played by the test.
type wsClient struct {
	*websocket.Conn
	t *testing.T
}

func (f *face) dial(t *testing.T, subprotocols ...string) *wsClient {
	t.Helper()
	c, _, err := websocket.Dial(context.Background(), "ws://memory/mcp/ws", &websocket.DialOptions{HTTPClient: &http.Client{Transport: f.rt}, Subprotocols: subprotocols})
	if err != nil {
		t.Fatal(err)
	}
	c.SetReadLimit(-1)
	return &wsClient{c, t}
}

func (c *wsClient) send(text string) {
	c.t.Helper()
	if err := c.Write(context.Background(), websocket.MessageText, []byte(text)); err != nil {
		c.t.Fatalf("send %.100s: %v", text, err)
	}
}

func (c *wsClient) got(want string) {
	c.t.Helper()
	_, b, err := c.Read(context.Background())
	if err != nil || !strings.Contains(string(b), want) {
		c.t.Fatalf("got %s, %v; want %s", b, err, want)
	}
}

// closed checks with what the other end closes.
func (c *wsClient) closed(code websocket.StatusCode, reason string) {
	c.t.Helper()
	_, b, err := c.Read(context.Background())
	ce, ok := errors.AsType[websocket.CloseError](err)
	if !ok || ce.Code != code || !strings.Contains(ce.Reason, reason) {
		c.t.Fatalf("got %s, %v; want the end with %d %q", b, err, code, reason)
	}
}

func inBubble(t *testing.T, opts EndpointOptions, test func(t *testing.T, f *face)) {
	synctest.Test(t, func(t *testing.T) {
		f := openFace(t, opts)
		defer f.stop()
		test(t, f)
	})
}

// A socket answers as a pipe does, by the same transcripts.
func TestSocketTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/pipe/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	played := 0
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		script := txtar.Parse(b)
		if text := "\n" + string(b); strings.Contains(text, "\nclose") || strings.Contains(text, "\nlong ") || strings.Contains(text, "-- options --") {
			continue // of the end of input, of lines, and of limits that an endpoint does not have
		}
		played++
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			inBubble(t, EndpointOptions{KeepAlive: time.Hour}, func(t *testing.T, f *face) { playSocket(t, f, script) })
		})
	}
	if played < 5 {
		t.Errorf("only %d transcripts are fit for a socket", played)
	}
}

func playSocket(t *testing.T, f *face, script *txtar.Archive) {
	c := f.dial(t)
	var mu sync.Mutex
	var got strings.Builder
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			_, b, err := c.Read(context.Background())
			if err != nil {
				return
			}
			mu.Lock()
			got.WriteString(string(b) + "\n")
			mu.Unlock()
		}
	})
	var want, have strings.Builder
	for _, s := range script.Files {
		switch s.Name {
		case "server":
			want.Write(s.Data)
		case "client":
			for line := range strings.Lines(string(s.Data)) {
				if line = strings.TrimSuffix(line, "\n"); !elapse(t, line) {
					c.send(strings.ReplaceAll(line, "$META", metaText))
				}
				rest()
			}
			mu.Lock()
			have.WriteString(got.String())
			got.Reset()
			mu.Unlock()
		}
	}
	if diff := cmp.Diff(want.String(), have.String()); diff != "" {
		t.Errorf("(-pipe +socket):\n%s", diff)
	}
	c.CloseNow()
	wg.Wait()
}

func TestSocketHandshake(t *testing.T) {
	inBubble(t, EndpointOptions{}, func(t *testing.T, f *face) {
		for _, offer := range [][]string{nil, {"mcp"}, {"other", "mcp"}, {"other"}} {
			c := f.dial(t, offer...)
			want := ""
			if strings.Contains(strings.Join(offer, " "), "mcp") {
				want = "mcp"
			}
			if c.Subprotocol() != want {
				t.Errorf("offered %v, got %q", offer, c.Subprotocol())
			}
			c.Close(websocket.StatusNormalClosure, "")
		}
		resp, err := (&http.Client{Transport: f.rt}).Get("http://memory/mcp/ws")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUpgradeRequired || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("without an upgrade: %s, %s", resp.Status, resp.Header.Get("Content-Type"))
		}
	})
}

func TestSocketLimits(t *testing.T) {
	inBubble(t, EndpointOptions{}, func(t *testing.T, f *face) {
		c := f.dial(t)
		frame := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"pad":"` + strings.Repeat("x", 4096-60) + `"}}`
		if len(frame) != 4096 {
			t.Fatalf("the frame has %d bytes", len(frame))
		}
		c.send(frame)
		c.got(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		c.send(frame + " ")
		c.got("the message is larger than 4096 bytes")
		c.send(frame) // the others are not disturbed
		c.got(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		err := c.Write(context.Background(), websocket.MessageText, []byte(frame+strings.Repeat(" ", 16*4096)))
		for err == nil { // it may be cut off before all of it is sent
			_, _, err = c.Read(context.Background())
		}

		c = f.dial(t)
		if err := c.Write(context.Background(), websocket.MessageBinary, []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
		c.closed(websocket.StatusUnsupportedData, "text frames")
	})
}

// Sockets are counted with the sessions, and give their place back.
func TestSocketsAreBounded(t *testing.T) {
	inBubble(t, EndpointOptions{}, func(t *testing.T, f *face) {
		var open []*wsClient
		for range 10 {
			open = append(open, f.dial(t))
		}
		_, resp, err := websocket.Dial(context.Background(), "ws://memory/", &websocket.DialOptions{HTTPClient: &http.Client{Transport: f.rt}})
		if err == nil || resp == nil || resp.StatusCode == http.StatusSwitchingProtocols {
			t.Fatalf("the eleventh: %v", err)
		}
		open[0].Close(websocket.StatusNormalClosure, "")
		synctest.Wait()
		open[0] = f.dial(t)
		for _, c := range open {
			c.Close(websocket.StatusNormalClosure, "")
		}
	})
}

func TestSocketOfClientThatLeaves(t *testing.T) {
	for _, how := range []string{"goodbye", "gone"} {
		inBubble(t, EndpointOptions{}, func(t *testing.T, f *face) {
			c := f.dial(t)
			c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`)
			synctest.Wait()
			if how == "goodbye" {
				c.Close(websocket.StatusNormalClosure, "")
			} else {
				c.CloseNow()
			}
			synctest.Wait()
			f.sage.mu.Lock()
			defer f.sage.mu.Unlock()
			if len(f.sage.ended) != 1 || f.sessions.Len() != 0 {
				t.Errorf("%s: ended %q, %d sessions", how, f.sage.ended, f.sessions.Len())
			}
		})
	}
}

// A client that does not read is given up after the write time-out, whatever
// is still to be written.
func TestSocketOfSlowReader(t *testing.T) {
	inBubble(t, EndpointOptions{WriteTimeout: 5 * time.Second}, func(t *testing.T, f *face) {
		c := f.dial(t)
		defer c.CloseNow()
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`)
		c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"big"}}`)
		<-time.After(4 * time.Second)
		synctest.Wait()
		if f.sessions.Len() != 1 {
			t.Fatal("it was given up too early")
		}
		<-time.After(3 * time.Second)
		synctest.Wait()
		if f.sessions.Len() != 0 {
			t.Error("it was not given up")
		}
	})
}

func TestSocketKeepAlive(t *testing.T) {
	inBubble(t, EndpointOptions{KeepAlive: 10 * time.Second}, func(t *testing.T, f *face) {
		awake, asleep := f.dial(t), f.dial(t)
		defer asleep.CloseNow()
		ctx := awake.CloseRead(context.Background()) // reads, and so answers pings
		<-time.After(time.Minute)
		synctest.Wait()
		if f.sessions.Len() != 1 || ctx.Err() != nil {
			t.Errorf("%d sockets are left", f.sessions.Len())
		}
		awake.CloseNow()
	})
}

func TestSocketWhenTheHubStops(t *testing.T) {
	inBubble(t, EndpointOptions{}, func(t *testing.T, f *face) {
		idle, busy := f.dial(t), f.dial(t)
		busy.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`)
		synctest.Wait()
		f.Close()
		idle.closed(websocket.StatusGoingAway, "the hub is stopping")
		f.sage.mu.Lock()
		close(f.sage.gate)
		f.sage.mu.Unlock()
		busy.got("waited")
		busy.closed(websocket.StatusGoingAway, "the hub is stopping")
		if _, _, err := websocket.Dial(context.Background(), "ws://memory/", &websocket.DialOptions{HTTPClient: &http.Client{Transport: f.rt}}); err == nil {
			t.Error("a socket was opened while the hub stops")
		}
	})
}

// Two clients do not hear each other's answers, questions and changes.
func TestTwoSockets(t *testing.T) {
	inBubble(t, EndpointOptions{}, func(t *testing.T, f *face) {
		hello := func(c *wsClient, name string) {
			c.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"` + name + `","version":"1"}}}`)
			c.got(`"id":0,"result"`)
		}
		a, b := f.dial(t), f.dial(t)
		hello(a, "a")
		hello(b, "b")
		ask := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask"}}`
		a.send(ask)
		b.send(ask)
		a.got(`"id":"stoa-1","method":"elicitation/create"`)
		b.got(`"id":"stoa-1","method":"elicitation/create"`)
		b.send(`{"jsonrpc":"2.0","id":"stoa-1","result":{"from":"b"}}`)
		a.send(`{"jsonrpc":"2.0","id":"stoa-1","result":{"from":"a"}}`)
		a.got(`result {\"from\":\"a\"}`)
		b.got(`result {\"from\":\"b\"}`)
		a.CloseNow()
		b.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		b.got(`"id":2,"result"`)
		b.Close(websocket.StatusNormalClosure, "")
	})
}
