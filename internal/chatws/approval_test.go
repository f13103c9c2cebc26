package chatws

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/policy"
)

func TestApprovals(t *testing.T) {
	b := open(t, Options{})
	c := b.dial("sessionId=s", owner)
	c.find("connection")
	ask := func(decision string) said {
		t.Helper()
		c.message("Write it")
		b.calls("write_file", `{"path":"a"}`)
		b.stops()
		asked := c.find("approval.asked")
		var p struct{ Approval policy.Approval }
		if err := json.Unmarshal(asked.Payload, &p); err != nil || p.Approval.Tool != "write_file" || string(p.Approval.Args) != `{"path":"a"}` || p.Approval.Expires.IsZero() {
			t.Fatalf("%v: %s", err, asked.raw)
		}
		// Who comes now is told what waits.
		d := b.dial("sessionId=s", owner)
		if f := d.find("connection"); !strings.Contains(f.get("approvals"), p.Approval.ID) {
			t.Error(f.raw)
		}
		d.ws.CloseNow()
		c.send(fmt.Sprintf(decision, p.Approval.ID))
		var status said
		for status = c.find("status"); status.get("state") != "complete"; status = c.find("status") {
		}
		b.says("ok")
		b.stops()
		c.find("turn.ended")
		return status
	}
	if f := ask(`{"type":"approve","payload":{"id":"%s","decision":"approve"}}`); f.get("data") != `{"text":"written: {\"path\":\"a\"}"}` {
		t.Error(f.raw)
	}
	if f := ask(`{"type":"approve","payload":{"id":"%s","decision":"edit","args":{"path":"b"}}}`); !strings.Contains(f.get("data"), `written: {\"path\":\"b\"}`) {
		t.Error(f.raw)
	}
	if f := ask(`{"type":"approve","payload":{"id":"%s","decision":"deny","reason":"not today"}}`); f.get("status") != chat.Denied || !strings.Contains(f.raw, "not today") {
		t.Error(f.raw)
	}
}

// A call that somebody else makes in the Session is asked about here too, since
// this is where somebody attends.
func TestApprovalOfOthers(t *testing.T) {
	b := open(t, Options{})
	c := b.dial("sessionId=s", owner)
	c.find("connection")
	decided := make(chan policy.Decision, 1)
	go func() {
		d, _ := b.desk.Ask(t.Context(), policy.Approval{Session: "s", Principal: auth.LocalName, Tool: "fs__write", Args: json.RawMessage(`{}`)}, nil)
		decided <- d
	}()
	f := c.find("approval.asked")
	var p struct{ Approval policy.Approval }
	if err := json.Unmarshal(f.Payload, &p); err != nil || p.Approval.Tool != "fs__write" || f.Seq != 0 {
		t.Fatalf("%v: %s", err, f.raw)
	}
	c.send(fmt.Sprintf(`{"type":"approve","payload":{"id":"%s","decision":"approve"}}`, p.Approval.ID))
	if f := c.find("approval.decided"); !strings.Contains(f.raw, p.Approval.ID) {
		t.Error(f.raw)
	}
	if d := <-decided; !d.Approve {
		t.Errorf("%+v", d)
	}
}

// Who came without the right to approve is shown what waits, is not taken for
// somebody who could be asked, and cannot answer.
func TestApprovalNeedsTheRight(t *testing.T) {
	b := open(t, Options{})
	c := b.dial("sessionId=s", "")
	c.find("connection")
	c.message("Write it")
	b.calls("write_file", `{"path":"a"}`)
	b.stops()
	var done said
	for done = c.find("status"); done.get("state") != "complete"; done = c.find("status") {
	}
	if done.get("status") != chat.Denied || !strings.Contains(done.raw, "nobody is there") {
		t.Error(done.raw)
	}
	b.says("ok")
	b.stops()
	c.find("turn.ended")

	may := b.dial("sessionId=s", owner)
	may.find("connection")
	c.message("Write it")
	b.calls("write_file", `{"path":"a"}`)
	b.stops()
	var p struct{ Approval policy.Approval }
	if f := c.find("approval.asked"); json.Unmarshal(f.Payload, &p) != nil || p.Approval.ID == "" {
		t.Fatal(f.raw)
	}
	yes := fmt.Sprintf(`{"type":"approve","payload":{"id":"%s","decision":"approve"}}`, p.Approval.ID)
	c.send(yes)
	if f := c.find("error"); f.get("kind") != fault.Denied.String() || f.get("id") != p.Approval.ID {
		t.Error(f.raw)
	}
	may.send(yes)
	if f := c.find("approval.decided"); !strings.Contains(f.raw, `"approve":true`) {
		t.Error(f.raw)
	}
	b.says("ok")
	b.stops()
	c.find("turn.ended")
}

func TestAbortFrame(t *testing.T) {
	b := open(t, Options{})
	c := b.dial("", "")
	c.find("connection")
	c.message("Long story")
	b.says("Once upon")
	c.find("text")
	c.send(`{"type":"abort"}`)
	f := c.find("turn.ended")
	if !strings.Contains(f.raw, `"reason":"aborted"`) {
		t.Error(f.raw)
	}
}

// One call is stopped by a frame, or without a socket; the turn goes on.
func TestAbortOfOneCall(t *testing.T) {
	b := open(t, Options{})
	c := b.dial("sessionId=s", owner)
	c.find("connection")
	for _, stop := range []func(call string){
		func(call string) { c.send(`{"type":"abort","payload":{"call":"` + call + `"}}`) },
		func(call string) {
			if got := body(t, b.post("/api/chat/abort", `{"sessionId":"s","call":"`+call+`"}`)); !strings.Contains(got, `"aborted":true`) {
				t.Error(got)
			}
		},
	} {
		c.message("Write it")
		b.calls("write_file", `{"path":"a"}`)
		b.stops()
		stop(c.find("approval.asked").Call)
		if f := c.find("approval.decided"); !strings.Contains(f.raw, policy.ReasonAborted) {
			t.Error(f.raw)
		}
		var done said
		for done = c.find("status"); done.get("state") != "complete"; done = c.find("status") {
		}
		if done.get("status") != chat.Cancelled || !strings.Contains(done.raw, "the user stopped this call") {
			t.Error(done.raw)
		}
		b.says("Without it, then.")
		b.stops()
		if f := c.find("turn.ended"); !strings.Contains(f.raw, `"reason":"done"`) {
			t.Error(f.raw)
		}
	}
	c.send(`{"type":"abort","payload":{"call":"c1"}}`)
	if f := c.find("ack"); f.get("aborted") != "false" {
		t.Error(f.raw)
	}
}
