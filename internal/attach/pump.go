package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/guard"
	"github.com/stoahub/stoa/internal/wire"
)

// pump stands between a client and a hub. All of it belongs to the goroutine of
// run; the others only read, write and connect.
type pump struct {
	opts     Options
	log      *slog.Logger
	launcher *launcher

	link    *link     // nil while there is no hub
	number  int       // of the link
	resumed bool      // the hub knows of the client what the last one knew
	since   time.Time // when the link, or the lack of one, began
	backoff *guard.Backoff

	toHub    lane // frames of the client
	urgent   lane // our own, which come first
	toClient lane

	asked     table             // requests of the client
	questions map[string][]byte // ids of the hub's requests as the client knows them, by their keys
	own       map[string]reply  // our requests to the hub
	ownID     int
	client    profile
	doubt     doubt
	holding   <-chan time.Time // when what is held is handed out; nil if nothing is

	alone error // why there is no hub, and never was; nil otherwise
	ended bool  // there is no more of the client to read
	wg    sync.WaitGroup
}

// reply takes the answer to a request of our own.
type reply func(m *wire.Message)

// lane is what waits for one writer, in order.
type lane struct {
	frames []frame
	bytes  int
}

// frame is one message on its way.
type frame struct {
	b        []byte
	asked    *asked // the request that it is, if the client wants an answer
	response bool   // of the client to a question
}

// The most that waits in one direction before nothing more is read.
const (
	laneFrames = 1024
	laneBytes  = 8 << 20
)

func (l *lane) full() bool { return len(l.frames) >= laneFrames || l.bytes >= laneBytes }

func (l *lane) put(f frame) {
	l.frames = append(l.frames, f)
	l.bytes += len(f.b)
}

func (l *lane) first() []byte {
	if len(l.frames) == 0 {
		return nil
	}
	return l.frames[0].b
}

func (l *lane) take() frame {
	f := l.frames[0]
	l.frames[0] = frame{}
	l.frames = l.frames[1:]
	l.bytes -= len(f.b)
	return f
}

// keep drops all frames but those that are wanted.
func (l *lane) keep(wanted func(frame) bool) {
	old := l.frames
	*l = lane{}
	for _, f := range old {
		if wanted(f) {
			l.put(f)
		}
	}
}

func newPump(opts Options, l *launcher) *pump {
	return &pump{opts: opts, log: opts.Logger, launcher: l, backoff: guard.NewBackoff(50*time.Millisecond, 5*time.Second, nil),
		asked: table{byID: map[string]*asked{}}, questions: map[string][]byte{}, own: map[string]reply{}, since: time.Now()}
}

// attempt is what became of one attempt to attach.
type attempt struct {
	link *link
	err  error
}

