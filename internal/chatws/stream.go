package chatws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/fault"
)

// stream tells a client by HTTP what happens in a conversation.
type stream struct {
	h    *Host
	conv *chat.Conversation
	out  http.ResponseWriter
	ctx  context.Context // of the request
	pos  chat.Position

	tells   restater
	input   string // whose turn is told; "" means everything
	asked   uint64 // the event of that input
	turn    string // that of input, once it is known
	endless bool   // until the client goes
	until   uint64 // the last event that is told, if it is known
}

// errGone means that the client takes nothing more.
var errGone = errors.New("the client has gone")

// run streams until the turn is over. An error means that nothing was written.
func (s *stream) run() error {
	st, err := s.conv.State()
	if err != nil {
		return s.h.explain(err)
	}
	s.locate(&st)
	if err := s.search(s.asked, st.Seq); err != nil {
		return s.h.explain(err)
	}
	header := s.out.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no")
	header.Set("Stoa-Session", s.conv.Name())
	s.out.WriteHeader(http.StatusOK)
	hello := connection{State: stateConnected, Message: s.h.texts().Welcome, Session: s.conv.Name(), Seq: s.pos.Seq}
	if s.pos.Seq > 0 || s.endless {
		hello.State, hello.Message = stateReconnected, "The conversation goes on."
	}
	if s.write("", encode(outgoing{Type: "connection", Payload: hello})) != nil {
		return nil
	}
	if f := queued(s.conv, &chat.Input{ID: s.input}); f != nil && s.write("", f) != nil {
		return nil
	}
	for !s.over() {
		pieces, err := s.next()
		switch {
		case errors.Is(err, errGone):
			return nil
		case err != nil:
			s.broken(err)
			return nil
		}
		for _, p := range pieces {
			if !s.concerns(p.event) {
				continue
			}
			id := ""
			if p.known {
				id = eventID(p.after)
			}
			if s.write(id, p.frame) != nil {
				return nil
			}
			s.note(p.event)
		}
	}
	return nil
}

// locate finds the turn of the input, which may have begun or ended before the
// client came.
func (s *stream) locate(st *chat.State) {
	if s.pos.Seq > st.Seq {
		s.pos = chat.Position{Seq: st.Seq} // the place is of another conversation
	}
	if s.endless {
		return
	}
	open := st.Turn != nil
	if s.input != "" {
		open = st.Turn != nil && st.Turn.Input.ID == s.input
		if open {
			s.turn = st.Turn.ID
		}
	}
	for _, in := range st.Queue {
		open = open || s.input == "" || in.ID == s.input
	}
	if !open {
		s.until = max(st.Seq, 1)
	}
}

// search finds the turn of an input that may have begun between the event of
// the input and the place that the client has reached.
func (s *stream) search(input, last uint64) error {
	for pos := (chat.Position{Seq: input}); s.input != "" && s.turn == "" && pos.Seq < min(s.pos.Seq, last); {
		events, next, err := s.conv.Next(s.ctx, pos, pulled)
		if err != nil {
			return err
		}
		for i := range events {
			s.concerns(&events[i])
		}
		pos = next
	}
	return nil
}

// concerns reports whether an event belongs to what the client asked for.
func (s *stream) concerns(e *chat.Event) bool {
	switch {
	case s.input == "":
		return true
	case e.Input != nil:
		return e.Input.ID == s.input
	case e.Start != nil && e.Start.Input == s.input:
		s.turn = e.Turn
	}
	return s.turn != "" && e.Turn == s.turn
}

// note sees whether this was the last event.
func (s *stream) note(e *chat.Event) {
	switch {
	case s.endless || e.Live:
	case s.input != "" && (e.Type == chat.TurnEnded || e.Type == chat.InputDropped):
		s.until = e.Seq
	case s.input == "" && (e.Type == chat.TurnEnded || e.Type == chat.InputDropped):
		if st, err := s.conv.State(); err == nil && st.Turn == nil && len(st.Queue) == 0 {
			s.until = st.Seq
		}
	}
}

func (s *stream) over() bool { return s.until != 0 && s.pos.Seq >= s.until }

