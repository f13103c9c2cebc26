package chatws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/pace"
	"github.com/stoahub/stoa/internal/policy"
)

// What a socket may send besides messages that are taken, wrong frames
// included, before it is closed.
const (
	otherRate  = 10
	otherBurst = 100
)

// socket is one client at a conversation.
type socket struct {
	h    *Host
	l    *link
	who  *auth.Principal
	conv *chat.Conversation

	trace obs.Parent   // what the client said that it is part of
	log   *slog.Logger // says which socket it is

	messages, others *pace.Bucket
	tells            restater
	shown            map[string]policy.Approval // that the client was told of
	degraded         string                     // the upstreams that the client was told of
	beat             *time.Timer                // makes the tail look whether the client lives
	pings            sync.WaitGroup

	mu    sync.Mutex
	pos   chat.Position
	moved bool               // pos was set by the client
	look  bool               // around, since something has changed
	due   bool               // the client is to be pinged
	wake  context.CancelFunc // ends what the tail waits for
	code  websocket.StatusCode
	why   string
}

// start reads from where the client wants to go on, and greets it.
func (s *socket) start(q url.Values) error {
	st, err := s.conv.State()
	if err != nil {
		return err
	}
	hello := connection{State: stateConnected, Message: s.h.texts().Welcome, Session: s.conv.Name()}
	after, given, err := whence(q)
	switch {
	case err != nil:
		return err
	case st.Seq == 0:
	case given && after.Seq <= st.Seq:
		s.pos = chat.Position{Seq: after.Seq, Offset: after.Offset}
		hello.State, hello.Message = stateReconnected, "The conversation goes on."
	default:
		s.pos = chat.Position{Seq: st.Seq}
		hello.State, hello.Message = stateReconnected, "The conversation goes on."
		hello.History, hello.Truncated = bounded(history(&st))
	}
	hello.Seq = s.pos.Seq
	if st.Turn != nil {
		hello.Turn = st.Turn.ID
	}
	hello.Elicitations = s.conv.Elicitations()
	s.shown = map[string]policy.Approval{}
	for _, a := range s.h.desk.Pending(s.who.Name) {
		if a.Session != s.conv.Name() {
			continue
		}
		hello.Approvals = append(hello.Approvals, a)
		s.shown[a.ID] = a
	}
	if err := s.l.send(encode(outgoing{Type: "connection", Payload: hello})); err != nil || given {
		return err // who knows places knows approvals
	}
	for i := range hello.Approvals {
		if err := s.l.send(s.tells.waiting(&hello.Approvals[i])); err != nil {
			return err
		}
	}
	return nil
}

// whence reads a place from a query.
func whence(q url.Values) (at place, given bool, err error) {
	text := q.Get("after_seq")
	if text == "" {
		return at, false, nil
	}
	if at.Seq, err = strconv.ParseUint(text, 10, 53); err != nil {
		return at, false, shape("/after_seq", "%q is no number of an event", clip(text))
	}
	if text = q.Get("offset"); text != "" {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return at, false, shape("/offset", "%q is no number of bytes", clip(text))
		}
		at.Offset = int(n)
	}
	return at, true, nil
}

// serve runs until the client goes, or is sent away.
func (s *socket) serve() {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	tailed := make(chan struct{})
	wg.Go(func() {
		defer close(tailed)
		defer caught(s.h.opts.Logger, s.l)
		s.tail(ctx)
	})
	left := make(chan struct{})
	stay := context.AfterFunc(s.h.gate.ctx, func() {
		defer close(left)
		cancel()
		s.l.hurry()
		<-tailed // so that this is the last frame
		s.say(connection{State: stateReconnecting, Message: s.h.texts().Maintenance, Session: s.conv.Name()})
		s.end(websocket.StatusGoingAway, "the hub is stopping")
	})
	s.read(ctx)
	cancel()
	if !stay() {
		<-left
	}
	wg.Wait()
	s.pings.Wait()
	s.mu.Lock()
	code, why := s.code, s.why
	s.mu.Unlock()
	if code == 0 {
		code = websocket.StatusNormalClosure
	}
	s.l.close(code, why)
}

