package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
)

// playedHub speaks the frames of docs/chat.md from a list: a conversation
// whose turn is known beforehand, so that it can be cut at every frame. It
// takes a message once, however often it comes.
type playedHub struct {
	turn   []string // frames of the turn, in order, with seq; KEY stands for the message's key
	cut    []int    // after how many frames each connection dies; the last ones do not
	unheld bool     // a connection also dies when it hears the message, before anything is answered

	mu     sync.Mutex
	key    string
	heard  []frame // all that clients sent
	visits []url.Values
	hello  func(visit int, q url.Values) string // what is sent first; nil: the usual
}

func (h *playedHub) start(t *testing.T) *client {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wg.Add(1)
		defer wg.Done()
		h.serve(ctx, w, r)
	}))
	t.Cleanup(func() {
		cancel()
		server.CloseClientConnections()
		server.Close()
		wg.Wait()
	})
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(base, "")
	t.Cleanup(c.close)
	return c
}

func (h *playedHub) serve(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	q := r.URL.Query()
	h.mu.Lock()
	visit := len(h.visits)
	h.visits = append(h.visits, q)
	cut := -1
	if visit < len(h.cut) {
		cut = h.cut[visit]
	}
	h.mu.Unlock()
	seq, _ := strconv.ParseUint(q.Get("after_seq"), 10, 64)
	hello := fmt.Sprintf(`{"type":"connection","payload":{"state":"connected","message":"Hello.","sessionId":"s_1","seq":%d}}`, seq)
	if h.hello != nil {
		hello = h.hello(visit, q)
	}
	if conn.Write(ctx, websocket.MessageText, []byte(hello)) != nil {
		return
	}
	h.play(ctx, conn, seq, cut, visit)
}

// play waits for the message, if it has not come yet, and sends what follows
// seq.
func (h *playedHub) play(ctx context.Context, conn *websocket.Conn, seq uint64, cut, visit int) {
	h.mu.Lock()
	known := h.key != ""
	h.mu.Unlock()
	if !known {
		if !h.hear(ctx, conn) {
			return
		}
		if h.unheld && visit == 0 {
			return
		}
	}
	h.mu.Lock()
	key := h.key
	h.mu.Unlock()
	sent := 0
	for _, text := range h.turn {
		text = strings.ReplaceAll(text, "KEY", key)
		f, err := parseFrame([]byte(text))
		if err != nil {
			panic(err)
		}
		if f.Seq != 0 && f.Seq <= seq {
			continue
		}
		if sent == cut {
			return
		}
		if text == `{"type":"wait"}` {
			if !h.hear(ctx, conn) {
				return
			}
			continue
		}
		if conn.Write(ctx, websocket.MessageText, []byte(text)) != nil {
			return
		}
		sent++
	}
	for h.hear(ctx, conn) {
	}
}

