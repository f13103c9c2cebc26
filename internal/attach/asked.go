package attach

import (
	"slices"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// asked is a request of the client that has not been answered: one message, or
// a batch of them, which is answered as a whole.
type asked struct {
	ids    [][]byte // raw
	b      []byte
	method string   // of the only request; empty for a batch
	params []byte   // of one that the next hub must hear of, too
	calls  []string // the tools that it calls
	modern bool
	state  state
	losses int    // how many hubs were lost during it
	held   []byte // the answer of a hub that is stopping, if that has given it up

	listen bool // it is a subscription
	acked  bool // and the client knows
	filter mcp.Filter
}

// state is how far a request has got.
type state int

const (
	waits    state = iota // in our lane: no hub has seen it
	onItsWay              // given to the present link
	adrift                // given to a link that was lost: a hub may have seen it
)

// maxLosses is how many hubs one request may take down before it is given up:
// it may be what ends them.
const maxLosses = 5

// table is the requests of the client, in their order.
type table struct {
	byID  map[string]*asked
	order []*asked
}

// key makes ids comparable that are written differently.
func key(id []byte) string {
	if text, ok := wire.String(id); ok {
		return "s" + text
	}
	return string(id)
}

// find returns the request with a raw id, or nil.
func (t *table) find(id []byte) *asked { return t.byID[key(id)] }

func (t *table) add(a *asked) {
	t.order = append(t.order, a)
	for _, id := range a.ids {
		t.byID[key(id)] = a
	}
}

func (t *table) remove(a *asked) {
	for _, id := range a.ids {
		delete(t.byID, key(id))
	}
	t.order = slices.DeleteFunc(t.order, func(b *asked) bool { return a == b })
}

// all is for loops that remove.
func (t *table) all() []*asked { return slices.Clone(t.order) }

// open counts the requests that will be answered by themselves.
func (t *table) open() (n int) {
	for _, a := range t.order {
		if !a.listen {
			n++
		}
	}
	return n
}

// fail answers a request by a fault.
func (p *pump) fail(a *asked, f *fault.Error) {
	p.asked.remove(a)
	p.toHub.keep(func(f frame) bool { return f.asked != a })
	object := f.Wire(a.modern)
	if a.method != "" {
		p.tell(wire.AppendError(nil, a.ids[0], object))
		return
	}
	b := []byte{'['}
	for i, id := range a.ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendError(b, id, object)
	}
	p.tell(append(b, ']'))
}

// tell gives a frame to the client.
func (p *pump) tell(b []byte) { p.toClient.put(frame{b: b}) }

// lostCall is the fault of a request that went down with a hub.
func lostCall(a *asked) *fault.Error {
	subject := a.method
	if len(a.calls) > 0 {
		subject = a.calls[0]
	}
	f := fault.New(fault.UpstreamLost, subject, "the hub went away during the call; whether it took effect is not known")
	if a.losses > 1 {
		f.Msg += "; it was repeated, and the hub went away each time"
		f.With("losses", a.losses)
	}
	return f
}