func (s *socket) say(c connection) { _ = s.l.send(encode(outgoing{Type: "connection", Payload: c})) } // who has gone misses nothing

// end makes the socket be closed, for the first reason that is given.
func (s *socket) end(code websocket.StatusCode, why string) {
	s.mu.Lock()
	if s.code == 0 {
		s.code, s.why = code, why
	}
	s.mu.Unlock()
	s.l.finish()
}

// tail sends what happens in the conversation, and around it. It takes from it
// only what the client has room for.
func (s *socket) tail(ctx context.Context) {
	defer s.watch()()
	for {
		s.mu.Lock()
		pos, look, due := s.pos, s.look, s.due
		s.moved, s.look, s.due = false, false, false
		wait, cancel := context.WithCancel(ctx)
		s.wake = cancel
		s.mu.Unlock()
		if look && !s.around(ctx, due) {
			cancel()
			return
		}
		pieces, next, err := s.tells.pull(wait, s.conv, pos)
		woken := wait.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		moved := s.moved
		if !moved && err == nil {
			s.pos = next
		}
		s.mu.Unlock()
		switch {
		case moved:
			continue // somewhere else
		case err != nil && woken:
			continue
		case err != nil:
			s.broken(err)
			return
		}
		for _, p := range pieces {
			if s.l.send(p.frame) != nil {
				return // which ends reading too
			}
		}
	}
}

// broken ends the socket of a conversation that cannot be read any more.
func (s *socket) broken(err error) {
	f := s.h.explain(err)
	code := websocket.StatusInternalError
	state := stateError
	switch f.Kind {
	case fault.Unreachable: // the hub stops
		code, state = websocket.StatusGoingAway, stateReconnecting
	case fault.UnknownSession:
		code = websocket.StatusPolicyViolation
	}
	s.say(connection{State: state, Message: f.Text(), Session: s.conv.Name(), Kind: f.Kind.String(), Hint: f.Advice()})
	s.end(code, f.Kind.String())
}

// move makes the tail go on somewhere else.
func (s *socket) move(to place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pos, s.moved = chat.Position{Seq: to.Seq, Offset: to.Offset}, true
	if s.wake != nil {
		s.wake()
	}
}

// read takes what the client sends until it goes.
func (s *socket) read(ctx context.Context) {
	for {
		b, err := s.l.next()
		if !s.take(ctx, b, err) {
			return
		}
	}
}

// take takes a frame, and reports whether another is wanted. It is apart from
// read, whose stack each client has for as long as it says nothing.
func (s *socket) take(ctx context.Context, b []byte, err error) bool {
	var q request
	var f *fault.Error
	switch {
	case err == nil:
		q, f = parse(b, s.h.opts.MessageBytes)
	case err == errLong:
		f = fault.New(fault.TooLarge, "", "the frame is longer than %d bytes", s.h.opts.MessageBytes)
		f.Hint = "Send less, or upload a file and name it by fileId."
	case err == errBinary:
		f = fault.New(fault.InvalidRequest, "", "the frame is binary; frames are text, each a JSON object")
		f.Hint = "Send a text frame such as " + example + "."
	case errors.Is(err, io.ErrShortBuffer):
		s.end(websocket.StatusMessageTooBig, "a frame is much longer than the limit")
		return false
	default:
		return false
	}
	if (f != nil || q.Type != askMessage) && !s.others.Take(time.Now()) {
		f = fault.New(fault.Limit, "", "too many frames that are no messages, or are wrong")
		_ = s.l.send(errorFrame(q, f)) // it is closed anyway
		s.end(websocket.StatusPolicyViolation, "too many frames")
		return false
	}
	if f == nil {
		f = s.do(ctx, q)
	}
	if f == nil {
		return true
	}
	s.log.Debug("frame refused", obs.KeyAction, clip(q.Type), obs.KeyKind, f.Kind.String(), obs.KeyErr, f)
	return s.l.send(errorFrame(q, f)) == nil
}