// hear reads one frame of the client.
func (h *playedHub) hear(ctx context.Context, conn *websocket.Conn) bool {
	_, b, err := conn.Read(ctx)
	if err != nil {
		return false
	}
	f, err := parseFrame(b)
	if err != nil {
		panic(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = append(h.heard, f)
	if f.Type == "message" {
		var m messagePayload
		f.read(&m)
		h.key = m.Key
	}
	return true
}

func (h *playedHub) said(kind string) (list []frame) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.heard {
		if f.Type == kind {
			list = append(list, f)
		}
	}
	return list
}

// aTurn is a turn with text that comes live and then whole, a call, and more
// text.
var aTurn = []string{
	`{"type":"ack","payload":{"frame":"message","key":"KEY","input":"i1","seq":1}}`,
	`{"type":"input","seq":1,"payload":{"input":{"id":"i1","text":"hi","key":"KEY"}}}`,
	`{"type":"turn.started","seq":2,"turn":"t1","payload":{"start":{"input":"i1","model":"m"}}}`,
	`{"type":"text","seq":3,"turn":"t1","offset":0,"end":4,"payload":{"content":"Grü"}}`,
	`{"type":"text","seq":3,"turn":"t1","offset":4,"end":9,"payload":{"content":"ße, "}}`,
	`{"type":"text","seq":3,"turn":"t1","offset":9,"end":9,"last":true,"payload":{"content":""}}`,
	`{"type":"text","seq":4,"turn":"t1","offset":0,"end":5,"last":true,"payload":{"content":"wait."}}`,
	`{"type":"call","seq":5,"turn":"t1","call":"c1","payload":{"call":{"id":"c1","name":"fs__read","args":{"path":"a"}}}}`,
	`{"type":"answer","seq":6,"turn":"t1","payload":{"answer":{"stop":"calls"}}}`,
	`{"type":"status","seq":7,"turn":"t1","call":"c1","payload":{"state":"processing","tool":"fs__read","message":"Running fs__read.","data":{"arguments":{"path":"a"}}}}`,
	`{"type":"call.progress","turn":"t1","call":"c1","payload":{"progress":{"call":"c1","progress":1,"total":2,"message":"half"}}}`,
	`{"type":"status","seq":8,"turn":"t1","call":"c1","payload":{"state":"complete","tool":"fs__read","message":"fs__read is done.","data":{"text":"x"},"status":"ok","tookMs":12,"bytes":1}}`,
	`{"type":"context","seq":9,"turn":"t1","payload":{"context":{"used":1200,"limit":8000,"system":200,"tools":600,"history":400}}}`,
	`{"type":"text","seq":10,"turn":"t1","offset":0,"end":8,"last":true,"payload":{"content":"It is x."}}`,
	`{"type":"answer","seq":11,"turn":"t1","payload":{"answer":{"stop":"done"}}}`,
	`{"type":"turn.ended","seq":12,"turn":"t1","payload":{"end":{"reason":"done"}}}`,
}

// talkTo runs one turn against a hub, and returns what was printed.
func talkTo(t *testing.T, hub *client, cmd *chatCmd, text string) (out, status string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	talk := newTalk(cmd, std{in: strings.NewReader(""), out: &stdout, err: &stderr}, hub)
	talk.sock.again = nil
	if cmd.JSON {
		err = talk.frames(ctx, text)
	} else {
		err = talk.once(ctx, text)
	}
	return stdout.String(), stderr.String(), err
}

// Cut anywhere, once or at every frame, a turn is shown whole and once.
func TestChatReconnect(t *testing.T) {
	cuts := [][]int{nil}
	for n := range len(aTurn) {
		cuts = append(cuts, []int{n})
	}
	cuts = append(cuts, slices.Repeat([]int{2}, 20))
	for _, cut := range cuts {
		for _, unheld := range []bool{false, true} {
			t.Run(fmt.Sprint(cut, unheld), func(t *testing.T) {
				t.Parallel()
				h := &playedHub{turn: aTurn, cut: cut, unheld: unheld}
				out, status, err := talkTo(t, h.start(t), &chatCmd{}, "hi")
				if err != nil {
					t.Fatal(err)
				}
				if want := "Grüße, wait.\nIt is x.\n"; out != want {
					t.Errorf("printed %q, want %q", out, want)
				}
				shown := slices.DeleteFunc(strings.Split(status, "\n"), func(line string) bool { return strings.HasPrefix(line, "· ") })
				if d := cmp.Diff([]string{`▸ fs__read {"path":"a"}`, "✓ fs__read 12 ms, 1 byte", ""}, shown); d != "" {
					t.Errorf("-want +got:\n%s", d)
				}
				keys := map[string]bool{}
				for _, f := range h.said("message") {
					var m messagePayload
					f.read(&m)
					keys[m.Key] = true
				}
				if len(keys) != 1 {
					t.Errorf("the message had %d keys", len(keys))
				}
				if lost := cut != nil || unheld; lost != strings.Contains(status, "· reconnecting…\n") {
					t.Errorf("lost: %v, and told:\n%s", lost, status)
				}
			})
		}
	}
}

// The same for scripts: all frames of the log, once and in order.
func TestChatReconnectJSON(t *testing.T) {
	for n := range len(aTurn) {
		h := &playedHub{turn: aTurn, cut: []int{n}}
		out, status, err := talkTo(t, h.start(t), &chatCmd{asJSON: asJSON{JSON: true}}, "hi")
		if err != nil || status != "" {
			t.Fatal(err, status)
		}
		var text string
		var seqs []uint64
		for line := range strings.Lines(out) {
			f, err := parseFrame([]byte(line))
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if f.Type == "text" {
				var said saidText
				f.read(&said)
				text += said.Content
			}
			if f.Seq != 0 && (len(seqs) == 0 || seqs[len(seqs)-1] != f.Seq) {
				seqs = append(seqs, f.Seq)
			}
		}
		if want := "Grüße, wait.It is x."; text != want {
			t.Errorf("cut at %d: the text is %q, want %q", n, text, want)
		}
		if d := cmp.Diff([]uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, seqs); d != "" {
			t.Errorf("cut at %d: -want +got:\n%s", n, d)
		}
	}
}

// ending is a turn with one call that ended so, and its own end.
func ending(status, end string) []string {
	turn := []string{aTurn[1], aTurn[2]}
	if status != "" {
		turn = append(turn, strings.ReplaceAll(aTurn[9], `"seq":7`, `"seq":3`),
			fmt.Sprintf(`{"type":"status","seq":4,"turn":"t1","call":"c1","payload":{"state":"complete","tool":"fs__read","message":"m","data":{"text":"no\u001b[2J"},"isError":%v,"status":%q,"tookMs":3}}`, status != "ok", status))
	}
	return append(turn, fmt.Sprintf(`{"type":"turn.ended","seq":5,"turn":"t1","payload":{"end":%s}}`, end))
}

func TestChatExitCodes(t *testing.T) {
	for _, tc := range []struct {
		name, call, end string
		code            int
		told            string
	}{
		{"done", "ok", `{"reason":"done"}`, exitOK, "✓ fs__read 3 ms"},
		{"the tool said no", "failed", `{"reason":"done"}`, exitToolSaidNo, `✗ fs__read 3 ms: no\u001b[2J`},
		{"denied", "denied", `{"reason":"done"}`, exitDenied, `✗ fs__read 3 ms: denied: no`},
		{"no such tool", "refused", `{"reason":"done"}`, exitToolSaidNo, "refused"},
		{"no model", "", `{"reason":"failed","text":"I cannot answer.","error":"401"}`, exitFailed, "✗ I cannot answer. (401)"},
		{"too many steps", "ok", `{"reason":"steps","text":"Too many."}`, exitFailed, "✗ Too many."},
		{"interrupted", "interrupted", `{"reason":"interrupted"}`, exitFailed, "✗ the turn ended: interrupted"},
		{"stopped elsewhere", "ok", `{"reason":"aborted"}`, exitInterrupted, "✗ stopped"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := &playedHub{turn: ending(tc.call, tc.end)}
			_, status, err := talkTo(t, h.start(t), &chatCmd{}, "hi")
			code := exitOK
			if err != nil {
				code = describe(err).code
			}
			if code != tc.code || !strings.Contains(status, tc.told) {
				t.Errorf("exit code %d, want %d; told %q, want %q", code, tc.code, status, tc.told)
			}
		})
	}
}

