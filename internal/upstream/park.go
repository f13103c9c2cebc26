package upstream

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// A legacy server asks its client in the middle of a call; a modern client is
// asked by the answer to its request and comes again. Between the two the call
// is parked: it goes on waiting at the server, keeps its place in the queue,
// and is found again by a signed requestState.

// parked is a call that outlives the request that began it.
type parked struct {
	id        string
	principal string
	tag       string // of the actor
	cancel    context.CancelCauseFunc
	done      chan struct{} // closed when resp and err are set
	resp      mcp.Response
	err       error
	asked     chan struct{} // holds a token while questions wait

	mu      sync.Mutex
	stream  mcp.Stream // of the request that waits now; nil while parked
	token   []byte     // its progress token
	held    []held     // notifications that came while parked
	open    map[string]*question
	next    int
	expires *time.Timer
}

type held struct {
	method string
	params []byte
}

type question struct {
	method string
	params []byte
	answer chan mcp.Response
	told   bool // it is in an answer that the client has been given
}

const (
	maxHeld      = 1000
	maxQuestions = 64 // of one call, unanswered

	// A server may ask several things at once, and nothing tells how many.
	// Those that come in such a quick succession are put to the client
	// together; what comes later is asked in the next round.
	gatherQuiet = 20 * time.Millisecond
	gatherMost  = 100 * time.Millisecond
)

func (p *parked) Notify(method string, params []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stream != nil {
		p.tell(held{method, params})
	} else if len(p.held) < maxHeld {
		p.held = append(p.held, held{method, params})
	}
}

// tell sends a notification under the progress token of the request that waits
// now, which need not be that of the one before. Called with mu held.
func (p *parked) tell(h held) {
	if h.method == "notifications/progress" {
		if p.token == nil {
			return
		}
		if !bytes.Equal(wire.Get(h.params, "progressToken"), p.token) {
			h.params = wire.Edit(nil, h.params, wire.Change{Name: "progressToken", Value: p.token})
		}
	}
	p.stream.Notify(h.method, h.params)
}

func (p *parked) Flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stream != nil {
		p.stream.Flush()
	}
}

func (p *parked) CanAsk() bool { return true }

// Ask puts a question to the client with the next answer it is given.
func (p *parked) Ask(ctx context.Context, method string, params []byte) (mcp.Response, error) {
	q := &question{method: method, params: mcp.ModernQuestion(method, params), answer: make(chan mcp.Response, 1)}
	p.mu.Lock()
	if len(p.open) >= maxQuestions {
		p.mu.Unlock()
		return mcp.Response{}, fault.New(fault.Limit, method, "the call has %d unanswered questions already", maxQuestions)
	}
	p.next++
	name := "q" + strconv.Itoa(p.next)
	p.open[name] = q
	p.mu.Unlock()
	select {
	case p.asked <- struct{}{}:
	default:
	}
	defer func() {
		p.mu.Lock()
		delete(p.open, name)
		p.mu.Unlock()
	}()
	select {
	case r := <-q.answer:
		return r, nil
	case <-ctx.Done():
		return mcp.Response{}, context.Cause(ctx)
	}
}

// parks reports whether calls of modern clients may have to be parked here: if
// the upstream speaks the legacy era only. It finds that out if need be.
func (u *Upstream) parks(ctx context.Context) (bool, error) {
	if u.Eras() == 0 {
		l, err := u.link(ctx, nil, "")
		if err != nil {
			return false, err
		}
		l.release()
	}
	return !u.Eras().Has(mcp.Modern), nil
}

// park begins or continues a call of a modern client to a legacy server.
func (u *Upstream) park(ctx context.Context, o *mcp.Outgoing, c Call) (mcp.Response, error) {
	state := ""
	for _, f := range o.Fields {
		if string(f.Name) == "requestState" {
			state, _ = wire.String(f.Value)
		}
	}
	if state != "" {
		return u.resume(ctx, o, state)
	}
	// Answers to what the server demanded by an error: it knows them from
	// elsewhere and would not know these names.
	o.Drop("inputResponses")
	if !o.Client.Can(mcp.Elicitation) && !o.Client.Can(mcp.Sampling) {
		return u.once(ctx, o, c) // nothing can be asked, so nothing is parked
	}
	return u.begin(ctx, o, c)
}

