package upstream

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/guard"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/task"
)

// Upstream is one MCP server behind the hub.
type Upstream struct {
	serial    uint64
	opts      Options
	cat       *catalog.Catalog
	pool      *Pool
	transport mcp.Transport   // to a server over HTTP; nil for others
	breaker   *guard.Breaker  // of the connection
	tools     *guard.Breakers // of single tools
	queue     *task.Queue
	tail      tail
	starts    atomic.Int64
	eras      atomic.Uint32 // mcp.Eras; 0 while unknown
	listedIn  atomic.Uint32 // the mcp.Era in which the hub read the lists; 0 if it has not
	old       atomic.Bool   // over HTTP: the server has HTTP+SSE only
	settled   chan struct{} // closed when the first attempt to read the lists is over
	recalled  chan struct{} // closed when what it offered last is in the catalogue, if that is known
	settle    sync.Once
	away      atomic.Bool // the lists could not be read for want of a connection
	down      atomic.Bool // whether state is Failed
	losses    losses
	reload    chan struct{}            // a token asks the supervisor to load the lists in dirty
	loading   chan struct{}            // holds a token while lists are read
	retired   atomic.Bool              // another upstream may have its name: it only ends what runs
	calls     atomic.Int32             // requests that run or wait to
	next      atomic.Pointer[Upstream] // which has taken its place

	mu      sync.Mutex
	links   map[key]*link
	dialing map[key]*dialing
	backoff *guard.Backoff // of dials that failed
	deaths  *guard.Backoff // of connections that did not live long
	relist  *guard.Backoff // of lists that could not be read
	failed  error          // why the last dial failed; nil after a success
	retryAt time.Time      // when to dial again after a failure
	dirty   [4]bool        // lists that changed upstream
	spoken  catalog.Which  // lists of which the server said so
	state   State
	since   time.Time
	added   time.Time
	leftAt  time.Time         // when a connection was last found to have gone; zero if none ever was
	mourned string            // the failure that was told of last, since it was connected
	notes   map[string]string // health items by code
	latency time.Duration     // of the last handshake
	subs    map[string]int    // resource URIs with the number of those who listen
	subsGen int               // counts changes of the keys of subs
	level   int               // 1 + the most verbose log rank asked for; 0 if none
	closed  bool
	ctx     context.Context // ends with the upstream
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

// dialing is a connection attempt that several callers may wait for.
type dialing struct {
	done  chan struct{}
	owner string // of a connection for one client: its principal
	link  *link
	err   error
}

var serials atomic.Uint64

// Serial tells the upstream from those that had its name before, and from those
// that will have it with another config.
func (u *Upstream) Serial() uint64 { return u.serial }

func newUpstream(opts Options, cat *catalog.Catalog, pool *Pool) *Upstream {
	opts.defaults()
	opts.introduce(pool.hub)
	u := &Upstream{
		serial: serials.Add(1), opts: opts, cat: cat, pool: pool,
		breaker: guard.New(opts.Breaker), tools: guard.NewBreakers(opts.Breaker),
		reload: make(chan struct{}, 1), loading: make(chan struct{}, 1), settled: make(chan struct{}), recalled: make(chan struct{}),
		links: map[key]*link{}, dialing: map[key]*dialing{},
		backoff: newBackoff(), deaths: newBackoff(), relist: newBackoff(),
		state: Disconnected, since: time.Now(), added: time.Now(),
		notes: map[string]string{}, subs: map[string]int{},
	}
	u.ctx, u.cancel = context.WithCancel(context.Background())
	if addr, err := url.Parse(opts.URL); opts.URL != "" && err == nil {
		u.transport = mcp.NewTransport(addr, opts.TLS, opts.Control)
	}
	if opts.Queue != nil {
		u.queue = task.New(opts.Queue.Concurrency, opts.Queue.Capacity)
	}
	if opts.Era != 0 {
		u.eras.Store(uint32(opts.Era))
	}
	if opts.Unusable != nil {
		close(u.settled)
		u.settle.Do(func() {})
		u.failed = opts.Unusable
		u.setState(Misconfigured, u.failed)
	}
	return u
}

func newBackoff() *guard.Backoff {
	return guard.NewBackoff(200*time.Millisecond, 30*time.Second, rand.Float64)
}

// Name is the upstream's name.
func (u *Upstream) Name() string { return u.opts.Name }

// Eras is what the upstream is known to speak; 0 while unknown.
func (u *Upstream) Eras() mcp.Eras { return mcp.Eras(u.eras.Load()) }

// Filter says which tools are offered.
func (u *Upstream) Filter() catalog.Filter { return u.opts.Filter }

// sharedCaps are what we declare on a connection that all clients share, or all
// requests that stand alone in a Session. Roots are not among them: they belong to
// one client.
var sharedCaps = []byte(`{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}}}`)

// link returns a live connection for the client in a Session, making one if
// needed. The attempt goes on if ctx ends, for the next who asks.
func (u *Upstream) link(ctx context.Context, c *mcp.Client, session string) (*link, error) {
	for {
		u.mu.Lock()
		k := u.keyFor(c, session)
		if l := u.links[k]; l != nil && l.alive() {
			l.busy.Add(1)
			u.mu.Unlock()
			u.pool.reused.Add(1)
			return u.whenReady(ctx, l)
		}
		d := u.dialing[k]
		if d == nil {
			err := u.mayDial(c)
			if err == nil {
				err = u.room(k, c)
			}
			if err != nil {
				u.mu.Unlock()
				return nil, err
			}
			d = u.startDial(k, c)
		}
		u.mu.Unlock()
		select {
		case <-d.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if d.err != nil {
			return nil, u.unreachable(d.err, c)
		}
		if k.era == 0 {
			continue // now the eras are known; the client's may need another connection
		}
		d.link.busy.Add(1)
		return u.whenReady(ctx, d.link)
	}
}

// whenReady waits until calls may be sent on a connection that was counted as
// busy.
func (u *Upstream) whenReady(ctx context.Context, l *link) (*link, error) {
	select {
	case <-l.ready:
		whenLevelled(ctx, l)
	case <-l.conn.Done(): // the call will say why
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		l.busy.Add(-1)
		return nil, context.Cause(ctx)
	}
	return l, nil
}

// mayDial refuses while an upstream that keeps failing rests. Called with mu
// held.
func (u *Upstream) mayDial(c *mcp.Client) error {
	if u.closed {
		return u.unreachable(errors.New("it is being removed"), c)
	}
	if u.opts.Unusable != nil {
		return u.unreachable(u.opts.Unusable, c)
	}
	if rest := time.Until(u.retryAt); u.failed != nil && u.backoff.Attempts() > 2 && rest > 0 {
		f := u.unreachable(u.failed, c)
		return f.With("retryAfterMs", rest.Milliseconds())
	}
	return nil
}

// startDial begins a connection attempt. Called with mu held.
func (u *Upstream) startDial(k key, c *mcp.Client) *dialing {
	d := &dialing{done: make(chan struct{})}
	if k.client != "" {
		d.owner = c.Actor.Principal().Name
	}
	u.dialing[k] = d
	caps := sharedCaps
	if k.client != "" && !k.alone && c.Capabilities != nil {
		caps = c.Capabilities
	}
	if u.opts.Sampling != nil {
		caps = u.opts.Sampling.sampler().Declare(caps)
	}
	if len(u.links) == 0 {
		u.setState(Connecting, nil)
	}
	u.wg.Go(func() { u.finishDial(k, d, caps) })
	return d
}

func (u *Upstream) finishDial(k key, d *dialing, caps []byte) {
	defer close(d.done)
	began := time.Now()
	if d.err = u.pool.admit(u.ctx); d.err == nil {
		d.link, d.err = u.dial(u.ctx, k, caps)
		if d.err != nil {
			u.pool.release()
		}
	}
	u.mu.Lock()
	delete(u.dialing, k)
	if d.err == nil && u.closed {
		d.err = errors.New("it is being removed")
		defer d.link.close()
		u.pool.release()
	}
	if d.err != nil {
		u.dialFailed(k, d.err)
		u.mu.Unlock()
		return
	}
	u.pool.created.Add(1)
	l := d.link
	l.owner = d.owner
	l.used.Store(time.Now().UnixNano())
	if old := u.links[l.key]; old != nil {
		// It has ended, and what tells of it comes too late to find it.
		u.wg.Go(func() {
			old.close()
			u.pool.release()
		})
	}
	u.links[l.key] = l
	if l.speaks != 0 {
		// Together with the connection: who knows the eras and finds none
		// would make another, to the harm of the calls on this one.
		u.eras.Store(uint32(l.speaks))
	}
	u.latency = time.Since(began)
	u.failed = nil
	u.away.Store(false)
	u.backoff.Reset()
	if u.opts.Lazy || !u.primary(l) {
		u.setState(Connected, nil)
	} else if u.state == Failed {
		u.setState(Connecting, nil) // until its lists have been read
	}
	ctx, cancel := context.WithCancel(u.ctx)
	l.stop = cancel
	l.wg.Add(1) // while mu is held: whoever closes the link from now on waits until it is served
	u.mu.Unlock()
	u.serve(ctx, l)
	l.wg.Done()
}

// noRoom is how long the supervisor waits where the pool was full.
const noRoom = time.Second

// dialFailed is called with mu held.
func (u *Upstream) dialFailed(k key, err error) {
	u.failed = err
	if fault.Is(err, fault.Limit) {
		// There was no room for the connection: nothing is wrong with the
		// server, and there may be room at any moment.
		u.retryAt = time.Now().Add(noRoom)
		if len(u.links) == 0 && !u.closed {
			u.setState(Failed, err)
		}
		return
	}
	down := Failed
	if misconfigured(err) {
		down = Misconfigured
	}
	u.retryAt = time.Now().Add(u.backoff.Next())
	u.pool.unhealthy.Add(1)
	if u.opts.Era == 0 && len(u.links) == 0 {
		u.eras.Store(0) // it may be another server now
	} else if rejected, ok := errors.AsType[*mcp.Rejected](err); ok && u.opts.Era == 0 {
		// It named an era that it does not speak after all.
		u.eras.Store(uint32(u.Eras() &^ mcp.Eras(k.era)))
		u.opts.Logger.Info("upstream does not speak an era it named", "upstream", u.opts.Name, "era", k.era.String(), "err", rejected)
	}
	if len(u.links) == 0 && !u.closed {
		u.setState(down, err)
	}
}

// lost takes a connection out that has ended.
func (u *Upstream) lost(l *link) {
	err := u.explainLost(l, l.conn.Err())
	u.mu.Lock()
	mine := u.links[l.key] == l
	if mine {
		delete(u.links, l.key)
		u.leftAt = time.Now()
		if len(u.links) == 0 && !u.closed {
			u.failed = err
			// One that lived for a while starts again at once; one that
			// keeps dying is given longer and longer rests, unless
			// somebody calls it.
			if time.Since(l.born) > 30*time.Second {
				u.deaths.Reset()
			}
			u.retryAt = time.Now().Add(u.deaths.Next())
			u.setState(Failed, err)
		}
	}
	u.mu.Unlock()
	if mine {
		u.pool.unhealthy.Add(1)
		u.pool.release()
		l.close()
		u.wake()
	}
}

// explainLost says how the process ended, if it did: its output ends a moment
// before it does.
func (u *Upstream) explainLost(l *link, err error) error {
	if l.proc == nil || u.ctx.Err() != nil {
		return err
	}
	moment := time.NewTimer(100 * time.Millisecond)
	defer moment.Stop()
	select {
	case <-l.proc.exited:
		return u.endedBy(l.proc.err)
	case <-moment.C:
		return err
	case <-u.ctx.Done():
		return err
	}
}

func (u *Upstream) wake() {
	select {
	case u.reload <- struct{}{}:
	default:
	}
}

// close ends everything and waits for it.
func (u *Upstream) close() {
	u.mu.Lock()
	u.closed = true
	links := make([]*link, 0, len(u.links))
	for _, l := range u.links {
		links = append(links, l)
	}
	u.links = map[key]*link{}
	u.mu.Unlock()
	u.cancel()
	var wg sync.WaitGroup
	for _, l := range links {
		wg.Go(func() {
			l.close()
			u.pool.release()
		})
	}
	wg.Wait()
	u.wg.Wait()
	if u.transport != nil {
		u.transport.CloseIdleConnections()
	}
}