// do does what a frame asks for, and confirms it.
func (s *socket) do(ctx context.Context, q request) *fault.Error {
	ack := map[string]any{"frame": q.Type}
	var err error
	switch q.Type {
	case askPing:
		_ = s.l.send(encode(outgoing{Type: "pong"})) // reading fails if this does
		return nil
	case askMessage:
		return s.message(ctx, q)
	case askAbort:
		ack["aborted"], err = abort(s.conv, q)
	case askReply:
		err = s.conv.Reply(q.ID, chat.Reply{Action: q.Action, Content: q.Content})
		ack["id"] = q.ID
	case askApprove:
		err = s.h.decide(s.who, q)
		ack["id"] = q.ID
	case askResume:
		var st chat.State
		if st, err = s.conv.State(); err == nil && q.After > st.Seq {
			return shape("/payload/after_seq", "there is no event %d yet; the last is %d", q.After, st.Seq)
		}
		ack["after_seq"] = q.After
		defer s.move(place{q.After, q.Offset})
	}
	if err != nil {
		return s.h.explain(err)
	}
	_ = s.l.send(encode(outgoing{Type: "ack", Payload: ack})) // as above
	return nil
}

// message puts the client's words to the model.
func (s *socket) message(ctx context.Context, q request) *fault.Error {
	if !s.messages.Take(time.Now()) {
		_ = s.l.send(noticeFrame(s.h.texts().RateLimited)) // as above
		f := fault.New(fault.Limit, "", "more than %g messages a second on one connection", s.h.opts.Rate)
		f.Hint = "Wait a moment and send it again."
		return f
	}
	ev, err := s.conv.Send(ctx, chat.Input{Text: q.Text, Agent: q.Agent, FileID: q.FileID, Key: q.Key, Actor: actor.New(actor.Chat, s.who).Record(), Trace: s.trace})
	if err != nil {
		f := s.h.explain(err)
		if limited(f) {
			_ = s.l.send(noticeFrame(s.h.texts().RateLimited)) // as above
		}
		return f
	}
	ack := map[string]any{"frame": q.Type, "seq": ev.Seq}
	if ev.Input != nil {
		attrs := []any{obs.KeyAction, "message", "input", ev.Input.ID, "bytes", len(q.Text)}
		if s.trace.Traceparent == "" { // else all its lines have it
			attrs = append(attrs, obs.KeyCorrelation, ev.Input.Correlation)
		}
		s.log.Debug("message received", attrs...)
		ack["input"] = ev.Input.ID
	}
	if q.Key != "" {
		ack["key"] = q.Key
	}
	_ = s.l.send(encode(outgoing{Type: "ack", Payload: ack})) // as above
	if f := queued(s.conv, ev.Input); f != nil {
		_ = s.l.send(f) // as above
	}
	return nil
}

// abort ends a turn, or one call of the turn that runs.
func abort(conv *chat.Conversation, q request) (bool, error) {
	if q.Call != "" {
		return conv.AbortCall(q.Call)
	}
	return conv.Abort(q.Turn, q.Queued)
}

// queued tells a client that its message waits for others; nil if it does not.
func queued(conv *chat.Conversation, in *chat.Input) []byte {
	if in == nil {
		return nil
	}
	n := conv.Before(in.ID)
	if n == 0 {
		return nil
	}
	text := "Your message is answered after the one before it."
	if n > 1 {
		text = fmt.Sprintf("Your message is answered after the %d before it.", n)
	}
	return restated(chat.InputAdded, "", status{State: "processing", Message: text})
}

// explain is what a client is told of an error. What it is not told is logged.
func (h *Host) explain(err error) *fault.Error {
	switch {
	case errors.Is(err, chat.ErrClosed):
		return fault.New(fault.Unreachable, "", "%s", h.texts().Maintenance).Because(err)
	case errors.Is(err, chat.ErrEnded):
		f := fault.New(fault.UnknownSession, "", "%v", chat.ErrEnded)
		f.Hint = "Connect again for a new conversation."
		return f
	}
	f := fault.Of(err)
	if f.Kind == fault.Internal {
		h.opts.Logger.Error("a request of the chat failed", "action", "serve", "err", err)
	}
	return f
}

// refuse answers a request that is none for us.
func refuse(w http.ResponseWriter, status int, f *fault.Error) {
	_ = sayJSON(w, status, map[string]json.RawMessage{"error": f.Wire(true)}) // it can be encoded
}
