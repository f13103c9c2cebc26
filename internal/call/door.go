// Package call owns one request from arrival to result: it is the one door
// through which everything passes that runs a tool, reads a resource or gets a
// prompt, whichever face it came by.
//
// In order: may those still come in whom the caller acts for; may the caller use
// this upstream; do its headers say what the arguments say; does the policy allow
// the call, or a person whom it has asked; what do references in the arguments
// stand for; do the arguments fit the tool's schema; is there a result that may be
// reused; then the upstream, with its queue, breakers and time-outs; then what is
// kept of the result; then counts, metrics and the record of the call. A request
// that is refused has not reached the upstream.
package call

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/exchange"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/incident"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/seal"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/upstream"
	"github.com/stoahub/stoa/internal/wire"
)

// Call is one request that is to be made.
type Call struct {
	Req      *mcp.Request
	Upstream *upstream.Upstream
	Item     *catalog.Item     // the tool; nil if it is not in the catalogue, or for other methods
	Standing *catalog.Standing // of the definition that the client was given, if that is another than Item's; nil for none
	Unlisted bool              // the name is in no list that the hub knows
	Check    bool              // validate a tool's arguments
	Rename   string            // the params member to rename; empty for none
	Name     string            // what to rename it to
	Replace  *wire.Field       // a member of the params to replace; nil for none

	Key string // goes along, the same each time the call is tried; empty for none
	Hooks
	Tasks bool // the upstream may answer with a task

	Kept       bool // the face has Sessions: results can be kept
	References bool // references in arguments are replaced
	Stateful   bool // the face offers saveAs as an argument
	Cards      bool // a card may take the place of a result
	Told       bool // a model reads the answer: what was kept is told in its text
}

// Hooks are what the hub's own parts have to do with the calls that they make.
// Each may be left out.
type Hooks struct {
	Ask      policy.Asker                // asks a person in place of the desk
	MustAsk  string                      // why a person is to be asked, also where the policy would allow the call
	Starting func(context.Context) error // see upstream.Call
}

// Options are what a Door works with. All but ArgBytes may be nil.
type Options struct {
	// Process is the name of this process among those whose clients bring back
	// what Key signs; empty for one of its own.
	Process  string
	Metrics  *obs.Metrics
	Events   *event.Bus
	Raw      *exchange.Ring // of what passes while somebody watches
	Book     *incident.Book // of what went wrong
	Tracer   *obs.Tracer
	Sessions *session.Registry
	Desk     *policy.Desk // where people are asked; nil: nobody can be
	Rules    *policy.Set
	// Principal returns who has a name now, or nil: those behind a call may have
	// been there before it, and may have gone. If it is nil itself, no chain of
	// another call is believed, and nobody is looked up again.
	Principal Lookup
	// Leads reports whether what a server offers leads to the hub of that id;
	// nil means that nothing does.
	Leads func(server, hub string) bool
	// Registrant is who has registered the agent that a server is, or "" if it is
	// none. What was allowed of one says nothing of another with its name; nil
	// means that there are no such agents.
	Registrant func(server string) string
	// Gone reports whether others have taken away what is called, which it asks the
	// store for; nil: nobody else can.
	Gone func(ctx context.Context, c *Call) bool

	Key      seal.Key // signs what continues a call; nil means one that nobody else has
	ArgBytes int      // bound of a tool's arguments; 0 means 8 MiB
	// Of results that are kept to be reused; 0 means 4096 and 64 MiB.
	CacheEntries, CacheBytes int
}

// Door is where calls pass.
type Door struct {
	metrics  *obs.Metrics
	log      *slog.Logger // nil: none
	events   *event.Bus
	raw      *exchange.Ring
	book     *incident.Book
	tracer   *obs.Tracer
	sessions *session.Registry
	key      seal.Key
	names    *names
	desk     *policy.Desk
	boot     string // names this process: it is another one after each start
	used     spent
	cache    *cache
	runs     runs
	reuses   func(n int64, pairs ...string) // counts calls of tools whose results can be reused; nil: none does
	lookup   Lookup
	leads    func(server, hub string) bool // nil: nothing does

	registrant func(server string) string // nil: there are no agents that register
	gone       func(ctx context.Context, c *Call) bool

	rules    atomic.Pointer[policy.Set]
	said     atomic.Pointer[map[string]bool]  // servers that are on or off unless a Session says otherwise
	offers   atomic.Pointer[map[string]Offer] // of the built-in modules
	agents   func(string) Agent               // nil: nothing is said of any
	argBytes atomic.Int64
}

