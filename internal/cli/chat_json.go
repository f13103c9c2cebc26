package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
)

// frames speaks to a script: what the hub sends is printed, one frame a line,
// and what stdin says is sent. With a text it is one turn, and stdin is left
// alone.
func (t *talk) frames(ctx context.Context, text string) error {
	t.view = nil
	if text == "" {
		t.sock.can = canElicit // the script answers
	}
	return t.connected(ctx, func(ctx context.Context) error {
		if text != "" {
			t.say(text)
			return t.pass(ctx, nil)
		}
		t.human = !t.cmd.Yes && !t.cmd.No // the script decides
		return t.pass(ctx, readLines(t.std.in))
	})
}

// pass carries frames both ways until there is no more to say and all of it
// has been answered. input is nil if there is nothing more to say.
func (t *talk) pass(ctx context.Context, input <-chan string) error {
	stop := &stopper{done: ctx.Done()}
	for input != nil || t.busy() || len(t.owed) > 0 {
		select {
		case line, ok := <-input:
			if !ok {
				input = nil
				t.abandon()
			} else if f, ok := t.spoken(line); ok {
				t.send(f)
			}
		case f, ok := <-t.sock.frames:
			if !ok {
				return t.lost()
			}
			if _, err := t.std.out.Write(append(f.raw, '\n')); err != nil {
				return err
			}
			t.take(f)
		case <-stop.done:
			input = nil
			stop.begin(t)
		case <-stop.late:
			return ctx.Err()
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return t.result()
}

// spoken makes a frame of a line: one that is a JSON object is a frame, and any
// other is a message.
func (t *talk) spoken(line string) (frame, bool) {
	if strings.TrimSpace(line) == "" {
		return frame{}, false
	}
	if !strings.HasPrefix(strings.TrimSpace(line), "{") {
		key := rand.Text()
		t.unsaid = append(t.unsaid, key)
		return makeFrame("message", messagePayload{Text: line, Agent: t.agent, Key: key}), true
	}
	f := frame{raw: []byte(line)}
	_ = json.Unmarshal(f.raw, &f) // the hub says what is wrong with it
	f.raw = []byte(line)
	switch f.Type {
	case "message":
		f = t.keyed(f)
	case "approve":
		var p approvePayload
		f.read(&p)
		t.decided(&askedApproval{ID: p.ID}) // as far as we are concerned
	case "reply":
		var p replyPayload
		f.read(&p)
		t.replied(p.ID)
	}
	return f, true
}

// keyed gives a message a key by which its answer is known, unless it has one.
func (t *talk) keyed(f frame) frame {
	var payload map[string]json.RawMessage
	if json.Unmarshal(f.Payload, &payload) != nil || payload == nil {
		return f
	}
	var key string
	if json.Unmarshal(payload["key"], &key) != nil || key == "" {
		key = rand.Text()
		payload["key"], _ = json.Marshal(key)
	}
	if _, ok := payload["agent"]; !ok && t.agent != "" {
		payload["agent"], _ = json.Marshal(t.agent)
	}
	t.unsaid = append(t.unsaid, key)
	return makeFrame("message", payload)
}

// abandon denies what waits for a decision that will not come.
func (t *talk) abandon() {
	t.human = false
	for _, a := range t.asked {
		t.decide(a, approvePayload{Decision: "deny", Reason: nobodyAsked})
	}
	t.asked = nil
	for len(t.questions) > 0 {
		t.reply(t.questions[0].ID, "decline", nil)
	}
}
