package chatws

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/llm"
)

// source keeps of the frames what a client of the source knows: text, joined
// where pieces belong together, and status.
func source(frames []said) []string {
	var out []string
	text := ""
	flush := func() {
		if text != "" {
			out = append(out, "text "+text)
		}
		text = ""
	}
	for _, f := range frames {
		if f.get("event") != "" {
			continue // another frame says the same
		}
		switch f.Type {
		case "text":
			text += f.get("content")
		case "status":
			flush()
			out = append(out, fmt.Sprintf("status %s %s %s", f.get("state"), f.get("tool"), f.get("data")))
		}
	}
	flush()
	return out
}

// TestMessageProcessing is the first sequence diagram of the source.
func TestMessageProcessing(t *testing.T) {
	b := open(t, Options{})
	c := b.dial("", "")
	c.find("connection")
	c.message("Search files")
	b.says("I'll ")
	b.says("search")
	b.calls("search_files", `{"query":"files"}`)
	b.stops()
	b.says("Found file1.txt")
	b.stops()
	frames := c.until("turn.ended")
	want := []string{
		"text I'll search",
		`status processing search_files {"arguments":{"query":"files"}}`,
		`status complete search_files {"files":["file1.txt"]}`,
		"text Found file1.txt",
	}
	if diff := cmp.Diff(want, source(frames)); diff != "" {
		t.Error(diff)
	}
	last := frames[len(frames)-1]
	var end struct{ End chat.End }
	if err := json.Unmarshal(last.Payload, &end); err != nil || end.End.Reason != chat.ReasonDone {
		t.Errorf("%v: %s", err, last.raw)
	}
	// Every event has a number, and there is no gap.
	seq := uint64(0)
	for _, f := range frames {
		switch {
		case f.Type == "ack":
		case f.Seq == seq+1:
			if f.Type != "text" || f.Last {
				seq++
			}
		default:
			t.Errorf("after %d comes %s", seq, f.raw)
		}
	}
}

// TestConnectionManagement is the second diagram, and what is beyond it.
func TestConnectionManagement(t *testing.T) {
	b := open(t, Options{})
	c := b.dial("", "")
	hello := c.find("connection")
	id := hello.get("sessionId")
	if hello.get("state") != "connected" || hello.get("message") != chat.DefaultTexts.Welcome || id == "" || hello.get("history") != "" {
		t.Fatal(hello.raw)
	}
	c.message("Hi")
	b.says("Hello.")
	b.stops()
	c.until("turn.ended")
	c.ws.CloseNow()

	again := b.dial("sessionId="+id, "").find("connection")
	if again.get("state") != "reconnected" || again.get("sessionId") != id {
		t.Fatal(again.raw)
	}
	var history []Message
	if err := json.Unmarshal([]byte(again.get("history")), &history); err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, m := range history {
		have = append(have, m.Role+": "+m.Content)
		if m.ID == "" || m.CreatedAt < time.Now().Add(-time.Hour).UnixMilli() {
			t.Errorf("%+v", m)
		}
	}
	if diff := cmp.Diff([]string{"user: Hi", "assistant: Hello."}, have); diff != "" {
		t.Error(diff)
	}
	// Another principal's conversation of that name is another one.
	if f := b.dial("sessionId="+id, "eve").find("connection"); f.get("state") != "connected" || f.get("history") != "" {
		t.Error(f.raw)
	}
	// A name that nothing has yet is a new conversation of that name.
	if f := b.dial("sessionId=mine", "").find("connection"); f.get("state") != "connected" || f.get("sessionId") != "mine" {
		t.Error(f.raw)
	}
	// What cannot be a name is refused by a frame that says why.
	bad := b.dial(query("sessionId", "no/name"), "")
	if f := bad.find("connection"); f.get("state") != "error" || f.get("hint") == "" || bad.closed() != websocket.StatusPolicyViolation {
		t.Error(f.raw)
	}
	bad = b.dial(query("sessionId", id, "after_seq", "x"), "")
	if f := bad.find("connection"); f.get("state") != "error" || !strings.Contains(f.get("message"), "after_seq") {
		t.Error(f.raw)
	}
	// A place that this conversation has never had: all of it is told.
	if f := b.dial(query("sessionId", id, "after_seq", 1000), "").find("connection"); f.get("state") != "reconnected" || f.get("history") == "" {
		t.Error(f.raw)
	}
}

func TestPlainRequest(t *testing.T) {
	b := open(t, Options{})
	resp := b.get("/ws")
	if resp.StatusCode != http.StatusUpgradeRequired || !strings.Contains(body(t, resp), "POST /api/chat") {
		t.Error(resp.Status)
	}
	resp = b.get("/ws", "Origin", "https://evil.example")
	if resp.StatusCode != http.StatusForbidden {
		t.Error(resp.Status)
	}
}