// New returns a door.
func New(o Options) *Door {
	if o.Key == nil {
		o.Key = seal.Random()
	}
	d := &Door{metrics: o.Metrics, events: o.Events, raw: o.Raw, book: o.Book, tracer: o.Tracer, sessions: o.Sessions, key: o.Key, names: newNames(), desk: o.Desk, boot: cmp.Or(o.Process, rand.Text()), lookup: o.Principal, leads: o.Leads, registrant: o.Registrant, gone: o.Gone, cache: newCache()}
	d.BoundCache(o.CacheEntries, o.CacheBytes)
	if o.Metrics != nil {
		d.reuses = o.Metrics.Counter("stoa_cache_total", "Calls of tools whose results are cached, by upstream and outcome: hit, miss, or fresh (the caller asked for a new result).")
	}
	d.Rule(o.Rules)
	d.Bound(o.ArgBytes)
	return d
}

// LogTo makes the door log what became of calls: one that could not be made as
// a warning where its upstream failed, the rest as details. It is called
// before the first call.
func (d *Door) LogTo(l *slog.Logger) { d.log = l }

// Bound changes the bound of a tool's arguments; 0 means 8 MiB.
func (d *Door) Bound(argBytes int) {
	if argBytes == 0 {
		argBytes = 8 << 20
	}
	d.argBytes.Store(int64(argBytes))
}

// Do makes the call.
func (d *Door) Do(ctx context.Context, c *Call) (mcp.Response, error) {
	c.Req.Told = true // when it is over
	began := time.Now()
	var t toolCall
	if d.tracer != nil {
		ctx, t.span = d.span(ctx, c)
	}
	resp, err := d.attended(ctx, c, &t, began)
	t.ended = time.Now() // the clock is read once for the record and the time that it took
	d.count(ctx, c, &t, resp, err, t.ended.Sub(began)-t.waited)
	return resp, err
}

// cancellable makes the call so that somebody else can cancel it, if it is one of
// a tool.
func (d *Door) cancellable(ctx context.Context, c *Call, t *toolCall, began time.Time) (resp mcp.Response, err error) {
	if c.Req.Method != "tools/call" {
		return d.pass(ctx, c, t)
	}
	t.call = d.names.next()
	ctx, run := d.runs.begin(ctx, c, t, began)
	defer func() { // also if it panics
		if by := d.runs.end(run); by != "" && err != nil {
			told := cancelledBy(run)
			told.Harmless = fault.Of(err).Harmless
			err = told.Because(err)
		}
	}()
	return d.pass(ctx, c, t)
}

func (d *Door) pass(ctx context.Context, c *Call, t *toolCall) (mcp.Response, error) {
	isTool := c.Req.Method == "tools/call"
	if err := d.admit(ctx, c, t); err != nil {
		return mcp.Response{}, err
	}
	o := mcp.Forward(c.Req)
	if c.Rename != "" {
		o.Rename(c.Rename, c.Name)
	}
	if c.Replace != nil {
		o.Replace(string(c.Replace.Name), c.Replace.Value)
	}
	o.Tasks = c.Tasks
	carry(c, o, t.span)
	if key := cmp.Or(c.Key, o.Asked.Key); key != "" {
		o.Asked.Key = "" // nor is this one that of others
		o.Annotate(MetaKey, wire.Quote(key))
	}
	meta := upstream.Call{Repeat: !isTool, Starting: c.Starting}
	if t.approved {
		meta.Starting = d.startApproved(c)
	}
	t.change(o)
	o.Asked.Kept, o.Asked.CardAbove = t.saveAs != "" || c.Req.Kept, c.cardAbove(t)
	if isTool {
		o.Headers = paramHeaders(c, t.args)
		meta.Tool = o.Name
		if c.Item != nil {
			meta.Repeat, meta.Timeout = c.Item.Idempotent, c.Item.Timeout
		} else {
			meta.Repeat = false
		}
		if err := d.wishes(c, t, &meta); err != nil {
			return mcp.Response{}, err
		}
		if c.Upstream.Nests() {
			d.extend(c, o, t)
		}
		if t.fresh {
			o.Annotate(MetaFresh, []byte("true")) // the server may be a hub
		}
		if c.Item != nil && c.Item.CacheFor > 0 {
			if resp, done, err := d.reused(ctx, c, t, o, &meta); done {
				return resp, err
			}
		}
	}
	if d.events != nil && d.events.Watched() {
		d.begin(c, t, o)
	}
	resp, err := c.Upstream.Do(ctx, o, meta)
	if t.raw != nil {
		t.answered(resp, err)
	}
	if err != nil || !isTool || resp.Result == nil {
		return resp, err
	}
	if t.reuse != nil {
		d.remember(c, t, resp)
	}
	return d.conclude(ctx, c, t, resp)
}

