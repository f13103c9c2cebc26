package viewer

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/pace"
)

// Options bound the viewers. The zero value is good.
type Options struct {
	Max   int           // at once; 0 means 100
	Beat  time.Duration // between two signs of life where nothing happens; 0 means 15 s
	Write time.Duration // for a viewer to take one frame; 0 means 30 s
	Pause time.Duration // between two looks, so that a busy hub is not asked for each record; 0 means 50 ms
	Batch int           // records of one look; 0 means 200
	Enter float64       // that may come in a second, once as many have come as may watch; 0 means 10

	Logger *slog.Logger // nil discards
}

func (o *Options) defaults() {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&o.Beat, 15*time.Second)
	set(&o.Write, 30*time.Second)
	set(&o.Pause, 50*time.Millisecond)
	if o.Max == 0 {
		o.Max = 100
	}
	if o.Batch == 0 {
		o.Batch = 200
	}
	if o.Enter == 0 {
		o.Enter = 10
	}
}

// Gallery is where viewers are.
type Gallery struct {
	bus    *event.Bus
	opts   Options
	count  atomic.Int32
	lost   atomic.Int64
	coming *pace.Bucket    // who is sent off and comes again must not keep us busy
	ctx    context.Context // ends with the Gallery
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// New returns a Gallery over a bus. Close ends it.
func New(bus *event.Bus, o Options) *Gallery {
	o.defaults()
	g := &Gallery{bus: bus, opts: o, coming: pace.New(o.Enter, float64(o.Max), time.Now())}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// Len is how many watch.
func (g *Gallery) Len() int { return int(g.count.Load()) }

// Lost is how many records viewers were too slow for, in all.
func (g *Gallery) Lost() int64 { return g.lost.Load() }

// Close sends all viewers off and waits until they have gone, which takes a
// second at most.
func (g *Gallery) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.cancel()
	g.wg.Wait()
}

// enter lets a viewer in.
func (g *Gallery) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return &fault.Error{Kind: fault.Unreachable, Subject: "events", Msg: "the hub is stopping", Hint: "Come again when it is back."}
	}
	if int(g.count.Load()) >= g.opts.Max {
		return &fault.Error{Kind: fault.QueueFull, Subject: "events", Msg: "as many watch as may", Hint: "Close a viewer that is not needed any more."}
	}
	if !g.coming.Take(time.Now()) {
		return &fault.Error{Kind: fault.QueueFull, Subject: "events", Msg: "too many viewers come at once", Hint: "Come again in a second."}
	}
	g.count.Add(1)
	g.wg.Add(1)
	return nil
}

// Wish is what a viewer wants.
type Wish struct {
	After  uint64        // the number of the last record that it has
	Hub    string        // the name of the bus whose number that is; empty if that is not known
	Filter *event.Filter // nil wants everything
	Batch  bool          // several records may come in one frame
}

// Serve lets a client watch what it wishes, until it goes or the Gallery is
// closed. An error means that nothing was answered.
func (g *Gallery) Serve(w http.ResponseWriter, r *http.Request, wish Wish) error {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		w.Header().Set("Upgrade", "websocket")
		return fault.New(fault.InvalidRequest, "events", "this address speaks WebSocket only; GET /api/v1/events is the one for HTTP")
	}
	if err := g.enter(); err != nil {
		w.Header().Set("Retry-After", "1")
		return err
	}
	defer g.wg.Done()
	defer g.count.Add(-1)
	below := &hijacked{ResponseWriter: w}
	ws, err := websocket.Accept(below, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // the guard before us knows which origins are ours
	if err != nil {
		return nil // the client has been told
	}
	defer ws.CloseNow()
	bound(below.conn)
	defer g.bus.Watch()()
	v := &socket{g: g, ws: ws, conn: below.conn, out: below.out, f: wish.Filter, next: wish.After, hub: wish.Hub, batch: wish.Batch}
	v.serve()
	return nil
}

// inFlight is how much the system holds for a viewer that does not take it.
const inFlight = 64 << 10

// bound keeps the system from holding megabytes for a viewer.
func bound(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	// By what it can, not by what it is: a listener may hand out connections of
	// its own kind.
	if t, ok := c.(interface{ SetWriteBuffer(int) error }); ok {
		_ = t.SetWriteBuffer(inFlight) // else it has what the system gives it
	}
}

// socket is one viewer.
type socket struct {
	g     *Gallery
	ws    *websocket.Conn
	conn  net.Conn // below ws
	out   *quiet   // over conn
	f     *event.Filter
	next  uint64
	hub   string
	batch bool
}

// hello is the first frame.
type hello struct {
	Type      string `json:"type"`
	Hub       string `json:"hub"`                 // whose numbers these are
	Next      uint64 `json:"next"`                // records after this number follow
	Restarted bool   `json:"restarted,omitempty"` // the number was that of another hub: records come from the beginning
	BeatMs    int64  `json:"heartbeatMs"`
}

// gap tells that records are lost.
type gap struct {
	Type string `json:"type"`
	Lost uint64 `json:"lost"`
	Next uint64 `json:"next"` // the last number that is lost, or before it
}

// beat is a sign of life.
type beat struct {
	Type string    `json:"type"`
	Time time.Time `json:"time"`
	Next uint64    `json:"next"` // to go on after, if the viewer comes again
}