func TestChatApprovals(t *testing.T) {
	asked := `{"type":"approval.asked","seq":3,"turn":"t1","payload":{"approval":{"id":"a1","turn":"t1","tool":"fs__write","kind":"tool","args":{"path":"a"}}}}`
	turn := []string{aTurn[1], aTurn[2], asked, `{"type":"wait"}`,
		`{"type":"ack","payload":{"frame":"approve","id":"a1"}}`,
		`{"type":"approval.decided","seq":4,"turn":"t1","payload":{"approval":{"id":"a1"},"decision":{"approve":true}}}`,
		`{"type":"turn.ended","seq":5,"turn":"t1","payload":{"end":{"reason":"done"}}}`}
	for _, tc := range []struct {
		name string
		cmd  chatCmd
		want string
	}{{"yes", chatCmd{Yes: true}, "approve"}, {"no", chatCmd{No: true}, "deny"}, {"nobody to ask", chatCmd{}, "deny"}} {
		t.Run(tc.name, func(t *testing.T) {
			h := &playedHub{turn: turn}
			if _, _, err := talkTo(t, h.start(t), &tc.cmd, "hi"); err != nil {
				t.Fatal(err)
			}
			said := h.said("approve")
			if len(said) != 1 {
				t.Fatalf("%d decisions", len(said))
			}
			var p approvePayload
			said[0].read(&p)
			if p.ID != "a1" || p.Decision != tc.want {
				t.Errorf("sent %s", said[0].raw)
			}
		})
	}
}