func TestBadFrames(t *testing.T) {
	b := open(t, Options{MessageBytes: 1000})
	c := b.dial("", "")
	c.find("connection")
	for _, tc := range badFrames {
		if len(tc.frame) > 1000 {
			continue
		}
		c.send(tc.frame)
		f := c.next()
		if f.Type != "error" || f.get("kind") != tc.kind || f.get("at") != tc.at || !strings.Contains(f.get("message")+" "+f.get("hint"), tc.say) {
			t.Errorf("%s: %s", tc.frame, f.raw)
		}
	}
	// The socket is as good as before.
	c.send(`{"type":"ping"}`)
	if f := c.next(); f.Type != "pong" {
		t.Error(f.raw)
	}
	if err := c.ws.Write(t.Context(), websocket.MessageBinary, []byte(`{"type":"ping"}`)); err != nil {
		t.Fatal(err)
	}
	if f := c.next(); f.get("kind") != "invalid_request" || !strings.Contains(f.get("message"), "binary") {
		t.Error(f.raw)
	}
	c.send(strings.Repeat("x", 1001))
	if f := c.next(); f.get("kind") != "too_large" || !strings.Contains(f.get("message"), "1000 bytes") {
		t.Error(f.raw)
	}
	c.send(`{"type":"abort","payload":{"turn":"t9"}}`)
	if f := c.next(); f.Type != "ack" || f.get("aborted") != "false" {
		t.Error(f.raw)
	}
	c.send(`{"type":"resume","payload":{"after_seq":7}}`)
	if f := c.next(); f.Type != "error" || !strings.Contains(f.get("message"), "the last is 0") {
		t.Error(f.raw)
	}
	c.send(`{"type":"approve","payload":{"id":"a_none","decision":"deny"}}`)
	if f := c.next(); f.Type != "error" || f.get("id") != "a_none" {
		t.Error(f.raw)
	}
	c.send(`{"type":"message","payload":{"text":"hi","agent":"nobody","key":"k1"}}`)
	if f := c.next(); f.get("kind") != "unknown_agent" || f.get("key") != "k1" || f.get("frame") != "message" {
		t.Error(f.raw)
	}
	// A frame that is far too long ends it.
	c.send(strings.Repeat("x", 1000*(skipped+2)))
	if code := c.closed(); code != websocket.StatusMessageTooBig {
		t.Error(code)
	}
}

// A client that sends nothing but nonsense is closed; its neighbour is not.
func TestAbuse(t *testing.T) {
	b := open(t, Options{})
	c, other := b.dial("", ""), b.dial("", "")
	c.find("connection")
	other.find("connection")
	done := make(chan websocket.StatusCode)
	go func() {
		for {
			if _, err := c.try(); err != nil {
				done <- websocket.CloseStatus(err)
				return
			}
		}
	}()
	for range 10 * otherBurst {
		if c.ws.Write(t.Context(), websocket.MessageText, []byte("x")) != nil {
			break
		}
	}
	if code := <-done; code != websocket.StatusPolicyViolation {
		t.Error(code)
	}
	other.send(`{"type":"ping"}`)
	other.find("pong")
}

func TestRateLimit(t *testing.T) {
	b := open(t, Options{Rate: 0.001, Burst: 2}, func(s *chat.Settings) { s.Queue = 8 })
	c := b.dial("", "")
	c.find("connection")
	c.message("one")
	c.message("two")
	c.send(`{"type":"message","payload":{"text":"three","key":"k3"}}`)
	var notice said
	for f := c.next(); f.Type != "error"; f = c.next() {
		if f.Type == "text" { // events of the turn may come between the two
			notice = f
		}
	}
	if notice.Type != "text" || notice.get("content") != chat.DefaultTexts.RateLimited || notice.Seq != 0 {
		t.Errorf("%s", notice.raw)
	}
	// Who stops is always heard.
	c.send(`{"type":"abort","payload":{"queued":true}}`)
	if f := c.find("ack"); f.get("aborted") != "true" {
		t.Error(f.raw)
	}
}

