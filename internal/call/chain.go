package call

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

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

// chain is what a signed chain says: the calls, outermost first.
type chain struct {
	Calls []string `json:"c"`
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
		return nil, &fault.Error{Kind: fault.InvalidParams, Subject: MetaChain, Msg: err.Error(), Hint: "Pass on what came with the call that this one is made for, unchanged, or leave it out."}
	}
	if len(k.Calls) >= MaxChain {
		return nil, fault.New(fault.Loop, c.Upstream.Name(), "%d calls come of each other, which is as deep as they may", len(k.Calls)).With("depth", len(k.Calls))
	}
	return k.Calls, nil
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
func (d *Door) wishes(c *Call, t *tooled, m *upstream.Call) error {
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
		}
	}
	return nil
}

// Flow is on whose behalf calls wait in turn.
func Flow(req *mcp.Request) string {
	who := req.Client.Principal.Name
	switch {
	case req.Session != "":
		return who + "\x00" + req.Session
	case req.Client.Connection != "":
		return who + "\x00" + req.Client.Connection
	}
	return who
}

// extend tells an agent the chain that it is called in.
func (d *Door) extend(o *mcp.Outgoing, t *tooled) {
	calls := append(append(make([]string, 0, len(t.above)+1), t.above...), t.call)
	if text, err := d.key.Sign(chainPrefix, chain{calls}); err == nil {
		o.Annotate(MetaChain, wire.Quote(text))
	}
}