// What a hub says that does not want us, or us any more, ends the command.
func TestChatTurnedAway(t *testing.T) {
	for _, tc := range []struct {
		name, hello string
		turn        []string
		code        int
		want        string
	}{
		{"at the door", `{"type":"connection","payload":{"state":"error","message":"no such agent","kind":"denied","hint":"Ask."}}`, nil, exitDenied, "no such agent"},
		{"the message", "", []string{`{"type":"error","payload":{"frame":"message","key":"KEY","kind":"limit","message":"the queue is full"}}`}, exitFailed, "the queue is full"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := &playedHub{turn: tc.turn}
			if tc.hello != "" {
				h.hello = func(int, url.Values) string { return tc.hello }
			}
			_, _, err := talkTo(t, h.start(t), &chatCmd{}, "hi")
			if err == nil || describe(err).code != tc.code || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A hub that came back without the conversation cannot answer any more.
func TestChatForgotten(t *testing.T) {
	h := &playedHub{turn: aTurn, cut: []int{6}}
	h.hello = func(visit int, q url.Values) string {
		return `{"type":"connection","payload":{"state":"connected","message":"Hello.","sessionId":"s_1"}}`
	}
	out, _, err := talkTo(t, h.start(t), &chatCmd{}, "hi")
	if err == nil || !strings.Contains(err.Error(), "lost this conversation") || !strings.HasPrefix(out, "Grüße, ") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestChatGivesUp(t *testing.T) {
	h := &playedHub{turn: aTurn, cut: []int{4}}
	hub := h.start(t)
	var stdout, stderr bytes.Buffer
	talk := newTalk(&chatCmd{}, std{in: strings.NewReader(""), out: &stdout, err: &stderr}, hub)
	talk.sock.again = func(context.Context) (*client, error) {
		return nil, failed(exitUnreachable, "", "no hub is running")
	}
	talk.sock.giveUp = 50 * time.Millisecond
	err := talk.once(t.Context(), "hi")
	if err == nil || describe(err).code != exitUnreachable || !strings.Contains(describe(err).hint, "--session s_1") {
		t.Errorf("%v", err)
	}
}

// An interrupted command stops the turn before it leaves.
func TestChatInterrupted(t *testing.T) {
	h := &playedHub{turn: append(slices.Clone(aTurn[:5]), `{"type":"wait"}`, `{"type":"turn.ended","seq":3,"turn":"t1","payload":{"end":{"reason":"aborted"}}}`)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &trigger{on: "ße, ", do: cancel}
	var stderr bytes.Buffer
	talk := newTalk(&chatCmd{}, std{in: strings.NewReader(""), out: out, err: &stderr}, h.start(t))
	talk.sock.again = nil
	if err := talk.once(ctx, "hi"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	said := h.said("abort")
	if len(said) != 1 {
		t.Fatalf("%d aborts", len(said))
	}
	var p abortPayload
	said[0].read(&p)
	if p.Turn != "t1" || !strings.Contains(stderr.String(), "✗ stopped") {
		t.Errorf("sent %s, told %q", said[0].raw, stderr.String())
	}
}

// trigger does something when text has been written.
type trigger struct {
	on string
	do func()
}

func (t *trigger) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(t.on)) {
		t.do()
	}
	return len(b), nil
}

var _ io.Writer = (*trigger)(nil)

// Lines of a script are frames where they are JSON, and else words.
func TestChatScriptFrames(t *testing.T) {
	h := &playedHub{turn: aTurn}
	var stdout, stderr bytes.Buffer
	in := `{"type":"message","payload":{"text":"hi","fileId":"f1"}}` + "\n"
	talk := newTalk(&chatCmd{asJSON: asJSON{JSON: true}, Agent: "crud"}, std{in: strings.NewReader(in), out: &stdout, err: &stderr}, h.start(t))
	if err := talk.frames(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	var sent map[string]string
	if err := json.Unmarshal(h.said("message")[0].Payload, &sent); err != nil {
		t.Fatal(err)
	}
	if sent["text"] != "hi" || sent["fileId"] != "f1" || sent["agent"] != "crud" || sent["key"] == "" {
		t.Errorf("sent %v", sent)
	}
	if n := strings.Count(stdout.String(), "\n"); n != len(aTurn)+1 {
		t.Errorf("%d frames were printed of %d", n, len(aTurn)+1)
	}
}
