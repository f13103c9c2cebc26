package chatws_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// seen is a frame as a client of a whole hub sees it.
type seen struct {
	Type    string
	Seq     uint64
	Offset  int
	End     int
	Last    bool
	Payload struct {
		State, Message, Tool, Content, SessionID, Event string
		Data                                            json.RawMessage
		History                                         []struct{ Role, Content, ToolName, Kind string }
		Approval                                        struct{ ID, Tool string }
		End                                             struct{ Reason string }
	}
	raw string
}

type socket struct {
	t  *testing.T
	ws *websocket.Conn
}

// dial opens a socket of the hub's owner, who may approve.
func dial(t *testing.T, h *hubtest.Hub, query string) *socket {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	ws, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(h.URL, "http")+"/ws?"+query, &websocket.DialOptions{HTTPClient: client, HTTPHeader: http.Header{"Authorization": {"Bearer " + h.Token}}})
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(64 << 20)
	t.Cleanup(func() { ws.CloseNow() })
	return &socket{t, ws}
}

func (s *socket) next() (seen, error) {
	ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
	defer cancel()
	_, b, err := s.ws.Read(ctx)
	if err != nil {
		return seen{}, err
	}
	f := seen{raw: string(b)}
	return f, json.Unmarshal(b, &f)
}

// until reads up to the first frame of a type.
func (s *socket) until(kind string) (all []seen, last seen) {
	s.t.Helper()
	for {
		f, err := s.next()
		if err != nil {
			s.t.Fatalf("waiting for %s: %v", kind, err)
		}
		if all = append(all, f); f.Type == kind {
			return all, f
		}
	}
}

func (s *socket) send(frame string) {
	s.t.Helper()
	if err := s.ws.Write(s.t.Context(), websocket.MessageText, []byte(frame)); err != nil {
		s.t.Fatal(err)
	}
}

// tell renders what a client of the source sees of frames.
func tell(all []seen) string {
	var b strings.Builder
	for _, f := range all {
		if f.Payload.Event != "" {
			continue // another frame says the same
		}
		switch f.Type {
		case "text":
			b.WriteString(f.Payload.Content)
		case "status":
			b.WriteString("\n[" + f.Payload.State + " " + f.Payload.Tool + " " + string(f.Payload.Data) + "]\n")
		}
	}
	return b.String()
}

func files(edits ...hubtest.Edit) []hubtest.Edit {
	tool := peer.Tool{Name: "echo"}
	return append([]hubtest.Edit{hubtest.Stdio("up", peer.Spec{Tools: []peer.Tool{tool}})}, edits...)
}

func ready(t *testing.T, h *hubtest.Hub, tool string) {
	t.Helper()
	c := h.Client(t, hubtest.ClientOptions{})
	await.Until(t, "the tools are there", func() bool { return strings.Contains(string(c.Call("tools/list", "").Result), `"`+tool+`"`) })
}

// A browser's socket, a conversation, a tool of a real process, a person who
// allows it; then a hub that stops and another that goes on with it.
func TestWholeHub(t *testing.T) {
	h := hubtest.New(t, files()...)
	ready(t, h, "up__echo")
	s := dial(t, h, "")
	_, hello := s.until("connection")
	if hello.Payload.State != "connected" || hello.Payload.Message != chat.DefaultTexts.Welcome || hello.Payload.SessionID == "" {
		t.Fatal(hello.raw)
	}
	id := hello.Payload.SessionID
	s.send(`{"type":"message","payload":{"text":"call up__echo {\"a\": 1}"}}`)
	_, asked := s.until("approval.asked")
	if asked.Payload.Approval.Tool != "up__echo" {
		t.Fatal(asked.raw)
	}
	s.send(`{"type":"approve","payload":{"id":"` + asked.Payload.Approval.ID + `","decision":"approve"}}`)
	all, end := s.until("turn.ended")
	if got, want := tell(all), "\n[processing up__echo {\"arguments\":{\"a\":1}}]\n\n[complete up__echo {\"a\":1}]\nup__echo answered:\n"; !strings.HasPrefix(got, want) || end.Payload.End.Reason != "done" {
		t.Errorf("%q, %s", got, end.raw)
	}
	h.End()
	_, bye := s.until("connection")
	if bye.Payload.State != "reconnecting" || bye.Payload.Message != chat.DefaultTexts.Maintenance {
		t.Error(bye.raw)
	}
	if _, err := s.next(); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Error(err)
	}
	h.Stop()

	again := hubtest.New(t, files(hubtest.Data(h.Data))...)
	ready(t, again, "up__echo")
	s = dial(t, again, "sessionId="+id)
	_, back := s.until("connection")
	var roles []string
	for _, m := range back.Payload.History {
		roles = append(roles, m.Role+m.Kind)
	}
	if back.Payload.State != "reconnected" || strings.Join(roles, " ") != "user assistantstart toolcomplete assistant" {
		t.Errorf("%v: %s", roles, back.raw)
	}
	s.send(`{"type":"message","payload":{"text":"echo still here"}}`)
	if all, _ = s.until("turn.ended"); !strings.Contains(tell(all), "still here") {
		t.Errorf("%q", tell(all))
	}
	// By numbers, across the restart.
	all, _ = dial(t, again, "after_seq=0&sessionId="+id).until("turn.ended")
	for i, f := range all[1:] {
		if f.Seq != uint64(i+1) {
			t.Fatalf("%d: %s", i+1, f.raw)
		}
	}
}

