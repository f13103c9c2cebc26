package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/llm/llmtest"
)

// talker holds one conversation through all lives of a hub, and keeps what it
// was told.
type talker struct {
	m       *mortal
	session string
	rnd     *rand.Rand

	words map[string]string // by key: every message that was sent
	order []string          // their keys
	acked map[string]bool
	done  int // turns that have ended
	most  int // messages

	seen map[uint64]string // durable events as they came, by number
	seq  uint64            // the last
	part strings.Builder   // what came live of the event after it
	life int               // of the hub that said that
	lost int               // live pieces that a kill has undone

	notice bool // the part is of the hub's own words
}

func newTalker(m *mortal, session string, rnd *rand.Rand) *talker {
	return &talker{m: m, session: session, rnd: rnd, words: map[string]string{}, acked: map[string]bool{}, most: 6 + rnd.IntN(8), seen: map[uint64]string{}}
}

var errUndone = errors.New("the hub went away")

// run talks until it has said all it wants to, or is to stop, and everything
// is answered.
func (k *talker) run(stop <-chan struct{}) error {
	defer k.m.phases.Delete(k.session)
	deadline := time.Now().Add(3 * patience)
	for {
		err := k.visit(stop)
		if !errors.Is(err, errUndone) {
			return err
		}
		k.at(otherwise)
		if time.Now().After(deadline) {
			return fmt.Errorf("no end is reached: %d of %d turns have ended, the last event is %d: %w", k.done, len(k.order), k.seq, err)
		}
		<-time.After(5 * time.Millisecond) // the next hub needs longer
	}
}

// visit talks by one socket.
func (k *talker) visit(stop <-chan struct{}) error {
	note := noted(k.m.data)
	if note == nil {
		return errUndone
	}
	life := note.Pid
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws://"+note.Address+"/ws?sessionId="+k.session+fmt.Sprintf("&after_seq=%d&offset=%d", k.seq, k.part.Len()), k.m.asOwner())
	if err != nil {
		return fmt.Errorf("%w: %w", errUndone, err)
	}
	defer conn.CloseNow()
	conn.SetReadLimit(8 << 20)
	say := func(v any) { // who cannot be reached is noticed by reading
		b, _ := json.Marshal(v)
		_ = conn.Write(ctx, websocket.MessageText, b)
	}
	for first := true; ; first = false {
		_, b, err := conn.Read(ctx)
		if err != nil {
			return fmt.Errorf("%w: %w", errUndone, err)
		}
		f, err := parseFrame(b)
		if err != nil {
			return err
		}
		if first && (f.Type != "connection" || k.seq > 0 && !strings.Contains(string(f.raw), `"reconnected"`)) {
			return fmt.Errorf("with event %d seen it is greeted by %s", k.seq, f.raw)
		}
		if first {
			for _, key := range k.order {
				if !k.acked[key] {
					say(k.message(key))
				}
			}
		}
		if err := k.take(&f, life, say); err != nil {
			return err
		}
		if k.done == len(k.order) && !k.more(ended(stop), say) {
			return nil
		}
	}
}

// more says more, if there is any more to say: a few things at once, so that
// some wait. At the end every provider is asked once.
func (k *talker) more(stop bool, say func(any)) bool {
	agents := llmtest.APIs()
	switch {
	case len(k.order) >= k.most+len(agents):
		return false
	case stop:
		k.most = min(k.most, len(k.order))
	}
	for n := 1 + k.rnd.IntN(4); n > 0 && len(k.order) < k.most+len(agents); n-- {
		agent := agents[k.rnd.IntN(len(agents))].Name
		if last := len(k.order) - k.most; last >= 0 {
			agent = agents[last].Name
		}
		name := fmt.Sprintf("n%d", k.m.ids.Add(1))
		calls := []string{"", "r", "w", "rr", "rw", "wr"}[k.rnd.IntN(6)]
		key := name + " by-" + agent
		k.words[key] = task(name, calls)
		k.order = append(k.order, key)
		say(k.message(key))
	}
	return true
}

func (k *talker) message(key string) any {
	_, agent, _ := strings.Cut(key, " ")
	return map[string]any{"type": "message", "payload": map[string]any{"text": k.words[key], "agent": agent, "key": key}}
}

// take takes a frame in, and answers it if it is a question.
func (k *talker) take(f *frame, life int, say func(any)) error {
	var p struct {
		Frame, Key, Kind, State string
		Content                 string
		Approval                struct{ ID string }
	}
	if len(f.Payload) > 0 {
		if err := json.Unmarshal(f.Payload, &p); err != nil {
			return fmt.Errorf("%s: %w", f.raw, err)
		}
	}
	switch {
	case f.Type == "ack" && p.Frame == "message":
		k.acked[p.Key] = true
	case f.Type == "error" && p.Kind == "limit": // it is taken in a moment
		time.AfterFunc(300*time.Millisecond, func() { say(k.message(p.Key)) })
	case f.Type == "error" && p.Frame == "approve": // decided by the abort of its turn
	case f.Type == "error":
		return fmt.Errorf("the hub says %s", f.raw)
	case f.Type == "approval.asked" && p.Approval.ID != "":
		decision := []string{"approve", "approve", "deny"}[k.rnd.IntN(3)]
		time.AfterFunc(time.Duration(k.rnd.IntN(60))*time.Millisecond, func() {
			say(map[string]any{"type": "approve", "payload": map[string]any{"id": p.Approval.ID, "decision": decision}})
		})
	}
	if err := k.keep(f, life, p.Content); err != nil {
		return err
	}
	switch f.Type {
	case "turn.ended":
		k.done++
		k.at(otherwise)
	case "text":
		k.at(streaming)
	case "status":
		if p.State == "processing" {
			k.at(calling)
		}
	case "approval.asked":
		k.at(asking)
	}
	return nil
}

// at tells the killer where the conversation is.
func (k *talker) at(now moment) {
	k.m.phases.Store(k.session, map[moment]bool{now: true, queueing: now != otherwise && len(k.acked)-k.done > 1})
}

// keep holds a frame to what was seen before: every event comes once, whole,
// in order. A piece that was seen live may be gone if its hub was killed; then
// the event of its number is another one, or the same with more.
func (k *talker) keep(f *frame, life int, content string) error {
	if f.Seq == 0 {
		return nil
	}
	if f.Seq != k.seq+1 {
		return fmt.Errorf("after event %d comes %s", k.seq, f.raw)
	}
	if f.Type == "text" {
		if f.Offset != k.part.Len() {
			return fmt.Errorf("%d bytes of event %d were seen by life %d, and life %d says %s", k.part.Len(), f.Seq, k.life, life, f.raw)
		}
		k.part.WriteString(content)
		k.life, k.notice = life, strings.Contains(string(f.raw), `"notice":true`)
		if !f.Last {
			return nil
		}
		k.seen[f.Seq] = f.Type + " " + k.part.String()
	} else {
		if k.part.Len() > 0 && !(k.notice && f.Type == "turn.ended") {
			if k.life == life || f.Type == "turn.ended" {
				return fmt.Errorf("live words %q became %s", &k.part, f.raw)
			}
			k.lost++
		}
		k.seen[f.Seq] = string(f.raw)
	}
	k.seq = f.Seq
	k.part.Reset()
	return nil
}

// asOwner dials with the owner's token: who comes without may talk, and not
// approve.
func (m *mortal) asOwner() *websocket.DialOptions {
	token, _ := hub.LocalToken(m.data) // without one nothing is approved, which the test tells
	return &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}}
}
