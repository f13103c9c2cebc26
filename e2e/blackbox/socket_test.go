package blackbox

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// socket is a client's WebSocket.
type socket struct {
	t    testing.TB
	conn *websocket.Conn
}

// dial opens a socket for as long as the test runs. What refuses it is in the
// reply, which is empty otherwise.
func (h *hub) dial(t testing.TB, path, token string, header http.Header) (*socket, reply) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	all := http.Header{}
	if header != nil {
		all = header.Clone()
	}
	if token != "" {
		all.Set("Authorization", "Bearer "+token)
	}
	conn, response, err := websocket.Dial(ctx, "ws://"+h.address+path, &websocket.DialOptions{HTTPHeader: all, HTTPClient: client})
	if err != nil && response == nil {
		t.Fatal(err)
	}
	if err != nil {
		text, _ := io.ReadAll(response.Body) // the status alone says that it was refused
		return nil, reply{status: response.StatusCode, text: string(text), header: response.Header}
	}
	conn.SetReadLimit(-1)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &socket{t, conn}, reply{}
}

// socket is dial for a socket that has to be let in.
func (h *hub) socket(t testing.TB, path, token string, header http.Header) *socket {
	t.Helper()
	s, no := h.dial(t, path, token, header)
	if s == nil {
		t.Fatalf("%s: %d %s", path, no.status, clip(no.text))
	}
	return s
}

// frame is what the chat sends.
type frame struct {
	Type    string
	Call    string
	Payload struct {
		State, Message, Tool, Content, Status string
		Elicitation                           struct{ ID, Message string }
		End                                   struct{ Reason string }
	}
	raw string
}

func (s *socket) next() (f frame) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), await.Patience)
	defer cancel()
	_, text, err := s.conn.Read(ctx)
	if err != nil {
		s.t.Fatalf("the socket says nothing more: %v", err)
	}
	if err := json.Unmarshal(text, &f); err != nil {
		s.t.Fatalf("%v: %s", err, text)
	}
	f.raw = string(text)
	return f
}

func (s *socket) send(v any) {
	s.t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.conn.Write(s.t.Context(), websocket.MessageText, text); err != nil {
		s.t.Fatalf("the socket takes nothing any more: %v", err)
	}
}

// until reads frames up to one of these types.
func (s *socket) until(types ...string) (kind, text string) {
	s.t.Helper()
	for {
		if f := s.next(); slices.Contains(types, f.Type) {
			return f.Type, f.raw
		}
	}
}

// say sends a message to the chat and reads up to the end of its turn: the
// text, and how it ended. Each frame is shown to see, if there is one.
func (s *socket) say(text string, see func(frame)) (answer, reason string) {
	s.t.Helper()
	s.send(object{"type": "message", "payload": object{"text": text}})
	for {
		f := s.next()
		if see != nil {
			see(f)
		}
		switch f.Type {
		case "error":
			s.t.Fatalf("a frame was refused: %s", f.raw)
		case "text":
			answer += f.Payload.Content
		case "turn.ended":
			return answer, f.Payload.End.Reason
		}
	}
}

// B17: clients of this machine that need no token do not lock each other out,
// and who has too many sockets is told so.
func TestSocketsOfThisMachine(t *testing.T) {
	t.Parallel()
	h := serve(t, object{})
	for i := range 65 {
		if s, no := h.dial(t, "/ws/AIlumina", "", nil); s == nil {
			t.Fatalf("socket %d without a token: %d %s", i+1, no.status, clip(no.text))
		}
	}
	ann := h.token(t, "ann")
	for i := range 65 {
		s, no := h.dial(t, "/ws/AIlumina", ann, nil)
		if s != nil {
			continue
		}
		if no.status != http.StatusTooManyRequests || no.header.Get("Retry-After") == "" {
			t.Errorf("socket %d of ann: %d, Retry-After %q", i+1, no.status, no.header.Get("Retry-After"))
		}
		mentions(t, "why there are too many", no.text, "limits.sockets")
	}
	// Ann's have no part in those of others.
	h.socket(t, "/ws/AIlumina", h.token(t, "bob"), nil)
}
