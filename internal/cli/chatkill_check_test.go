package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/coder/websocket"
)

// tally is what came of all conversations.
type tally struct {
	mu                                            sync.Mutex
	conversations, turns, interrupted, lost, dont int
	cut                                           [queueing + 1]int
}

func (a *tally) String() string {
	return fmt.Sprintf("%d conversations, %d turns, of which %d were cut off: %d %s, %d %s, %d %s, %d %s; %d calls of unknown outcome; %d times live words were gone", a.conversations, a.turns, a.interrupted,
		a.cut[streaming], streaming, a.cut[calling], calling, a.cut[asking], asking, a.cut[queueing], queueing, a.dont, a.lost)
}

// whole reads the conversation from its beginning.
func (k *talker) whole() (frames []frame, err error) {
	again := newTalker(k.m, k.session, k.rnd)
	for again.seq < k.seq {
		if frames, err = k.replay(again); err == nil {
			continue
		}
		if note := noted(k.m.data); note != nil && note.Pid == again.life {
			return nil, err
		}
		again = newTalker(k.m, k.session, k.rnd) // it was killed meanwhile
	}
	for seq, was := range k.seen {
		if is := again.seen[seq]; is != was {
			return nil, fmt.Errorf("event %d was\n%s\nand is\n%s", seq, was, is)
		}
	}
	return frames, nil
}

func (k *talker) replay(again *talker) (frames []frame, err error) {
	note := noted(k.m.data)
	if note == nil {
		return nil, errUndone
	}
	again.life = note.Pid
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws://"+note.Address+"/ws?after_seq=0&sessionId="+k.session, nil)
	if err != nil {
		return nil, err
	}
	defer conn.CloseNow()
	conn.SetReadLimit(8 << 20)
	for again.seq < k.seq {
		_, b, err := conn.Read(ctx)
		if err != nil {
			return nil, err
		}
		f, err := parseFrame(b)
		if err == nil {
			err = again.keep(&f, again.life, payloadOf(f.Payload).Content)
		}
		if err != nil {
			return nil, err
		}
		if f.Seq > 0 {
			frames = append(frames, f)
		}
	}
	return frames, nil
}

// said is what is looked at of a frame.
type said struct {
	Content, State, Status string
	IsError                bool
	Input                  struct{ ID, Text, Key string }
	Start                  struct{ Input string }
	Call                   struct {
		ID   string
		Args struct{ Name string }
	}
	End      struct{ Reason string }
	Decision struct{ Reason string }
	Data     json.RawMessage
}

func payloadOf(b json.RawMessage) (p said) {
	if len(b) > 0 {
		_ = json.Unmarshal(b, &p) // what is missing is noticed
	}
	return p
}

// course is one conversation by its log.
type course struct {
	inputs  map[string]int // by key
	waiting map[string]bool
	turn    string
	last    string // type of the last event of the turn
	asked   bool
	calls   map[string]*callCourse
	open    []string // calls of the turn
}

type callCourse struct {
	name          string
	started, done int
	status        string
	result        string
}

// check reads what the hub has of the conversation, and holds it to what was
// acknowledged, what was seen, and what the server was sent.
func (k *talker) check(a *tally) error {
	frames, err := k.whole()
	if err != nil {
		return err
	}
	c := &course{inputs: map[string]int{}, waiting: map[string]bool{}, calls: map[string]*callCourse{}}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range frames {
		if err := c.take(&frames[i], a); err != nil {
			return fmt.Errorf("%w\nat %s", err, frames[i].raw)
		}
	}
	if c.turn != "" || len(c.waiting) > 0 {
		return fmt.Errorf("turn %q goes on, and %v wait", c.turn, c.waiting)
	}
	for _, key := range k.order {
		if c.inputs[key] != 1 {
			return fmt.Errorf("%s (acknowledged: %v) was taken %d times", key, k.acked[key], c.inputs[key])
		}
	}
	reached := k.m.reached()
	for id, call := range c.calls {
		if err := call.check(reached[call.name]); err != nil {
			return fmt.Errorf("call %s of %s, sent %d times: %w: %+v", id, call.name, reached[call.name], err, *call)
		}
		if call.status == "interrupted" && call.started > 0 {
			a.dont++
		}
	}
	a.conversations++
	a.lost += k.lost
	return nil
}

func (c *course) take(f *frame, a *tally) error {
	p := payloadOf(f.Payload)
	switch f.Type {
	case "input":
		c.inputs[p.Input.Key]++
		c.waiting[p.Input.ID] = true
		return nil // it may come in any turn
	case "turn.started":
		if c.turn != "" || !c.waiting[p.Start.Input] {
			return fmt.Errorf("a turn for %q begins within turn %q", p.Start.Input, c.turn)
		}
		delete(c.waiting, p.Start.Input)
		c.turn, c.asked, c.open = f.Turn, false, nil
	case "call":
		c.calls[p.Call.ID] = &callCourse{name: p.Call.Args.Name}
		c.open = append(c.open, p.Call.ID)
	case "approval.asked":
		c.asked = true
	case "approval.decided":
		if p.Decision.Reason == "nobody" {
			return fmt.Errorf("it was denied, although somebody is there")
		}
		if c.asked = false; p.Decision.Reason == "aborted" {
			a.cut[asking]++
		}
	case "status":
		call := c.calls[f.Call]
		switch {
		case call == nil:
			return fmt.Errorf("there is no such call")
		case p.State == "processing":
			call.started++
		default:
			call.done++
			call.status, call.result = p.Status, string(p.Data)
			if p.Status == "interrupted" && call.started > 0 {
				a.cut[calling]++
			}
		}
	case "retry":
		return fmt.Errorf("a model failed")
	case "turn.ended":
		return c.end(f, p, a)
	}
	if f.Turn != c.turn {
		return fmt.Errorf("turn %q runs", c.turn)
	}
	if f.Type != "note" && (f.Type != "text" || f.Last) { // the hub's own words are no part
		c.last = f.Type
	}
	return nil
}

func (c *course) end(f *frame, p said, a *tally) error {
	if f.Turn != c.turn {
		return fmt.Errorf("turn %q runs", c.turn)
	}
	for _, id := range c.open {
		if c.calls[id].done != 1 {
			return fmt.Errorf("call %s has %d results", id, c.calls[id].done)
		}
	}
	c.turn = ""
	a.turns++
	switch p.End.Reason {
	case "done":
		return nil
	case "interrupted":
	default:
		return fmt.Errorf("it ended as %s", p.End.Reason)
	}
	a.interrupted++
	if c.last == "text" || c.last == "context" {
		a.cut[streaming]++
	}
	if len(c.waiting) > 0 {
		a.cut[queueing]++
	}
	return nil
}

// check holds the record of a call to how often its server got it.
func (c *callCourse) check(sent int) error {
	unknown := strings.Contains(c.result, "not known")
	switch {
	case c.done != 1 || c.started > 1 || sent > 1:
		return fmt.Errorf("it was not called and answered once")
	case c.started == 0 && (sent > 0 || unknown):
		return fmt.Errorf("the record says that it was not called")
	case c.started == 0 && c.status != "denied" && c.status != "interrupted":
		return fmt.Errorf("it was not called, and is said to be %s", c.status)
	case c.started == 1 && c.status == "ok":
		if sent != 1 || !strings.Contains(c.result, "computed") {
			return fmt.Errorf("it is said to be done")
		}
	case c.started == 1 && (c.status != "interrupted" || !unknown):
		return fmt.Errorf("it was called, and its end is no truth")
	}
	return nil
}
