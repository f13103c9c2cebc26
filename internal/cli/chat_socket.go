package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/guard"
)

const (
	maxFrame    = 64 << 20         // what a hub may send at once: a history may be long
	pingEvery   = 20 * time.Second // a hub that hangs is found out by its silence
	pingTime    = 10 * time.Second
	writeTime   = 10 * time.Second
	dialTime    = 10 * time.Second
	longestWait = 3 * time.Second // between two attempts to come back
)

// socket is a conversation's way to the hub. It is made again when it breaks,
// and goes on where it was: frames come once and in order, and what was sent
// and not confirmed is sent again (the hub knows it by its key).
//
// run reads and writes; everybody else uses send and frames.
type socket struct {
	hub     *client                                // of run; others ask at
	again   func(context.Context) (*client, error) // finds the hub after it was lost; nil if it can be no other
	session string                                 // "" until the hub has named one; of run
	giveUp  time.Duration                          // how long a hub may be away; 0 means for ever
	frames  chan frame
	can     string // what this client says that it can do; see docs/chat.md

	place place

	mu      sync.Mutex
	waiting []frame // sent, and to be sent again until confirmed
	wake    chan struct{}
	unsent  int // of waiting, those at the end that this connection has not carried
}

func newSocket(hub *client, session string) *socket {
	return &socket{hub: hub, session: session, frames: make(chan frame), wake: make(chan struct{}, 1)}
}

// send hands a frame over. It never waits.
func (s *socket) send(f frame) {
	s.mu.Lock()
	s.waiting = append(s.waiting, f)
	s.unsent++
	s.mu.Unlock()
	s.ring()
}

func (s *socket) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// next takes the frames that this connection has to carry.
func (s *socket) next() []frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := append([]frame(nil), s.waiting[len(s.waiting)-s.unsent:]...)
	s.unsent = 0
	return list
}

// rewind makes the next connection carry again what was not confirmed and bears
// it, and what no connection has carried yet.
func (s *socket) rewind() {
	s.mu.Lock()
	carried := len(s.waiting) - s.unsent
	s.waiting = append(slices.DeleteFunc(slices.Clone(s.waiting[:carried]), func(w frame) bool { return !repeatable(w) }), s.waiting[carried:]...)
	s.unsent = len(s.waiting)
	s.mu.Unlock()
	s.ring()
}

// repeatable reports whether a frame may be sent again: the hub knows it by
// what it has in it. An abort that names no turn could hit a later one.
func repeatable(w frame) bool {
	var said struct{ Turn string }
	w.read(&said)
	return w.Type == "message" || w.Type == "approve" || w.Type == "reply" || w.Type == "abort" && said.Turn != ""
}

// settle forgets what the hub has confirmed by f.
func (s *socket) settle(f frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	carried := len(s.waiting) - s.unsent
	kept := s.waiting[:0]
	for i, w := range s.waiting {
		if i < carried && confirms(f, w) {
			continue
		}
		kept = append(kept, w)
	}
	s.waiting = kept
}

// confirms reports whether f shows that w has arrived.
func confirms(f, w frame) bool {
	var said struct{ Key, ID string }
	w.read(&said)
	switch w.Type {
	case "message":
		var h happening
		f.read(&h)
		return f.answers(w.Type, said.Key) || f.Type == "input" && h.Input != nil && h.Input.Key == said.Key
	case "approve", "reply":
		return f.answers(w.Type, said.ID)
	case "ping":
		return f.Type == "pong"
	}
	return f.answers(w.Type, "") || f.answers("", "") // the hub may not know its type
}

// run keeps the conversation connected until ctx ends, the hub says no, or it
// stays away for too long. It closes frames.
func (s *socket) run(ctx context.Context) error {
	defer close(s.frames)
	pause := guard.NewBackoff(100*time.Millisecond, longestWait, nil)
	var since time.Time // when the hub was lost
	for {
		conn, err := s.dial(ctx)
		if err == nil {
			var greeted bool
			if greeted, err = s.serve(ctx, conn); greeted {
				pause.Reset()
				since = time.Time{}
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if refusal, ok := errors.AsType[*failure](err); ok && refusal.code != exitUnreachable {
			return err
		}
		if since.IsZero() {
			if !s.place.known {
				return err // there is nothing to come back to
			}
			since = time.Now()
			s.emit(ctx, makeFrame("connection", connectionState{State: "reconnecting", Message: "reconnecting…", Session: s.session}))
		}
		if s.giveUp > 0 && time.Since(since) > s.giveUp {
			return failed(exitUnreachable, "Start it again with stoa serve, and go on with stoa chat --session "+s.session+".", "the hub was lost and did not come back within %v: %w", s.giveUp, err)
		}
		if !wait(ctx, pause.Next()) {
			return ctx.Err()
		}
	}
}

func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *socket) emit(ctx context.Context, f frame) {
	select {
	case s.frames <- f:
	case <-ctx.Done():
	}
}

// at is the hub that serves the conversation now.
func (s *socket) at() *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hub
}

// meet makes the hub that was found the one to ask.
func (s *socket) meet(hub *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hub.http.CloseIdleConnections()
	s.hub = hub
}