func post(t *testing.T, h *hubtest.Hub, path, body string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, h.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestGuards(t *testing.T) {
	h := hubtest.New(t)
	if resp := post(t, h, "/api/chat", `{"text":"echo hi"}`); resp.StatusCode != http.StatusUnauthorized {
		t.Error(resp.Status)
	}
	bearer := []string{"Authorization", "Bearer " + h.Token}
	for _, tc := range []struct {
		path, body string
		header     []string
		status     int
		say        string
	}{
		{"/api/chat", `{"text":"echo hi"}`, []string{"Origin", "https://evil.example"}, 403, "foreign_origin"},
		{"/api/chat", `{"text":"echo hi"}`, []string{"Accept", "application/json"}, 200, `"text":"hi`},
		{"/api/chat", `{"text":`, nil, 400, `"parse"`},
		{"/api/chat", `{"text":"hi","agent":"nobody"}`, nil, 404, "unknown_agent"},
		{"/api/chat/approve", `{"id":"a_none","decision":"approve"}`, nil, 404, "a_none"},
		{"/api/chat/abort", `{"sessionId":"none"}`, nil, 200, `{"aborted":false}`},
	} {
		resp := post(t, h, tc.path, tc.body, append(tc.header, bearer...)...)
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != tc.status || !strings.Contains(string(b), tc.say) {
			t.Errorf("%s %s: %v, %s %s", tc.path, tc.body, err, resp.Status, b)
		}
	}
	if status, b := h.Get("/api/chat/none"); status != http.StatusNotFound {
		t.Errorf("%d %s", status, b)
	}
}

// A model that is slow, a client that is cut off in the middle of a word, and a
// stream that goes on there.
func TestStreamOfHub(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("-- one --\none two three four five\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := hubtest.New(t, hubtest.Config(func(c *config.Config) {
		c.Models.Named = []config.Model{{Name: "slow", Provider: config.Script, Script: script, Pace: 40e6}}
		c.Models.Default = "slow"
	}))
	resp := post(t, h, "/api/chat", `{"text":"count","sessionId":"s","key":"k"}`, "Authorization", "Bearer "+h.Token)
	text, id := "", ""
	for sc := bufio.NewScanner(resp.Body); sc.Scan() && !strings.Contains(text, "two"); {
		if place, ok := strings.CutPrefix(sc.Text(), "id: "); ok {
			id = place
		}
		text += content(sc.Text())
	}
	resp.Body.Close()
	if text == "" || id == "" {
		t.Fatalf("%q, %q", text, id)
	}
	resp = post(t, h, "/api/chat", `{"text":"count","sessionId":"s","key":"k"}`, "Authorization", "Bearer "+h.Token, "Last-Event-ID", id)
	for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
		text += content(sc.Text())
	}
	if text != "one two three four five\n" && text != "one two three four five" {
		t.Errorf("%q", text)
	}
}

// content is the text in a line of a stream.
func content(line string) string {
	data, ok := strings.CutPrefix(line, "data: ")
	var f seen
	if !ok || json.Unmarshal([]byte(data), &f) != nil || f.Type != "text" {
		return ""
	}
	return f.Payload.Content
}

// Clients hear which server does not start, and why.
func TestDegradedHub(t *testing.T) {
	h := hubtest.New(t, hubtest.Config(func(c *config.Config) {
		srv := config.DefaultServer()
		srv.Name, srv.Title, srv.Transport, srv.Command = "gone", "gone", config.Stdio, filepath.Join(t.TempDir(), "no-such-program")
		c.Servers = append(c.Servers, srv)
	}))
	await.Until(t, "the server has failed", func() bool {
		_, b := h.Get("/api/v1/servers")
		return strings.Contains(string(b), `"state":"misconfigured"`)
	})
	s := dial(t, h, "")
	_, f := s.until("status")
	if !strings.Contains(f.Payload.Message, "gone: start ") || !strings.Contains(f.Payload.Message, "the others work") || string(f.Payload.Data) != `{"degraded":["gone"]}` {
		t.Error(f.raw)
	}
}

// The owner hears in the chat why a program ended.
func TestDegradedByItsProgram(t *testing.T) {
	h := hubtest.New(t, hubtest.Config(func(c *config.Config) {
		srv := config.DefaultServer()
		srv.Name, srv.Title, srv.Transport, srv.Command = "gone", "gone", config.Stdio, "sh"
		srv.Args = []string{"-c", `echo "Error: GONE_TOKEN is required" >&2; exit 1`}
		c.Servers = append(c.Servers, srv)
	}))
	await.Until(t, "the server has failed", func() bool {
		_, b := h.Get("/api/v1/servers")
		return strings.Contains(string(b), `"state":"error"`)
	})
	s := dial(t, h, "")
	if _, f := s.until("status"); !strings.Contains(f.Payload.Message, "gone: the program ended: exit status 1: Error: GONE_TOKEN is required.") {
		t.Error(f.raw)
	}
}
