package mcp

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/wire"
)

// pending is one request that a server has not answered yet.
type pending struct {
	o      *Outgoing
	ctx    context.Context
	id     int64
	stream Stream
	wg     sync.WaitGroup // requests of the server on behalf of this one
	sent   atomic.Bool    // over a pipe: it has been written

	telling sync.Mutex // held while the client is told something, however slow it is

	mu     sync.Mutex // never held while waiting for anyone
	over   bool
	stop   []context.CancelFunc
	events []event
	bytes  int
	ready  chan struct{}
	visits [][]byte  // elicitationIds, raw, of the addresses that its user was sent to
	open   int       // questions of the server that its client has not answered
	asked  time.Time // when the last of them came
}

// event is something that happened to a pending request, in order.
type event struct {
	method string // a notification
	params []byte
	resp   *Response // the answer
	long   bool      // the answer is larger than the limit
	err    error     // there will be none
}

// The most that may wait for a slow client before notifications are dropped,
// since the reader they come from serves other clients too.
const (
	maxEvents     = 1 << 14
	maxEventBytes = 8 << 20
)

func (p *pending) push(e event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.resp == nil && e.err == nil && !e.long && (len(p.events) >= maxEvents || p.bytes > maxEventBytes) {
		return
	}
	p.events = append(p.events, e)
	p.bytes += len(e.params)
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

func (p *pending) take() []event {
	p.mu.Lock()
	defer p.mu.Unlock()
	events := p.events
	p.events, p.bytes = nil, 0
	return events
}

// tell hands a notification to the client unless the request has been
// answered: nothing may follow a response.
func (p *pending) tell(method string, params []byte) {
	p.telling.Lock()
	defer p.telling.Unlock()
	p.mu.Lock()
	over := p.over
	p.mu.Unlock()
	if !over {
		p.stream.Notify(method, params)
	}
}

// spawn runs f, which serves this request, with a context that ends with it.
// It reports whether the request was still pending.
func (p *pending) spawn(f func(context.Context)) (context.CancelFunc, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return nil, false
	}
	ctx, cancel := context.WithCancel(p.ctx)
	p.stop = append(p.stop, cancel)
	p.wg.Go(func() { f(ctx) })
	return cancel, true
}

// end waits for what was spawned, after telling it to stop.
func (p *pending) end() {
	p.mu.Lock()
	p.over = true
	for _, cancel := range p.stop {
		cancel()
	}
	p.mu.Unlock()
	p.wg.Wait()
	p.telling.Lock() // what is being told now is the last
	defer p.telling.Unlock()
}

// asks notes that the server asks the client something during this request, and
// answered that one of its questions is settled.
func (p *pending) asks() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open++
	p.asked = time.Now()
}

func (p *pending) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
}

// waiting reports whether the server waits for the client and has asked nothing
// more for a while. What the server says then hardly belongs to this request: it
// asks what it has to ask at once, and goes on when it is answered. A client may
// be long about its answer, or be gone for good, and must not keep the others
// from being asked.
func (p *pending) waiting(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open > 0 && now.Sub(p.asked) > haunt
}

// note hands a notification of the request to the client, if it wants it.
// m belongs to the caller; what is kept is copied.
func (p *pending) note(m *wire.Message, deliver func(method string, params []byte)) {
	switch m.Method {
	case NoteProgress:
		if p.o.Token == nil {
			return
		}
		deliver(m.Method, wire.EditFields(nil, m.Fields, wire.Change{Name: metaProgress, Value: p.o.Token}))
	case noteMessage:
		if p.wantsLog(m) {
			deliver(m.Method, clone(m.Params))
		}
	case noteVisited:
		if p.o.Client == nil || p.o.Client.Era == Modern {
			return // that era knows no such ids
		}
		deliver(m.Method, clone(m.Params))
	default:
		deliver(m.Method, clone(m.Params))
	}
}

func (p *pending) wantsLog(m *wire.Message) bool {
	c := p.o.Client
	if c == nil {
		return false
	}
	want := p.o.LogLevel
	if c.Era == Legacy {
		want = c.LogLevel()
		if want == "" {
			return true // the server decides, as the era says
		}
	}
	level, _ := wire.String(m.Param("level"))
	return want != "" && LogRank(level) >= LogRank(want)
}