func (v *socket) serve() {
	ctx, gone := context.WithCancel(context.Background())
	v.g.wg.Go(func() {
		defer gone() // with whom the viewer goes
		defer func() {
			if p := recover(); p != nil {
				_ = obs.Stumbled(v.g.opts.Logger, p, "what a viewer said made the hub stumble", obs.KeyAction, "watch")
			}
		}()
		v.passOver(ctx)
	})
	// One who takes nothing must not hold up the hub when it stops.
	stop := context.AfterFunc(v.g.ctx, func() { _ = v.conn.SetDeadline(time.Now().Add(goodbye)) }) // it may be closed already
	defer stop()
	h := hello{Type: "hello", Hub: v.g.bus.Name(), Next: v.next, BeatMs: v.g.opts.Beat.Milliseconds()}
	if !v.g.bus.Follows(v.hub, v.next) {
		h.Next, h.Restarted, v.next = 0, true, 0
	}
	err := v.say(ctx, h)
	for err == nil && v.g.ctx.Err() == nil {
		err = v.look(ctx)
	}
	if v.g.ctx.Err() != nil {
		_ = v.ws.Close(websocket.StatusGoingAway, "the hub is stopping") // it may be gone already
	}
}

// passOver reads what a viewer says, and lets it fall, until the viewer goes or
// has said too much.
func (v *socket) passOver(ctx context.Context) {
	for {
		_, r, err := v.ws.Reader(ctx)
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if err != nil {
			return
		}
	}
}

// goodbye is how long a viewer has when the hub stops.
const goodbye = time.Second

// atOnce is how many records are read at a time: they are held for as long as a
// viewer does not take them, each for half a KiB and what it says.
const atOnce = 20

// look sends what is new, or waits for it.
func (v *socket) look(ctx context.Context) error {
	more, err := v.send(ctx)
	if err != nil {
		return err
	}
	quiet := time.NewTimer(v.g.opts.Beat)
	defer quiet.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-v.g.ctx.Done():
		return nil
	case <-quiet.C:
		return v.say(ctx, beat{Type: "heartbeat", Time: time.Now(), Next: v.next})
	case <-more:
	}
	pause := time.NewTimer(v.g.opts.Pause)
	defer pause.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-v.g.ctx.Done():
		return nil
	case <-pause.C:
		return nil
	}
}

// send sends the records of one look. It returns what is closed when there are
// more.
func (v *socket) send(ctx context.Context) (more <-chan struct{}, err error) {
	// A frame for each record need not be a packet for each.
	v.out.hold()
	defer func() {
		if let := v.out.letGo(v.g.opts.Write); err == nil {
			err = let
		}
	}()
	f := bundle{of: v}
	for left := v.g.opts.Batch; ; {
		n := min(left, atOnce)
		p := v.g.bus.Read(v.next, n, v.f)
		v.next = p.Next
		if p.Lost > 0 {
			v.g.lost.Add(int64(p.Lost))
			before := p.Next
			if len(p.Records) > 0 {
				before = p.Records[0].Seq - 1
			}
			if err = f.flush(ctx); err == nil {
				err = v.say(ctx, gap{Type: "gap", Lost: p.Lost, Next: before})
			}
		}
		for i := 0; i < len(p.Records) && err == nil; i++ {
			err = f.add(ctx, &p.Records[i])
		}
		if left -= n; err != nil || left == 0 || len(p.Records) < n {
			more = p.More
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return more, f.flush(ctx)
}

// say sends something else as a frame.
func (v *socket) say(ctx context.Context, what any) error {
	b, err := json.Marshal(what)
	if err != nil {
		return nil // as a record is
	}
	return v.write(ctx, b)
}

// write sends the bytes of a frame. Who does not take it in time is cut off.
func (v *socket) write(ctx context.Context, b []byte) error {
	ctx, cancel := context.WithTimeout(ctx, v.g.opts.Write)
	defer cancel()
	return v.ws.Write(ctx, websocket.MessageText, b)
}

// hijacked remembers the connection that was taken over.
type hijacked struct {
	http.ResponseWriter
	conn net.Conn
	out  *quiet
}

func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.conn, h.out = conn, &quiet{Conn: conn, may: pace.New(mayRate, mayBurst, time.Now())}
	return h.out, rw, nil
}

// A viewer has nothing to say but signs of life and its farewell: so many bytes,
// and so many a second in the long run.
const (
	mayBurst = 4 << 10
	mayRate  = 64
)

// errTalks is why a viewer is sent off that says more.
var errTalks = errors.New("it says more than a viewer may")

// quiet is a connection whose other end may say little. What is written to it can
// be held for a while, to be sent together.
type quiet struct {
	net.Conn
	may *pace.Bucket

	mu   sync.Mutex // others write too: answers to signs of life
	held bool
	b    []byte
}

func (q *quiet) Read(b []byte) (int, error) {
	n, err := q.Conn.Read(b[:min(len(b), mayBurst)])
	if n > 0 && !q.may.TakeN(n, time.Now()) {
		return 0, errTalks
	}
	return n, err
}

// mostHeld bounds what memory holds for a viewer that takes nothing.
const mostHeld = 16 << 10

func (q *quiet) Write(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held && len(q.b)+len(b) <= mostHeld {
		q.b = append(q.b, b...)
		return len(b), nil
	}
	if err := q.flush(); err != nil {
		return 0, err
	}
	return q.Conn.Write(b)
}

// flush sends what is held. Called with mu held.
func (q *quiet) flush() error {
	b := q.b
	q.b = nil
	if len(b) == 0 {
		return nil
	}
	_, err := q.Conn.Write(b)
	return err
}

// hold keeps what is written until it is let go, or is much.
func (q *quiet) hold() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held = true
}

// letGo sends what was held. Who does not take it in time is cut off.
func (q *quiet) letGo(within time.Duration) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held = false
	if len(q.b) == 0 {
		return nil
	}
	// No deadline of its own: the one that is set when the hub stops must stay.
	late := time.AfterFunc(within, func() { q.Close() })
	defer late.Stop()
	return q.flush()
}
