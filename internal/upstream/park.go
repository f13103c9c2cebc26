package upstream

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
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

const (
	parkedFor = 5 * time.Minute // how long a parked call waits for its client
	parkedMax = 16              // parked calls of one principal
)

// parking is where the parked calls of a pool are.
type parking struct {
	key  []byte // signs requestState
	node string // tells our requestState from that of another hub

	mu sync.Mutex
	m  map[string]*parked
}

func newParking(key []byte) *parking {
	if key == nil {
		key = make([]byte, 32)
		rand.Read(key)
	}
	node := sha256.Sum256(append([]byte("node"), key...))
	return &parking{key: key, node: base64.RawURLEncoding.EncodeToString(node[:6]), m: map[string]*parked{}}
}

// parked is a call that outlives the request that began it.
type parked struct {
	id        string
	principal string
	cancel    context.CancelCauseFunc
	done      chan struct{} // closed when resp and err are set
	resp      mcp.Response
	err       error
	asked     chan struct{} // holds a token while questions wait

	mu      sync.Mutex
	stream  mcp.Stream // of the request that waits now; nil while parked
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

const maxHeld = 1000

func (p *parked) Notify(method string, params []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stream != nil {
		p.stream.Notify(method, params)
	} else if len(p.held) < maxHeld {
		p.held = append(p.held, held{method, params})
	}
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
		l, err := u.link(ctx, nil)
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
		id: rand.Text(), principal: o.Client.Principal.Name, stream: o.Stream,
		done: make(chan struct{}), asked: make(chan struct{}, 1), open: map[string]*question{},
	}
	own := o.Clone()
	own.Stream = p
	call, cancel := context.WithCancelCause(u.ctx)
	p.cancel = cancel
	u.mu.Lock()
	if u.closed {
		u.mu.Unlock()
		cancel(nil)
		return mcp.Response{}, u.mayDial()
	}
	u.wg.Go(func() {
		defer cancel(nil)
		p.resp, p.err = u.once(call, own, c)
		close(p.done)
	})
	u.mu.Unlock()
	return u.await(ctx, p, own)
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
	result := p.demand()
	if result == nil {
		return u.await(ctx, p, o) // the question was taken back
	}
	state, err := u.pool.parking.park(p, u.opts.Name, o)
	if err != nil {
		p.cancel(err)
		<-p.done
		return mcp.Response{}, err
	}
	return mcp.Response{Result: wire.Edit(nil, result, wire.Change{Name: "requestState", Value: wire.Quote(state)})}, nil
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

// ticket is what a requestState says.
type ticket struct {
	Node      string `json:"n"`
	ID        string `json:"i"`
	Upstream  string `json:"u"`
	Principal string `json:"p"`
	Method    string `json:"m"`
	Digest    string `json:"d"` // of the params that must not change
	Expires   int64  `json:"e"`
}

const statePrefix = "stoa1."

func (k *parking) sign(t ticket) string {
	body, _ := json.Marshal(t)
	text := base64.RawURLEncoding.EncodeToString(body)
	mac := hmac.New(sha256.New, k.key)
	mac.Write([]byte(text))
	return statePrefix + text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (k *parking) open(state string) (ticket, error) {
	bad := fault.New(fault.InvalidParams, "requestState", "it was not made by this hub, or was changed")
	text, ok := strings.CutPrefix(state, statePrefix)
	text, sum, ok2 := strings.Cut(text, ".")
	got, err := base64.RawURLEncoding.DecodeString(sum)
	mac := hmac.New(sha256.New, k.key)
	mac.Write([]byte(text))
	if !ok || !ok2 || err != nil || !hmac.Equal(got, mac.Sum(nil)) {
		return ticket{}, bad
	}
	var t ticket
	body, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(body, &t) != nil {
		return ticket{}, bad
	}
	return t, nil
}

// digest is of the params that a client must repeat unchanged.
func digest(o *mcp.Outgoing) string {
	var kept []wire.Field
	for _, f := range o.Fields {
		switch string(f.Name) {
		case "_meta", "inputResponses", "requestState":
		default:
			kept = append(kept, f)
		}
	}
	sum := sha256.Sum256(wire.EditFields(nil, kept))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// park keeps a call for its client to come back to.
func (k *parking) park(p *parked, upstream string, o *mcp.Outgoing) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, again := k.m[p.id]; !again {
		n := 0
		for _, other := range k.m {
			if other.principal == p.principal {
				n++
			}
		}
		if n >= parkedMax {
			return "", &fault.Error{Kind: fault.Limit, Subject: upstream, Msg: "too many calls of yours wait for input", Hint: "Answer or abandon some of them first."}
		}
		k.m[p.id] = p
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.expires != nil {
		p.expires.Stop()
	}
	p.expires = time.AfterFunc(parkedFor, func() { k.drop(p, errAbandoned) })
	return k.sign(ticket{
		Node: k.node, ID: p.id, Upstream: upstream, Principal: p.principal,
		Method: o.Method, Digest: digest(o), Expires: time.Now().Add(parkedFor).Unix(),
	}), nil
}

var errAbandoned = fault.New(fault.Cancelled, "", "the client did not come back with the input in time")

// drop forgets a call and ends it.
func (k *parking) drop(p *parked, cause error) {
	k.mu.Lock()
	delete(k.m, p.id)
	k.mu.Unlock()
	p.cancel(cause)
}

// find returns the parked call that a client's request continues.
func (k *parking) find(upstream string, o *mcp.Outgoing, state string) (*parked, error) {
	t, err := k.open(state)
	if err != nil {
		return nil, err
	}
	lost := fault.New(fault.ContinuationLost, upstream, "the call that this input belongs to is over")
	switch {
	case t.Principal != o.Client.Principal.Name || t.Upstream != upstream || t.Method != o.Method || t.Digest != digest(o):
		return nil, fault.New(fault.InvalidParams, "requestState", "it belongs to another request")
	case t.Node != k.node || time.Now().Unix() > t.Expires:
		return nil, lost
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.m[t.ID]
	if p == nil {
		return nil, lost
	}
	delete(k.m, t.ID)
	return p, nil
}

// resume gives a parked call its client's answers and waits for what follows.
func (u *Upstream) resume(ctx context.Context, o *mcp.Outgoing, state string) (mcp.Response, error) {
	p, err := u.pool.parking.find(u.opts.Name, o, state)
	if err != nil {
		return mcp.Response{}, err
	}
	own := o.Clone()
	p.attach(o.Stream)
	if !p.take(wire.Members(wire.Get(wire.EditFields(nil, own.Fields), "inputResponses"))) {
		// Nothing was answered: ask again.
		select {
		case p.asked <- struct{}{}:
		default:
		}
	}
	return u.await(ctx, p, own)
}

// attach makes stream that of the request that waits now.
func (p *parked) attach(stream mcp.Stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.expires != nil {
		p.expires.Stop()
	}
	if stream == nil {
		stream = mcp.Discard
	}
	p.stream = stream
	for _, h := range p.held {
		stream.Notify(h.method, h.params)
	}
	p.held = nil
}

// take hands answers to those who asked, and reports whether any question that
// the client was told of has been answered.
func (p *parked) take(answers []wire.Field) (any bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range answers {
		q := p.open[string(a.Name)]
		if q == nil || !q.told {
			continue
		}
		q.told = false
		q.answer <- mcp.Response{Result: bytes.Clone(a.Value)}
		any = true
	}
	return any
}
