package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"slices"
	"strings"
)

// talk is one conversation as this side has it: what was said, what is waited
// for, and how the last turn ended. It belongs to the goroutine that takes the
// frames.
type talk struct {
	cmd   *chatCmd
	std   std
	hub   *client
	sock  *socket
	view  *view // nil: nobody looks
	agent string

	session string // its name, once the hub has said it
	named   bool   // it was chosen by the person
	greeted bool   // the hub has taken the conversation up
	away    bool   // and is gone

	base       context.Context // of the socket
	disconnect func()
	ended      chan error
	err        error // why the socket has ended

	owed   []frame           // sent, and not confirmed
	unsaid []string          // keys of messages that the hub has not confirmed
	inputs map[string]bool   // ids of messages of ours that are not answered
	turns  map[string]string // ids of their inputs, by turn
	turn   string            // the turn that runs
	asked  []*askedApproval

	questions []*askedElicitation // of servers, that wait
	running   []string            // ids of calls of the turn that runs

	human bool // there is a person to ask
	alone bool // turns of others are not shown

	past []saidMessage // before this command
	last outcome
}

// outcome is how the last turn of ours ended.
type outcome struct {
	end  *turnEnd
	call string // status of its last call
	err  error  // it was refused
}

func newTalk(c *chatCmd, s std, hub *client) *talk {
	t := &talk{cmd: c, std: s, hub: hub, agent: c.Agent, named: c.Session != "", inputs: map[string]bool{}, turns: map[string]string{}}
	t.sock = newSocket(hub, c.Session)
	t.sock.giveUp = awayTime
	if !hub.inside() {
		t.sock.again = c.again(s)
	}
	t.view = newView(newPane(s.out, !c.NoColor), newPane(s.err, !c.NoColor), false)
	return t
}

// connected runs do while the socket is kept. What ctx ends, the socket
// outlives: a turn has to be told.
func (t *talk) connected(ctx context.Context, do func(context.Context) error) error {
	t.base = context.WithoutCancel(ctx)
	t.connect()
	defer func() { t.disconnect() }()
	return do(ctx)
}

func (t *talk) connect() {
	alive, cancel := context.WithCancel(t.base)
	sock, ended := t.sock, make(chan error, 1)
	go func() { ended <- sock.run(alive) }()
	t.ended = ended
	t.disconnect = func() {
		cancel()
		for range sock.frames { // it is closed when nothing runs any more
		}
	}
}

// begin leaves the conversation for another one; "" is a new one.
func (t *talk) begin(session string) {
	t.disconnect()
	old := t.sock
	t.sock = newSocket(old.at(), session)
	t.sock.again, t.sock.giveUp, t.sock.can = old.again, old.giveUp, old.can
	t.named = session != ""
	t.questions, t.running = nil, nil
	t.owed, t.unsaid, t.asked, t.past, t.turn, t.greeted, t.last = nil, nil, nil, nil, "", false, outcome{}
	clear(t.inputs)
	clear(t.turns)
	t.connect()
}

// lost is why the socket has ended.
func (t *talk) lost() error {
	if t.err == nil {
		t.err = <-t.ended
	}
	return t.err
}

// say sends a message.
func (t *talk) say(text string) {
	key := rand.Text()
	t.unsaid = append(t.unsaid, key)
	t.last = outcome{}
	t.send(makeFrame("message", messagePayload{Text: text, Agent: t.agent, Key: key}))
}

// send sends a frame, whose answer is awaited by those who want to see it.
func (t *talk) send(f frame) {
	t.owed = append(t.owed, f)
	t.sock.send(f)
}

// busy reports whether something of ours is still to be answered.
func (t *talk) busy() bool { return len(t.unsaid) > 0 || len(t.inputs) > 0 }

// answered waits for the answers, and returns how the last one ended.
func (t *talk) answered(ctx context.Context) error {
	if err := t.wait(ctx); err != nil {
		return err
	}
	return t.result()
}

