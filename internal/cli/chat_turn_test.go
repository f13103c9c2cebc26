package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

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

// anApproval is a turn that asks, and goes on when it has heard something.
var anApproval = []string{aTurn[1], aTurn[2],
	`{"type":"approval.asked","seq":3,"turn":"t1","payload":{"approval":{"id":"a1","turn":"t1","tool":"fs__write","kind":"tool","args":{"path":"a"}}}}`,
	`{"type":"wait"}`,
	`{"type":"ack","payload":{"frame":"approve","id":"a1"}}`,
	`{"type":"approval.decided","seq":4,"turn":"t1","payload":{"approval":{"id":"a1"},"decision":{"approve":true}}}`,
	`{"type":"turn.ended","seq":5,"turn":"t1","payload":{"end":{"reason":"done"}}}`}

func TestChatApprovals(t *testing.T) {
	for _, tc := range []struct {
		name string
		cmd  chatCmd
		want string
	}{{"yes", chatCmd{Yes: true}, "approve"}, {"no", chatCmd{No: true}, "deny"}, {"nobody to ask", chatCmd{}, "deny"}} {
		t.Run(tc.name, func(t *testing.T) {
			h := &playedHub{turn: anApproval}
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

// A script decides by frames; what it leaves undecided is denied when it ends.
func TestChatScriptDecides(t *testing.T) {
	for _, tc := range []struct{ name, says, want string }{
		{"by a frame", `{"type":"approve","payload":{"id":"a1","decision":"edit","args":{"path":"b"}}}` + "\n", `{"id":"a1","decision":"edit","args":{"path":"b"}}`},
		{"by leaving", "", `{"id":"a1","decision":"deny","reason":"nobody is there to be asked"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := &playedHub{turn: anApproval}
			in, script := io.Pipe()
			out := &trigger{on: `"approval.asked"`, do: func() {
				go func() {
					_, _ = io.WriteString(script, tc.says)
					script.Close()
				}()
			}}
			talk := newTalk(&chatCmd{asJSON: asJSON{JSON: true}}, std{in: io.MultiReader(strings.NewReader("hi\n"), in), out: out, err: io.Discard}, h.start(t))
			if err := talk.frames(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			said := h.said("approve")
			if len(said) != 1 || string(said[0].Payload) != tc.want {
				t.Errorf("sent %d decisions: %s", len(said), said[0].Payload)
			}
		})
	}
}
