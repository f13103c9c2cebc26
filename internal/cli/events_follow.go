package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/guard"
)

// silence is how long a hub may say nothing, not even that nothing happens,
// until it counts as lost.
const silence = 45 * time.Second

// outputError is an error of our own output, which no new connection mends.
type outputError struct{ error }

func (e outputError) Unwrap() error { return e.error }

// follow shows what happens until ctx ends. A hub that is lost is waited for.
func (w *eventWatch) follow(ctx context.Context) error {
	pause := guard.NewBackoff(100*time.Millisecond, longestWait, nil)
	lost := false
	for {
		conn, err := w.dial(ctx, lost)
		if err == nil {
			if lost {
				w.s.note("the hub is back")
			}
			lost = false
			pause.Reset()
			err = w.read(ctx, conn)
		}
		if ctx.Err() != nil {
			return nil
		}
		if own, ok := errors.AsType[outputError](err); ok {
			return own.error
		}
		if f, ok := errors.AsType[*failure](err); ok && f.code != exitUnreachable || !w.met {
			return fmt.Errorf("watch events: %w", err)
		}
		if !lost {
			w.s.note("%v; waiting for it, Ctrl-C ends that", err)
		}
		lost = true
		if !wait(ctx, pause.Next()) {
			return nil
		}
	}
}

// dial opens a connection that goes on after what was seen. A hub that was lost
// may be at another address when it is back.
func (w *eventWatch) dial(ctx context.Context, again bool) (*websocket.Conn, error) {
	if again {
		hub, err := w.cmd.alive(ctx, "nothing happens")
		if err != nil {
			return nil, &failure{err: err, code: exitUnreachable}
		}
		*w.hub = *hub
	}
	u := w.hub.base.JoinPath("/api/v1/events/ws")
	q := w.cmd.query()
	q.Set("batch", "true")
	if w.met {
		q.Set("after", strconv.FormatUint(w.last, 10))
		q.Set("hub", w.name)
	}
	u.RawQuery = q.Encode()
	limit, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, resp, err := websocket.Dial(limit, u.String(), &websocket.DialOptions{HTTPClient: &http.Client{Transport: w.hub.http}, HTTPHeader: w.hub.header()})
	if err == nil {
		conn.SetReadLimit(maxFrame)
		return conn, nil
	}
	if resp == nil || resp.StatusCode == http.StatusSwitchingProtocols || resp.StatusCode >= 500 && w.met {
		return nil, &failure{err: errors.New("the hub cannot be reached"), hint: "Is it still running? See its log.", code: exitUnreachable}
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // what there is of it
	return nil, refused(resp.StatusCode, body)
}

// viewFrame is what the hub says to who watches.
type viewFrame struct {
	Type      string
	Seq       uint64
	Next      uint64
	Lost      uint64
	Hub       string
	Restarted bool
	Events    []json.RawMessage
}

// read shows what comes until the connection is lost.
func (w *eventWatch) read(ctx context.Context, conn *websocket.Conn) error {
	defer conn.CloseNow()
	for {
		limit, cancel := context.WithTimeout(ctx, silence)
		_, b, err := conn.Read(limit)
		cancel()
		if err != nil {
			return &failure{err: lostSocket(err), code: exitUnreachable}
		}
		if err := w.take(ctx, b); err != nil {
			return err
		}
	}
}

// take shows one frame.
func (w *eventWatch) take(ctx context.Context, b []byte) error {
	var f viewFrame
	if err := json.Unmarshal(b, &f); err != nil {
		return fmt.Errorf("a frame of the hub: %w", err)
	}
	switch {
	case f.Type == "batch":
		for _, e := range f.Events {
			if err := w.take(ctx, e); err != nil {
				return err
			}
		}
		return nil
	case f.Seq > 0:
		w.last = f.Seq
		if !w.wanted(b) {
			return nil
		}
		return w.show(ctx, b)
	}
	w.last = f.Next
	switch f.Type {
	case "hello":
		if !w.met {
			w.s.note("watching; Ctrl-C ends it")
		}
		w.name, w.met = f.Hub, true
		if f.Restarted {
			return w.aside(b, "the hub was started anew; this is what has happened since")
		}
	case "gap":
		return w.aside(b, plural(int(f.Lost), "record")+" lost: this came too late for them, and those about calls go first")
	}
	return nil
}

// aside tells what is no record: scripts get it as it came.
func (w *eventWatch) aside(raw []byte, text string) error {
	if w.cmd.JSON {
		return w.line(raw)
	}
	w.s.note("%s", text)
	return nil
}
