package hub_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
)

// talk is a client of the chat's socket.
type talk struct {
	t    *testing.T
	conn *websocket.Conn
	ctx  context.Context
}

// heard is a frame of the hub.
type heard struct {
	Type    string
	Seq     uint64
	Payload struct {
		State, Message, SessionID, Content, Tool, Reason string
		History                                          []struct{ Role, Content string }
		Approval                                         struct{ ID, Tool string }
		Start                                            struct{ Model string }
		End                                              struct{ Reason string }
	}
	raw string
}

func dial(t *testing.T, h *hubtest.Hub, path string) *talk {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
	t.Cleanup(cancel)
	// With the owner's token: who has none may talk, and not approve.
	o := &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + h.Token}}}
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(h.URL, "http")+path, o)
	if err != nil {
		t.Fatalf("dial %s: %v", path, err)
	}
	conn.SetReadLimit(10 << 20)
	t.Cleanup(func() { conn.CloseNow() })
	return &talk{t, conn, ctx}
}

func (c *talk) send(frame string) {
	c.t.Helper()
	if err := c.conn.Write(c.ctx, websocket.MessageText, []byte(frame)); err != nil {
		c.t.Fatalf("send %s: %v", frame, err)
	}
}

func (c *talk) next() heard {
	c.t.Helper()
	_, b, err := c.conn.Read(c.ctx)
	if err != nil {
		c.t.Fatalf("read: %v", err)
	}
	var f heard
	if err := json.Unmarshal(b, &f); err != nil {
		c.t.Fatalf("%s: %v", b, err)
	}
	f.raw = string(b)
	return f
}

// until reads on to the first frame of a type.
func (c *talk) until(kind string) (last heard, text string) {
	c.t.Helper()
	for {
		f := c.next()
		if f.Type == "text" {
			text += f.Payload.Content
		}
		if f.Type == kind {
			return f, text
		}
	}
}

// say sends a message and returns the answer. Calls that need it are approved.
func (c *talk) say(text string) string {
	c.t.Helper()
	b, err := json.Marshal(map[string]any{"type": "message", "payload": map[string]string{"text": text}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.send(string(b))
	var answer strings.Builder
	for {
		switch f := c.next(); f.Type {
		case "text":
			answer.WriteString(f.Payload.Content)
		case "approval.asked":
			c.send(`{"type":"approve","payload":{"id":` + quoted(idIn(f.raw)) + `,"decision":"approve"}}`)
		case "error":
			c.t.Fatalf("an error: %s", f.raw)
		case "turn.ended":
			return answer.String()
		}
	}
}

// idIn is the first id of a frame, wherever it stands.
func idIn(frame string) string {
	_, rest, _ := strings.Cut(frame, `"id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

func quoted(s string) string { b, _ := json.Marshal(s); return string(b) }

func listed(h *hubtest.Hub, t *testing.T) (names []string) {
	t.Helper()
	_, b := h.Get("/mcps")
	for _, a := range hubtest.Decode[struct {
		Agents []struct{ Name, Title string }
	}](b).Agents {
		names = append(names, a.Title)
	}
	return names
}