// run is the pump's one loop. A lane that is full stops the reading of what
// would fill it, never the writing of what empties it.
func (p *pump) run(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := p.readLines(ctx, in)
	write, written := p.writeLines(out)
	defer func() { p.flush(ctx, write, written) }()
	attempts := make(chan attempt)
	p.dial(ctx, attempts, 0)
	var grace <-chan time.Time
	for {
		if p.ended && p.idle() {
			return p.alone
		}
		if p.ended && grace == nil {
			grace = time.After(p.opts.Grace)
		}
		now := p.open(lines, write)
		select {
		case l, ok := <-now.fromClient:
			if !ok {
				p.ended, lines = true, nil
				p.endListens()
				continue
			}
			p.fromClient(l)
		case b, ok := <-now.fromHub:
			if !ok {
				p.lost()
				p.dial(ctx, attempts, p.backoff.Next())
				continue
			}
			p.fromHub(b)
		case now.toHub <- now.next:
			p.sent()
		case now.toClient <- p.toClient.first():
			p.toClient.take()
		case a := <-attempts:
			if a.err != nil {
				p.missed(a.err)
				pause := p.backoff.Next()
				if p.alone != nil {
					pause = max(pause, aloneAgain)
				}
				p.dial(ctx, attempts, pause)
				continue
			}
			p.attached(a.link)
		case <-p.doubt.again:
			p.inquire()
		case <-p.holding:
			p.unhold()
		case err := <-written:
			return fmt.Errorf("write to stdout: %w", err)
		case <-grace:
			return p.alone
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// gates are the channels that may be used now; the others are nil.
type gates struct {
	fromClient <-chan line
	fromHub    <-chan []byte
	toHub      chan<- []byte
	next       []byte // to go there
	toClient   chan<- []byte
}

func (p *pump) open(lines <-chan line, write chan<- []byte) (g gates) {
	if p.toClient.first() != nil {
		g.toClient = write
	}
	if !p.toHub.full() && p.toClient.bytes < 4*laneBytes {
		g.fromClient = lines
	}
	if p.link == nil {
		return g
	}
	if !p.toClient.full() {
		g.fromHub = p.link.in
	}
	if g.next = p.urgent.first(); g.next == nil && p.resumed {
		g.next = p.toHub.first()
	}
	if g.next != nil {
		g.toHub = p.link.out
	}
	return g
}

// sent takes note that a frame is on its way to the hub.
func (p *pump) sent() {
	from := &p.urgent
	if from.first() == nil {
		from = &p.toHub
	}
	if f := from.take(); f.asked != nil {
		f.asked.state = onItsWay
	}
}

// idle reports whether nothing is left to do for a client that has gone silent.
func (p *pump) idle() bool {
	return p.asked.open() == 0 && p.toClient.first() == nil && (p.toHub.first() == nil || p.link == nil)
}

// line is a frame of the client, or why it is none.
type line struct {
	b   []byte
	err error
}

// readLines reads the client's frames until there are no more.
func (p *pump) readLines(ctx context.Context, in io.Reader) <-chan line {
	lines := make(chan line)
	r := wire.NewLineReader(in, p.opts.MessageBytes)
	// It is not waited for: a read of stdin cannot be interrupted.
	go func() {
		defer close(lines)
		for {
			b, err := r.Next()
			if err != nil && !errors.Is(err, wire.ErrTooLong) && err != io.ErrUnexpectedEOF {
				return
			}
			select {
			case lines <- line{append([]byte(nil), b...), err}:
			case <-ctx.Done():
				return
			}
			if err == io.ErrUnexpectedEOF {
				return
			}
		}
	}()
	return lines
}

// writeLines writes what comes by write, a frame a line. A failure comes by
// written, which is closed after the last frame.
func (p *pump) writeLines(out io.Writer) (write chan<- []byte, written <-chan error) {
	frames, failed := make(chan []byte), make(chan error, 1)
	go func() {
		defer close(failed)
		for b := range frames {
			if _, err := out.Write(append(wire.OneLine(b), '\n')); err != nil {
				failed <- err
				return
			}
		}
	}()
	return frames, failed
}

// flush waits until the last frame is written, but not for a client that does
// not read.
func (p *pump) flush(ctx context.Context, write chan<- []byte, written <-chan error) {
	close(write)
	select {
	case <-written:
	case <-ctx.Done():
	case <-time.After(p.opts.Grace):
	}
}

// dial attaches in the background, after a pause.
func (p *pump) dial(ctx context.Context, attempts chan<- attempt, pause time.Duration) {
	again := p.number > 0
	p.wg.Go(func() {
		l, err := (*link)(nil), wait(ctx, pause)
		if err == nil {
			l, err = p.connect(ctx, again)
		}
		select {
		case attempts <- attempt{l, err}:
		case <-ctx.Done():
			if l != nil {
				l.close()
			}
		}
	})
}

// firstPatience is how long a client waits for a hub that nobody launches here: one
// that is there answers at once, and hosts give up on servers that say nothing.
const firstPatience = 3 * time.Second

// missed takes note of an attempt that failed. If there never was a hub, we are
// alone; later the client is told only what it asked for and cannot have.
func (p *pump) missed(err error) {
	patience := p.opts.Patience
	if p.number == 0 && p.opts.Launch == nil {
		patience = min(patience, firstPatience)
	}
	late := time.Since(p.since) > patience
	if _, isFinal := errors.AsType[*final](err); p.number == 0 && (isFinal || late) {
		p.leftAlone(err)
		return
	}
	p.log.Warn("hub cannot be reached", "err", err, "attempt", p.backoff.Attempts()+1)
	if !late {
		return
	}
	for _, a := range p.asked.all() {
		if a.listen {
			continue
		}
		f := fault.New(fault.Unreachable, "hub", "no hub can be reached: %v", err)
		f.Hint = p.advice()
		if a.state == adrift {
			f = lostCall(a)
		}
		p.fail(a, f)
	}
}

// close waits for what still runs.
func (p *pump) close() {
	if p.link != nil {
		p.link.close()
	}
	p.wg.Wait()
}