// wait waits until all is answered. When ctx ends, the turn is stopped, and
// may take a moment to say so.
func (t *talk) wait(ctx context.Context) error {
	stop := &stopper{done: ctx.Done()}
	for t.busy() || !t.greeted {
		select {
		case f, ok := <-t.sock.frames:
			if !ok {
				return t.lost()
			}
			t.take(f)
		case <-stop.done:
			stop.begin(t)
		case <-stop.late:
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// take does what a frame asks for on this side.
func (t *talk) take(f frame) {
	t.owed = slices.DeleteFunc(t.owed, func(w frame) bool { return confirms(f, w) })
	kind, h := f.happened()
	switch kind {
	case "connection":
		t.connection(f)
	case "error":
		t.refused(f)
	case "ack":
		var r reply
		f.read(&r)
		t.accepted(r.Key, r.Input)
	case "input":
		if h.Input != nil {
			t.accepted(h.Input.Key, h.Input.ID)
		}
	case "input.dropped":
		if h.Input != nil && t.inputs[h.Input.ID] {
			delete(t.inputs, h.Input.ID)
			t.last = outcome{end: &turnEnd{Reason: "aborted"}}
		}
	case "turn.started":
		t.turn = f.Turn
		if h.Start != nil && t.inputs[h.Start.Input] {
			t.turns[f.Turn], t.last = h.Start.Input, outcome{}
		}
	case "turn.ended":
		t.over(f.Turn, h.End)
	case "approval.asked":
		if h.Approval != nil {
			t.approval(h.Approval)
		}
	case "approval.decided":
		if h.Approval != nil {
			t.decided(h.Approval)
		}
	case "elicitation.asked":
		if h.Elicitation != nil {
			t.elicited(h.Elicitation)
		}
	case "elicitation.answered":
		if h.Elicitation != nil {
			t.replied(h.Elicitation.ID)
		}
	case "call.started":
		t.running = append(t.running, f.Call)
	case "call.done":
		t.running = slices.DeleteFunc(t.running, func(id string) bool { return id == f.Call })
		t.called(f.Turn, h.Result)
	}
	if _, ours := t.turns[f.Turn]; t.view != nil && (ours || !t.alone || f.Turn == "") {
		t.view.show(kind, f, h)
	}
}

// connection notes what the hub says of the connection.
func (t *talk) connection(f frame) {
	var c connectionState
	f.read(&c)
	if c.Session != "" {
		t.session = c.Session
	}
	if c.History != nil {
		t.past = c.History
	}
	switch c.State {
	case "connected", "reconnected":
		if t.away {
			t.owed = slices.DeleteFunc(t.owed, func(w frame) bool { return !repeatable(w) })
			t.tell("·", dim, "connected again")
		}
		t.greeted, t.away, t.turn = true, false, c.Turn
		if f.forgot {
			t.forgotten()
		}
		for _, a := range c.Approvals {
			t.approval(a)
		}
		for _, e := range c.Elicitations {
			t.elicited(e)
		}
	case "reconnecting":
		if !t.away {
			t.tell("·", dim, "reconnecting…")
		}
		t.away = true
	}
}

// forgotten gives up what a hub cannot answer any more that has lost the
// conversation.
func (t *talk) forgotten() {
	clear(t.inputs)
	clear(t.turns)
	t.asked = nil
	err := failed(exitFailed, "A hub that was started without its data folder, or a session that expired, begins anew.", "the hub has lost this conversation")
	t.last = outcome{err: err}
	if t.human {
		t.tell("✗", red, err.Error())
	}
}

// refused takes that the hub did not do what was asked.
func (t *talk) refused(f frame) {
	var e reply
	f.read(&e)
	if i := slices.Index(t.unsaid, e.Key); i >= 0 && e.Frame == "message" {
		t.unsaid = slices.Delete(t.unsaid, i, i+1)
		t.last = outcome{err: &failure{err: errors.New(e.Message), hint: e.Hint, code: exitCode(e.Kind)}}
		if !t.human {
			return // it is what the command ends with
		}
	}
	t.tell("✗", red, e.Message)
}

// tell shows a line to the person, if there is one.
func (t *talk) tell(mark, colour, text string) {
	if t.view != nil {
		t.view.tell(mark, colour, text)
	}
}

// accepted notes that the hub has taken a message of ours.
func (t *talk) accepted(key, input string) {
	if i := slices.Index(t.unsaid, key); i >= 0 && input != "" {
		t.unsaid = slices.Delete(t.unsaid, i, i+1)
		t.inputs[input] = true
	}
}

// over notes the end of a turn.
func (t *talk) over(turn string, end *turnEnd) {
	if end == nil {
		end = &turnEnd{Reason: "failed"}
	}
	if t.turn == turn {
		t.turn, t.questions, t.running = "", nil, nil
	}
	t.asked = slices.DeleteFunc(t.asked, func(a *askedApproval) bool { return a.Turn == turn })
	input, ours := t.turns[turn]
	if ours {
		delete(t.inputs, input)
		delete(t.turns, turn)
		t.last.end = end
	}
	if t.view != nil && (ours || !t.alone) {
		t.view.ended(end)
	}
}

// approval answers a question, or keeps it for the person.
func (t *talk) approval(a *askedApproval) {
	switch {
	case t.cmd.Yes:
		t.decide(a, approvePayload{Decision: "approve"})
	case t.cmd.No:
		t.decide(a, approvePayload{Decision: "deny"})
	case !t.human:
		t.decide(a, approvePayload{Decision: "deny", Reason: nobodyAsked})
	case !slices.ContainsFunc(t.asked, func(b *askedApproval) bool { return b.ID == a.ID }):
		t.asked = append(t.asked, a)
	}
}

// nobodyAsked is what the model is told of a denial that no person made.
const nobodyAsked = "nobody is there to be asked"

// decide sends a decision.
func (t *talk) decide(a *askedApproval, p approvePayload) {
	p.ID = a.ID
	t.send(makeFrame("approve", p))
}

// decided takes a question back that has been answered, here or elsewhere.
func (t *talk) decided(a *askedApproval) {
	t.asked = slices.DeleteFunc(t.asked, func(b *askedApproval) bool { return b.ID == a.ID })
}

// called notes how the last call of ours went.
func (t *talk) called(turn string, r *callResult) {
	if _, ours := t.turns[turn]; !ours || r == nil {
		return
	}
	t.last.call = r.Status
	if t.last.call == "" && r.IsError {
		t.last.call = "failed"
	}
}

// result is how the last turn ended, as an exit code.
func (t *talk) result() error {
	end := t.last.end
	switch {
	case t.last.err != nil:
		return t.last.err
	case end == nil:
		return nil
	case end.Reason == "aborted":
		return &failure{err: errSilent, code: exitInterrupted}
	case end.Reason != "done":
		return &failure{err: errSilent, code: exitFailed}
	}
	switch t.last.call {
	case "failed", "refused", "interrupted", "cancelled":
		return &failure{err: errSilent, code: exitToolSaidNo}
	case "denied":
		return &failure{err: errSilent, code: exitDenied}
	}
	return nil
}

// readLines reads lines until the end, or until nobody takes them any more:
// then the process is about to end.
func readLines(r io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		in := bufio.NewReader(r)
		for {
			line, err := in.ReadString('\n')
			if line != "" {
				lines <- strings.TrimRight(line, "\r\n")
			}
			if err != nil {
				return
			}
		}
	}()
	return lines
}