// begin runs a call so that it can be parked, and waits for its first outcome.
func (u *Upstream) begin(ctx context.Context, o *mcp.Outgoing, c Call) (mcp.Response, error) {
	p := &parked{
		id: rand.Text(), principal: o.Client.Actor.Name(), tag: o.Client.Actor.Tag(),
		done: make(chan struct{}), asked: make(chan struct{}, 1), open: map[string]*question{},
	}
	p.attach(o)
	own := o.Clone()
	own.Stream = p
	call, cancel := context.WithCancelCause(u.ctx)
	p.cancel = cancel
	u.mu.Lock()
	if u.closed {
		u.mu.Unlock()
		cancel(nil)
		return mcp.Response{}, u.mayDial(o.Client)
	}
	u.wg.Go(func() {
		defer cancel(nil)
		p.resp, p.err = u.guarded(call, own, c)
		if call.Err() != nil && p.err == nil {
			// What a server says to a question that was taken back with the call.
			p.resp.Release()
			p.resp, p.err = mcp.Response{}, u.fault(call, own, context.Cause(call))
		}
		close(p.done)
	})
	u.mu.Unlock()
	return u.await(ctx, p, own)
}

// guarded is once on a goroutine that nobody else guards.
func (u *Upstream) guarded(ctx context.Context, o *mcp.Outgoing, c Call) (resp mcp.Response, err error) {
	defer u.caught(&err)
	return u.once(ctx, o, c)
}

// await waits for the outcome of a call: its end, or a question.
func (u *Upstream) await(ctx context.Context, p *parked, o *mcp.Outgoing) (mcp.Response, error) {
	select {
	case <-p.done:
		return p.resp, p.err
	case <-ctx.Done():
		p.cancel(context.Cause(ctx))
		<-p.done
		return mcp.Response{}, context.Cause(ctx)
	case <-p.asked:
	}
	var result []byte
	if p.gather(ctx) {
		result = p.demand()
	}
	if result == nil {
		return u.await(ctx, p, o) // it has ended, or the question was taken back
	}
	state, err := u.pool.parking.park(p, u.opts.Name, o)
	if err != nil {
		p.cancel(err)
		<-p.done
		return mcp.Response{}, err
	}
	return mcp.Response{Result: wire.Edit(nil, result, wire.Change{Name: "requestState", Value: wire.Quote(state)})}, nil
}

// gather waits until the server has asked what it has to ask at once. It
// reports false if the call or the request ended meanwhile.
func (p *parked) gather(ctx context.Context) bool {
	quiet, most := time.NewTimer(gatherQuiet), time.NewTimer(gatherMost)
	defer quiet.Stop()
	defer most.Stop()
	for {
		select {
		case <-p.asked:
			quiet.Reset(gatherQuiet)
		case <-quiet.C:
			return true
		case <-most.C:
			return true
		case <-p.done:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// demand renders the open questions as an input_required result and detaches
// the request; nil if there are none.
func (p *parked) demand() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	requests := map[string]any{}
	for name, q := range p.open {
		entry := map[string]any{"method": q.method}
		if q.params != nil {
			entry["params"] = json.RawMessage(q.params)
		}
		requests[name] = entry
		q.told = true
	}
	if len(requests) == 0 {
		return nil
	}
	b, err := json.Marshal(map[string]any{"resultType": "input_required", "inputRequests": requests})
	if err != nil {
		return nil
	}
	p.stream.Flush()
	p.stream = nil
	return b
}

// resume gives a parked call its client's answers and waits for what follows.
func (u *Upstream) resume(ctx context.Context, o *mcp.Outgoing, state string) (mcp.Response, error) {
	p, err := u.pool.parking.find(u.opts.Name, o, state)
	if err != nil {
		return mcp.Response{}, err
	}
	own := o.Clone()
	p.attach(o)
	if !p.take(wire.Members(wire.Get(wire.EditFields(nil, own.Fields), "inputResponses"))) {
		// What was not answered is asked again.
		select {
		case p.asked <- struct{}{}:
		default:
		}
	}
	return u.await(ctx, p, own)
}

// attach makes o the request that waits now.
func (p *parked) attach(o *mcp.Outgoing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.expires != nil {
		p.expires.Stop()
	}
	p.stream, p.token = o.Stream, bytes.Clone(o.Token)
	if p.stream == nil {
		p.stream = mcp.Discard
	}
	for _, h := range p.held {
		p.tell(h)
	}
	p.held = nil
}

// take hands answers to those who asked, and reports whether all questions that
// the client was told of have been answered.
func (p *parked) take(answers []wire.Field) (all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range answers {
		name := string(a.Name)
		q := p.open[name]
		if q == nil || !q.told {
			continue
		}
		delete(p.open, name) // now, lest it be asked again
		q.answer <- mcp.Response{Result: bytes.Clone(a.Value)}
	}
	for _, q := range p.open {
		if q.told {
			return false
		}
	}
	return true
}