// next waits for what follows, and tells a client that waits that we are there.
func (s *stream) next() ([]piece, error) {
	for {
		wait, cancel := context.WithTimeout(s.ctx, s.h.opts.Heartbeat)
		stop := context.AfterFunc(s.h.gate.ctx, cancel)
		pieces, next, err := s.tells.pull(wait, s.conv, s.pos)
		late := errors.Is(wait.Err(), context.DeadlineExceeded)
		stop()
		cancel()
		switch {
		case err == nil:
			s.pos = next
			return pieces, nil
		case s.ctx.Err() != nil:
			return nil, errGone
		case s.h.gate.ctx.Err() != nil:
			return nil, chat.ErrClosed
		case !late:
			return nil, err
		}
		if s.out != nil && s.raw(": the turn goes on\n\n") != nil {
			return nil, errGone
		}
	}
}

// broken tells the client why nothing more comes.
func (s *stream) broken(err error) {
	f := s.h.explain(err)
	c := connection{State: stateError, Message: f.Text(), Session: s.conv.Name(), Kind: f.Kind.String(), Hint: f.Advice()}
	if f.Kind == fault.Unreachable { // the hub stops
		c.State = stateReconnecting
	}
	_ = s.write("", encode(outgoing{Type: "connection", Payload: c})) // who has gone misses nothing
}

// write sends one frame.
func (s *stream) write(id string, frame []byte) error {
	return s.raw(id + "data: " + string(frame) + "\n\n")
}

func (s *stream) raw(text string) error {
	c := http.NewResponseController(s.out)
	_ = c.SetWriteDeadline(time.Now().Add(s.h.opts.WriteTimeout)) // some writers have none
	_, err := s.out.Write([]byte(text))
	if err == nil {
		err = c.Flush()
	}
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return errGone
	}
	return nil
}

// outcome is a whole turn.
type outcome struct {
	Session  string    `json:"sessionId"`
	Turn     string    `json:"turn"`
	Seq      uint64    `json:"seq"`  // of its last event
	Text     string    `json:"text"` // the answer
	End      *chat.End `json:"end"`
	Messages []Message `json:"messages"` // all that was said in it
}

// whole waits for the end of the turn and answers with all of it.
func (s *stream) whole(w http.ResponseWriter) error {
	if s.input == "" {
		return shape("/text", "it is missing: without a stream there is nothing to go on with")
	}
	st, err := s.conv.State()
	if err != nil {
		return s.h.explain(err)
	}
	s.out = nil
	var end *chat.Event
	for s.locate(&st); end == nil; {
		if s.over() {
			return fault.New(fault.InvalidParams, "key", "the message with this key has been answered already").With("seq", s.pos.Seq)
		}
		pieces, err := s.next()
		if errors.Is(err, errGone) {
			return nil
		} else if err != nil {
			return s.h.tooMuch(w, err)
		}
		for _, p := range pieces {
			if !s.concerns(p.event) || p.event.Live {
				continue
			}
			if p.event.Type == chat.TurnEnded || p.event.Type == chat.InputDropped {
				end = p.event
			}
		}
	}
	out := outcome{Session: s.conv.Name(), Turn: s.turn, Seq: end.Seq, End: end.End, Messages: []Message{}}
	if out.End == nil {
		out.End = &chat.End{Reason: chat.ReasonAborted, Text: "The message was taken back before it was answered."}
	}
	if st, err = s.conv.State(); err != nil {
		return s.h.explain(err)
	}
	for _, m := range history(&st) {
		if m.Metadata == nil || m.Metadata.Turn != s.turn || s.turn == "" {
			continue
		}
		out.Messages = append(out.Messages, m)
		if m.Role == "assistant" && m.Content != "" {
			out.Text = m.Content
		}
	}
	if out.Text == "" {
		out.Text = out.End.Text
	}
	w.Header().Set("Stoa-Session", s.conv.Name())
	if err := sayJSON(w, http.StatusOK, out); err != nil {
		return fmt.Errorf("answer with the turn: %w", err)
	}
	return nil
}
