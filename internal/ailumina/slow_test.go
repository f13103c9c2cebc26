package ailumina

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
)

// one is a listener for a single connection.
type one struct {
	conn chan net.Conn
	over chan struct{}
}

func (l *one) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}
func (l *one) Close() error   { close(l.over); return nil }
func (l *one) Addr() net.Addr { return &net.UnixAddr{Name: "agent"} }

// An agent that speaks now and then is heard to the end, however long all of it
// takes. The time is not real.
func TestSlowAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = time.Second
		near, far := net.Pipe()
		l := &one{conn: make(chan net.Conn, 1), over: make(chan struct{})}
		l.conn <- far
		agent := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ws, err := websocket.Accept(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer ws.CloseNow()
			if _, _, err := ws.Read(r.Context()); err != nil {
				t.Error(err)
			}
			say := func(text string) {
				<-time.After(timeout * 9 / 10)
				if err := ws.Write(r.Context(), websocket.MessageText, []byte(text)); err != nil {
					t.Errorf("%s: %v", text, err)
				}
			}
			for range 4 {
				say(`{"type":"tool_running","tool_name":"x"}`)
			}
			say(`{"type":"sentence","sentence":"done"}`)
			say(`{"type":"complete"}`)
		})}
		go agent.Serve(l)
		rt := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return near, nil }}
		ws, _, err := websocket.Dial(t.Context(), "ws://agent/ws/a", &websocket.DialOptions{HTTPClient: &http.Client{Transport: rt}})
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Timeout: timeout}
		o.defaults()
		c := &Conn{ws: ws, raw: near, opts: o, hide: hider(nil)}
		begun := time.Now()
		if got, err := c.Chat(t.Context(), Question{Input: "hi"}, nil); err != nil || got != "done" {
			t.Errorf("%q, %v", got, err)
		}
		if took := time.Since(begun); took < 5*timeout {
			t.Errorf("it took %v, which shows nothing", took)
		}
		c.Close()
		agent.Close()
		rt.CloseIdleConnections()
	})
}
