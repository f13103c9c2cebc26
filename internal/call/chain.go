package call

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/task"
	"github.com/stoahub/stoa/internal/upstream"
	"github.com/stoahub/stoa/internal/wire"
)

// An agent that is called may call others through the hub, and they may call it
// back. So that calls which come of each other are known as such, an agent is
// told the chain of calls that it is called in, and passes it on with the calls
// that it makes. The chain is signed: who could make one up could pass by
// queues.

// MetaChain is the member of _meta in which a chain travels. The others are how
// a caller says what it wants for one call.
const (
	MetaChain    = "stoa/chain"
	MetaPriority = "stoa/priority"  // high, normal or low
	MetaTimeout  = "stoa/timeoutMs" // for this call, in place of the upstream's own
	MetaRetries  = "stoa/retries"   // how often it may be tried again where that does no harm
)

const chainPrefix = "stoac1."

// MaxChain is how many calls may come of each other.
const MaxChain = 16

const (
	maxRetries = 10
	maxTimeout = time.Hour
)

// chain is what a signed chain says.
type chain struct {
	Calls []string      `json:"c"`           // outermost first
	Agent string        `json:"a,omitempty"` // that was called
	Actor *actor.Record `json:"b,omitempty"` // on whose behalf it was
}

// names gives calls names that no other hub's have.
type names struct {
	prefix string
	n      atomic.Int64
}

func newNames() *names { return &names{prefix: rand.Text()[:8] + "-"} }

func (n *names) next() string { return n.prefix + strconv.FormatInt(n.n.Add(1), 36) }

// above returns the calls that a request comes of, or a fault if they are too
// many.
func (d *Door) above(c *Call) ([]string, error) {
	raw := meta(c.Req, MetaChain)
	if raw == nil {
		return nil, nil
	}
	text, _ := wire.String(raw)
	var k chain
	if err := d.key.Open(chainPrefix, text, &k); err != nil {
		return nil, badChain(err)
	}
	if len(k.Calls) >= MaxChain {
		return nil, fault.New(fault.Loop, c.Upstream.Name(), "%d calls come of each other, which is as deep as they may", len(k.Calls)).With("depth", len(k.Calls))
	}
	return k.Calls, nil
}

// Trace makes the client of a request one that acts for whoever called the
// agent that now makes the request, if it brings a chain: an agent that calls
// back has no more rights than its caller, and a model that stands behind it
// still does.
func (d *Door) Trace(req *mcp.Request) error {
	raw := meta(req, MetaChain)
	if raw == nil {
		return nil
	}
	text, _ := wire.String(raw)
	client, err := d.Traced(req.Client, text)
	if err == nil {
		req.Client = client
	}
	return err
}

// Traced is a client that brings a chain. See Trace.
func (d *Door) Traced(c *mcp.Client, text string) (*mcp.Client, error) {
	var k chain
	if err := d.key.Open(chainPrefix, text, &k); err != nil {
		return nil, badChain(err)
	}
	if len(k.Calls) == 0 {
		return c, nil
	}
	last := k.Calls[len(k.Calls)-1]
	if c.Actor.Called(last) {
		return c, nil
	}
	if d.lookup == nil {
		return nil, fault.New(fault.Denied, MetaChain, "nobody is known here on whose behalf it could be")
	}
	caller, err := actor.Restore(k.Actor, c.Actor.Name(), d.lookup)
	if errors.Is(err, actor.ErrUnsure) {
		return nil, err
	}
	if err != nil {
		return nil, fault.New(fault.Denied, MetaChain, "the caller of the agent may not call any more: %v", err)
	}
	if c.Actor.Extends(caller) {
		return c, nil
	}
	return c.By(actor.ByAgent(k.Agent, last, caller)), nil
}

// TracedActor is an actor that brings a chain. See Trace.
func (d *Door) TracedActor(a actor.Actor, text string) (actor.Actor, error) {
	c, err := d.Traced(&mcp.Client{Actor: a}, text)
	if err != nil {
		return actor.Actor{}, err
	}
	return c.Actor, nil
}

func badChain(err error) error {
	return &fault.Error{Kind: fault.InvalidParams, Subject: MetaChain, Msg: err.Error(), Hint: "Pass on what came with the call that this one is made for, unchanged, or leave it out."}
}

// Signed reports whether a chain is one that this hub has signed, for faces
// where one of another hub may come along.
func (d *Door) Signed(text string) bool {
	var k chain
	return d.key.Open(chainPrefix, text, &k) == nil
}

// ReadChain returns the calls of a chain, outermost first, for an agent that
// wants to know which of its own calls another comes of. Only the hub that
// signed the chain can tell whether it is true.
func ReadChain(text string) []string {
	body, ok := strings.CutPrefix(text, chainPrefix)
	body, _, signed := strings.Cut(body, ".")
	raw, err := base64.RawURLEncoding.DecodeString(body)
	var k chain
	if !ok || !signed || err != nil || json.Unmarshal(raw, &k) != nil || len(k.Calls) > MaxChain {
		return nil
	}
	return k.Calls
}

// wishes reads what the caller wants for this call, and how it comes to the
// upstream's queue.
func (d *Door) wishes(c *Call, t *toolCall, m *upstream.Call) error {
	if c.Upstream.Nests() {
		m.Ticket = task.Ticket{Flow: Flow(c.Req), Call: t.call, Above: t.above}
		if c.Item != nil {
			m.Ticket.Priority, _ = task.ParsePriority(c.Item.Priority) // the config has been checked
		}
	}
	for _, f := range c.Req.Meta {
		switch string(f.Name) {
		case MetaPriority:
			text, _ := wire.String(f.Value)
			p, err := task.ParsePriority(text)
			if err != nil {
				return fault.New(fault.InvalidParams, MetaPriority, "%s is none: use high, normal or low", f.Value)
			}
			m.Ticket.Priority = p
		case MetaTimeout:
			n, err := strconv.ParseInt(string(f.Value), 10, 64)
			if err != nil || n < 1 || time.Duration(n)*time.Millisecond > maxTimeout {
				return fault.New(fault.InvalidParams, MetaTimeout, "%s is none: use milliseconds from 1 to %d", f.Value, maxTimeout.Milliseconds())
			}
			m.Timeout = time.Duration(n) * time.Millisecond
		case MetaRetries:
			n, err := strconv.Atoi(string(f.Value))
			if err != nil || n < 0 || n > maxRetries {
				return fault.New(fault.InvalidParams, MetaRetries, "%s is none: use a number from 0 to %d", f.Value, maxRetries)
			}
			m.Retries = &n
		case MetaFresh:
			switch string(f.Value) {
			case "true":
				t.fresh = true
			case "false":
			default:
				return fault.New(fault.InvalidParams, MetaFresh, "%s is none: use true or false", f.Value)
			}
		}
	}
	return nil
}

// Flow is on whose behalf calls wait in turn.
func Flow(req *mcp.Request) string {
	who := req.Client.Actor.Name()
	switch {
	case req.Session != "":
		return who + "\x00" + req.Session
	case req.Client.Connection != "":
		return who + "\x00" + req.Client.Connection
	}
	return who
}

// extend tells an agent the chain that it is called in.
func (d *Door) extend(c *Call, o *mcp.Outgoing, t *toolCall) {
	calls := append(append(make([]string, 0, len(t.above)+1), t.above...), t.call)
	if text, err := d.key.Sign(chainPrefix, chain{calls, c.Upstream.Name(), c.Req.Client.Actor.Record()}); err == nil {
		o.Annotate(MetaChain, wire.Quote(text))
	}
}