func TestQueueFull(t *testing.T) {
	b := open(t, Options{Burst: 100}, func(s *chat.Settings) { s.Queue = 1; s.Texts.RateLimited = "Too busy." })
	c := b.dial("", "")
	c.find("connection")
	c.message("one")
	c.find("turn.started")
	c.message("two")
	c.find("input")
	c.send(`{"type":"message","payload":{"text":"three","key":"k3"}}`)
	f := c.find("text")
	if f.get("content") != "Too busy." || f.get("notice") != "true" {
		t.Error(f.raw)
	}
	if f = c.find("error"); f.get("kind") != "limit" || f.get("key") != "k3" {
		t.Error(f.raw)
	}
	b.says("first")
	b.stops()
	b.says("second")
	b.stops()
	c.find("turn.ended")
	if got := source(c.until("turn.ended")); !cmp.Equal(got, []string{"text second"}) {
		t.Error(got)
	}
}

// The same key again is the same message, also on another socket.
func TestKey(t *testing.T) {
	b := open(t, Options{})
	c := b.dial("sessionId=s", "")
	c.find("connection")
	c.send(`{"type":"message","payload":{"text":"hi","key":"k"}}`)
	first := c.find("ack")
	d := b.dial("sessionId=s", "")
	d.find("connection")
	d.send(`{"type":"message","payload":{"text":"hi","key":"k"}}`)
	second := d.find("ack")
	if first.raw != second.raw || first.get("input") == "" {
		t.Errorf("%s\n%s", first.raw, second.raw)
	}
	b.says("once")
	b.stops()
	if got := source(d.until("turn.ended")); !cmp.Equal(got, []string{"text once"}) {
		t.Error(got)
	}
}

func TestTwoSockets(t *testing.T) {
	b := open(t, Options{})
	c := b.dial("sessionId=shared", "")
	c.find("connection")
	d := b.dial("sessionId=shared", "")
	d.find("connection")
	c.message("Hi")
	one := c.until("turn.started")
	b.says("Hello ")
	one = append(one, c.until("text")...)
	d.message("Me too")
	two := d.until("ack")
	b.says("you")
	b.stops()
	b.says("Both.")
	b.stops()
	for range 2 {
		one, two = append(one, c.until("turn.ended")...), append(two, d.until("turn.ended")...)
	}
	events := func(frames []said) []string {
		var out []string
		for _, f := range frames {
			if f.Type != "text" && f.Type != "ack" && f.get("event") == "" {
				out = append(out, fmt.Sprintf("%d %s %s", f.Seq, f.Type, f.Payload))
			}
		}
		return out
	}
	if diff := cmp.Diff(events(one), events(two)); diff != "" {
		t.Error(diff)
	}
	for _, frames := range [][]said{one, two} {
		if got := source(frames); !cmp.Equal(got, []string{"text Hello youBoth."}) {
			t.Error(got)
		}
	}
}

func TestFailedTurn(t *testing.T) {
	b := open(t, Options{}, func(s *chat.Settings) { s.Texts.LLMError = "No model today."; s.RetryAttempts = -1 })
	c := b.dial("sessionId=s", "")
	c.find("connection")
	c.message("Hi")
	b.play(line{fail: &llm.Error{Cause: llm.Auth, Provider: "puppet", Attempts: 1, Detail: "bad key"}})
	frames := c.until("turn.ended")
	const told = "No model today. (puppet: the provider does not accept the key: bad key; check the key and what it may be used for)"
	if got := source(frames); !cmp.Equal(got, []string{"text " + told}) {
		t.Errorf("%q", got)
	}
	end := frames[len(frames)-1]
	text := frames[len(frames)-2]
	if text.Seq != end.Seq || text.get("notice") != "true" || text.End != len(told) || !strings.Contains(end.raw, `"reason":"failed"`) {
		t.Errorf("%s\n%s", text.raw, end.raw)
	}
	// Who is cut off between the two is not told twice.
	d := b.dial(query("sessionId", "s", "after_seq", end.Seq-1, "offset", text.End), "")
	d.find("connection")
	if got := d.until("turn.ended"); len(got) != 1 {
		t.Errorf("%v", got)
	}
	// And who comes later sees it in the history.
	if f := b.dial("sessionId=s", "").find("connection"); !strings.Contains(f.get("history"), "No model today.") {
		t.Error(f.raw)
	}
}

func TestToolError(t *testing.T) {
	b := open(t, Options{})
	c := b.dial("", "")
	c.find("connection")
	c.message("Try")
	b.calls("broken", `{}`)
	b.stops()
	b.says("It does not work.")
	b.stops()
	var done said
	for _, f := range c.until("turn.ended") {
		if f.Type == "status" && f.get("state") == "complete" {
			done = f
		}
	}
	if done.get("isError") != "true" || done.get("message") != chat.DefaultTexts.ToolFailed("broken", "no such disk") || done.get("data") != `{"text":"no such disk"}` {
		t.Error(done.raw)
	}
}
