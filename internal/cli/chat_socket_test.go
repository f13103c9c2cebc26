package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

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

// A hub that sends more than it should is not shown twice either.
func TestChatPlace(t *testing.T) {
	p := place{known: true}
	var got string
	for _, round := range [][]string{aTurn, aTurn, aTurn[4:8]} {
		for _, text := range round {
			f, err := parseFrame([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if f, fresh := p.take(f); fresh && f.Seq != 0 {
				var said saidText
				f.read(&said)
				got += fmt.Sprintf("%d%s ", f.Seq, said.Content)
			}
		}
	}
	if want := "1 2 3Grü 3ße,  3 4wait. 5 6 7 8 9 10It is x. 11 12 "; got != want || p.seq != 12 {
		t.Errorf("%q at %d, want %q", got, p.seq, want)
	}
}