// admit finds out whether the request may be made, and makes of it what the
// upstream is to get.
func (d *Door) admit(ctx context.Context, c *Call, t *toolCall) error {
	a := c.Req.Client.Actor
	if a.Depth() > actor.MaxDepth {
		return fault.New(fault.Loop, c.Upstream.Name(), "%d delegates act for each other, which is as many as may", a.Depth())
	}
	if err := d.delegated(ctx, c); err != nil {
		return err
	}
	if !d.stillSees(ctx, c) {
		return unseen(c)
	}
	if err := d.held(c); err != nil {
		return err
	}
	if c.Req.Method == "tools/call" {
		return d.prepare(ctx, c, t)
	}
	t.args = c.Req.Param("arguments")
	_, err := d.authorise(ctx, c, t)
	return err
}

// stillSees is sees by what all hubs on the store have said until now.
func (d *Door) stillSees(ctx context.Context, c *Call) bool {
	return (d.gone == nil || !d.gone(ctx, c)) && d.sees(c)
}

// unseen is the answer to what names something that is not there for the
// caller, which is the answer to what is not there at all.
func unseen(c *Call) error {
	name, _ := c.Req.Text("name")
	switch c.Req.Method {
	case "tools/call":
		return fault.New(fault.UnknownTool, name, "unknown tool")
	case "prompts/get":
		return fault.New(fault.UnknownTool, name, "unknown prompt")
	case "resources/read", "resources/subscribe":
		uri, _ := c.Req.Text("uri")
		return NoResource(uri)
	}
	return fault.New(fault.UnknownAgent, "", "Agent '%s' not found", c.Upstream.Name())
}

// NoResource is the answer to the URI of a resource that nobody offers, or that
// the caller cannot see.
func NoResource(uri string) error {
	return fault.New(fault.ResourceNotFound, uri, "no upstream offers this resource").With("uri", uri)
}

// validate checks arguments against the tool's schema. A schema that does not
// compile checks nothing: that is the server's fault, not the caller's.
func validate(it *catalog.Item, args []byte) error {
	s, err := it.Schema.Get()
	if err != nil {
		return nil
	}
	faults := s.Validate(args)
	if len(faults) == 0 {
		return nil
	}
	var text bytes.Buffer
	text.WriteString("the arguments do not fit the tool's schema:")
	for i, f := range faults {
		if i > 0 {
			text.WriteByte(';')
		}
		at := f.Pointer
		if at == "" {
			at = "(arguments)"
		}
		text.WriteString(" " + at + " " + f.Message)
	}
	return fault.New(fault.InvalidArguments, it.Exposed, "%s", text.String()).With("faults", faults)
}

// count records how a call went.
func (d *Door) count(ctx context.Context, c *Call, t *toolCall, resp mcp.Response, err error, took time.Duration) {
	kind, tool := "", c.Req.Method
	switch {
	case err != nil:
		kind = fault.Of(err).Kind.String()
	case resp.Error != nil || saysError(resp.Result):
		kind = obs.ToolError
	}
	if c.Item != nil && c.Item.Kind == catalog.Tool {
		tool = c.Item.Name
		c.Item.Stat.Add(kind == "", took)
		if t.reuse != nil {
			d.countReuse(c, t)
		}
	}
	if d.metrics != nil {
		d.metrics.Call(c.Upstream.Name(), tool, kind, took)
	}
	if level := levelOf(kind); d.log != nil && d.log.Enabled(ctx, level) {
		d.tell(ctx, level, c, tool, kind, err, took)
	}
	if d.events != nil {
		if t.raw != nil || err != nil {
			d.end(c, t, tool, kind, err, took)
		}
		r := event.Record{Time: t.ended, Type: event.CallDone, Level: eventLevel(kind), Tool: tool, Kind: kind, Bytes: len(resp.Result), TookUS: took.Microseconds()}
		record(&r, c, t)
		d.events.Emit(r)
	}
	t.span.End(kind)
	if kind != "" && d.book != nil {
		d.blame(c, t, tool, kind, resp, err, took)
	}
}

// saysError reports whether a tool's result says that it failed.
func saysError(result []byte) bool {
	return wire.Contains(result, `"isError"`, 3) && string(wire.Get(result, "isError")) == "true"
}

// Face is what the hub's own parts call tools by, on behalf of somebody.
type Face interface {
	mcp.Handler
	// Call is Handle for tools/call, for those who have something to do with
	// the call.
	Call(ctx context.Context, req *mcp.Request, h Hooks) (mcp.Response, error)
}
