// Package call owns one request from arrival to result: it is the one door
// through which everything passes that runs a tool, reads a resource or gets a
// prompt, whichever face it came by.
//
// In order: may the caller use this upstream; do its headers say what the
// arguments say; do the arguments fit the tool's schema; then the upstream,
// with its queue, breakers and time-outs; then counts and metrics. A request
// that is refused has not reached the upstream.
package call

import (
	"bytes"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/upstream"
	"github.com/stoahub/stoa/internal/wire"
)

// Call is one request that is to be made.
type Call struct {
	Req      *mcp.Request
	Upstream *upstream.Upstream
	Item     *catalog.Item // the tool; nil if it is not in the catalogue, or for other methods
	Check    bool          // validate a tool's arguments
	Rename   string        // the params member to rename; empty for none
	Name     string        // what to rename it to
	Replace  *wire.Field   // a member of the params to replace; nil for none
}

// Door is where calls pass.
type Door struct {
	metrics  *obs.Metrics
	log      *slog.Logger // nil: none
	argBytes atomic.Int64
}

// New returns a door that counts in m. argBytes bounds the arguments of a
// tool; 0 means 8 MiB.
func New(m *obs.Metrics, argBytes int) *Door {
	d := &Door{metrics: m}
	d.Bound(argBytes)
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
	began := time.Now()
	resp, err := d.pass(ctx, c)
	d.count(ctx, c, resp, err, time.Since(began))
	return resp, err
}

func (d *Door) pass(ctx context.Context, c *Call) (mcp.Response, error) {
	if who := c.Req.Client.Principal; !who.Scopes.Allows(c.Upstream.Name()) {
		return mcp.Response{}, fault.New(fault.Denied, c.Upstream.Name(), "%q may not use this upstream", who.Name)
	}
	isTool := c.Req.Method == "tools/call"
	if isTool {
		if err := d.checkTool(c); err != nil {
			return mcp.Response{}, err
		}
	}
	o := mcp.Forward(c.Req)
	if c.Rename != "" {
		o.Rename(c.Rename, c.Name)
	}
	if c.Replace != nil {
		o.Replace(string(c.Replace.Name), c.Replace.Value)
	}
	meta := upstream.Call{Repeat: !isTool}
	if isTool {
		o.Headers = paramHeaders(c)
		meta.Tool = o.Name
		if c.Item != nil {
			meta.Repeat, meta.Timeout = c.Item.Idempotent, c.Item.Timeout
		} else {
			meta.Repeat = false
		}
	}
	return c.Upstream.Do(ctx, o, meta)
}

func (d *Door) checkTool(c *Call) error {
	args := c.Req.Param("arguments")
	if most := d.argBytes.Load(); int64(len(args)) > most {
		return fault.New(fault.Limit, c.Upstream.Name(), "the arguments are %d bytes, over the limit of %d", len(args), most)
	}
	if c.Item == nil {
		return nil
	}
	if c.Req.Header != nil && len(c.Item.Bindings) > 0 {
		if err := checkParamHeaders(c.Req.Header, c.Item, args); err != nil {
			return err
		}
	}
	if c.Check && c.Item.Schema != nil {
		return validate(c.Item, args)
	}
	return nil
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
func (d *Door) count(ctx context.Context, c *Call, resp mcp.Response, err error, took time.Duration) {
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
	}
	if d.metrics != nil {
		d.metrics.Call(c.Upstream.Name(), tool, kind, took)
	}
	if level := levelOf(kind); d.log != nil && d.log.Enabled(ctx, level) {
		d.tell(ctx, level, c, tool, kind, err, took)
	}
}

// saysError reports whether a tool's result says that it failed.
func saysError(result []byte) bool {
	return bytes.Contains(result, []byte(`"isError"`)) && string(wire.Get(result, "isError")) == "true"
}