// dial opens a connection at the place that was reached.
func (s *socket) dial(ctx context.Context) (*websocket.Conn, error) {
	if s.place.known && s.again != nil {
		hub, err := s.again(ctx)
		if err != nil {
			return nil, err
		}
		s.meet(hub)
	}
	u := s.hub.base.JoinPath("/ws")
	q := url.Values{}
	if s.session != "" {
		q.Set("sessionId", s.session)
	}
	if s.can != "" {
		q.Set("can", s.can)
	}
	if s.place.known {
		q.Set("after_seq", strconv.FormatUint(s.place.seq, 10))
		if s.place.shown > 0 {
			q.Set("offset", strconv.Itoa(s.place.shown))
		}
	}
	u.RawQuery = q.Encode()
	limit, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, resp, err := websocket.Dial(limit, u.String(), &websocket.DialOptions{HTTPClient: &http.Client{Transport: s.hub.http}, HTTPHeader: s.hub.header()})
	if err == nil {
		conn.SetReadLimit(maxFrame)
		return conn, nil
	}
	if resp == nil || resp.StatusCode == http.StatusSwitchingProtocols || resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests {
		return nil, &failure{err: err, hint: "Is the hub still running? See its log.", code: exitUnreachable}
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // what there is of it
	return nil, refused(resp.StatusCode, body)
}

// serve carries frames until the connection is lost. greeted says that the hub
// has taken the conversation up.
func (s *socket) serve(ctx context.Context, conn *websocket.Conn) (greeted bool, err error) {
	defer conn.CloseNow()
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for {
		kind, b, err := conn.Read(ctx)
		if err != nil {
			return greeted, &failure{err: lostSocket(err), hint: "See the hub's log.", code: exitUnreachable}
		}
		if kind != websocket.MessageText {
			continue
		}
		f, err := parseFrame(b)
		if err != nil {
			return greeted, err
		}
		s.settle(f)
		if f.Type == "connection" {
			if err := s.turnedAway(f); err != nil {
				return greeted, err
			}
		}
		if f.Type == "connection" && s.greet(&f) && !greeted {
			greeted = true
			s.rewind() // only now, so that all that comes of it is seen
			wg.Go(func() {
				defer cancel()
				s.write(ctx, conn)
			})
		}
		f, fresh := s.place.take(f)
		if fresh {
			s.emit(ctx, f)
		}
	}
}

// turnedAway is why the hub does not serve this conversation; nil if it does.
func (s *socket) turnedAway(f frame) error {
	var c connectionState
	f.read(&c)
	if c.State != "error" {
		return nil
	}
	return &failure{err: errors.New(c.Message), hint: c.Hint, code: exitCode(c.Kind)}
}

// greet notes what the hub says of the connection, and reports whether it has
// taken the conversation up.
func (s *socket) greet(f *frame) bool {
	var c connectionState
	f.read(&c)
	if c.Session != "" {
		s.session = c.Session
	}
	if c.State != "connected" && c.State != "reconnected" {
		return false
	}
	f.forgot = s.place.known && c.Seq < s.place.seq
	if c.Seq != s.place.seq { // what the history has need not come
		s.place.seq, s.place.shown = c.Seq, 0
	}
	s.place.known = true
	return true
}

// write sends what is waiting, and asks now and then whether the hub is there.
func (s *socket) write(ctx context.Context, conn *websocket.Conn) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			conn.Close(websocket.StatusNormalClosure, "")
			return
		case <-tick.C:
			if timed(ctx, pingTime, conn.Ping) != nil {
				return
			}
		case <-s.wake:
			for _, f := range s.next() {
				if timed(ctx, writeTime, func(ctx context.Context) error { return conn.Write(ctx, websocket.MessageText, f.raw) }) != nil {
					return
				}
			}
		}
	}
}

func timed(ctx context.Context, d time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return do(ctx)
}

// lostSocket says in words of a person why a connection ended.
func lostSocket(err error) error {
	if status := websocket.CloseStatus(err); status != -1 {
		var closed websocket.CloseError
		if errors.As(err, &closed) && closed.Reason != "" {
			return errors.New("the hub closed the connection: " + closed.Reason)
		}
	}
	return errors.New("the connection to the hub was lost")
}

// place is how far a conversation has been seen: all events up to seq, and of
// the part of text after it, if it is open, the bytes before shown.
type place struct {
	known bool // a connection has been greeted
	seq   uint64
	shown int
}

// take moves the place past a frame. It returns the frame without what was
// seen before, and whether anything is left of it.
func (p *place) take(f frame) (frame, bool) {
	if f.Seq == 0 {
		return f, true
	}
	if f.Type != "text" && f.Type != "reasoning" {
		if f.Seq <= p.seq {
			return f, false
		}
		p.seq, p.shown = f.Seq, 0
		return f, true
	}
	if f.Seq <= p.seq {
		return f, false
	}
	var said saidText
	f.read(&said)
	text := said.Content
	if seen := p.shown - f.Offset; seen > 0 {
		text = text[min(seen, len(text)):]
		said.Content, f.Offset = text, p.shown
		f.Payload, _ = json.Marshal(said)
		f.raw, _ = json.Marshal(f)
	}
	p.shown = max(p.shown, f.Offset+len(text))
	if f.Last {
		p.seq, p.shown = f.Seq, 0
	}
	return f, text != "" || f.Last
}
