package call

import (
	"context"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/exchange"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/wire"
)

// toolCall is what a call of a tool has besides the request.
type toolCall struct {
	call     string              // the call's name; of other requests, only while somebody watches
	raw      *exchange.Recording // of what passes; nil for none
	above    []string            // the calls that it comes of
	session  *session.Session    // what the request is bound to, if that matters; nil for none
	args     []byte              // as the upstream gets them
	changed  bool                // they are not as they came
	used     []session.Used      // what references stood for
	saveAs   string              // the name to keep the result under
	saved    string              // the name that it was kept under
	dry      bool                // nothing is to be made, and nobody asked
	pins     []session.Used      // what references stood for in the round before, or when a person was asked
	waited   time.Duration       // for a person
	ended    time.Time           // when there was an answer
	approved bool                // by a person, in this round or one before
	edited   []byte              // the arguments that the person wants in place of the caller's; nil for none
	resumed  bool                // the request continues a call whose state we wrapped
	span     *obs.Span           // of the call; nil for none
	fresh    bool                // the caller wants the server's own answer
	reuse    *reuse              // of a result that can be reused; nil for none
	state    []byte              // then: the upstream's own requestState, raw; nil if it gave none
}

// change makes o what the upstream is to get.
func (t *toolCall) change(o *mcp.Outgoing) {
	if t.changed {
		o.Replace("arguments", t.args)
	}
	switch {
	case !t.resumed:
	case t.state == nil:
		o.Drop("requestState")
	default:
		o.Replace("requestState", t.state)
	}
}

// prepare makes of the arguments what the upstream is to get, or says what is
// wrong with them.
func (d *Door) prepare(ctx context.Context, c *Call, t *toolCall) error {
	var err error
	if t.above, err = d.above(c); err != nil {
		return err
	}
	t.args = c.Req.Param("arguments")
	if err := d.fits(c, t.args); err != nil {
		return err
	}
	if c.Item != nil && c.Req.Header != nil && len(c.Item.Bindings) > 0 {
		if err := CheckHeaders(c.Req.Header, c.Item.Bindings, t.args); err != nil {
			return err
		}
	}
	if t.pins, err = d.unwrap(c, t); err != nil {
		return err
	}
	if done, err := d.authorise(ctx, c, t); err != nil || done {
		return err
	}
	return d.complete(ctx, c, t)
}

// complete replaces references in the arguments and checks what came of it.
func (d *Door) complete(ctx context.Context, c *Call, t *toolCall) error {
	if c.Req.Method != "tools/call" {
		return nil
	}
	if c.Kept && d.sessions != nil {
		if err := d.refer(ctx, c, t); err != nil {
			return err
		}
	}
	if c.Check && c.Item != nil && c.Item.Schema != nil {
		return validate(c.Item, t.args)
	}
	return nil
}

func (d *Door) fits(c *Call, args []byte) error {
	if most := d.argBytes.Load(); int64(len(args)) > most {
		f := fault.New(fault.Limit, c.Upstream.Name(), "the arguments are %d bytes, over the limit of %d (limits.argumentBytes)", len(args), most)
		f.Hint = "Send less, or raise limits.argumentBytes."
		return f
	}
	return nil
}

// refer does what needs the caller's Session. Most calls need none.
func (d *Door) refer(ctx context.Context, c *Call, t *toolCall) error {
	refers := t.pins != nil || c.References && !(c.Item != nil && c.Item.Handling.NoReferences) && session.HasReference(t.args)
	borne := c.Item != nil && c.Item.Handling.ResultSaveAs
	if !refers && !borne && !c.Stateful && !c.Cards && meta(c.Req, MetaSaveAs) == nil {
		return nil
	}
	var err error
	if t.session, err = Bind(d.sessions, c.Req.Client, c.Req.Session); err != nil {
		return err
	}
	if err := t.takeSaveAs(c); err != nil || !refers {
		return err
	}
	return d.resolve(ctx, c, t)
}

// MetaSaveAs is the member of a request's _meta that names what its result is
// to be kept under.
const MetaSaveAs = "stoa/saveAs"

// takeSaveAs finds out whether the result is to be kept, and takes the argument
// that says so out of those that the upstream gets, if we put it there.
func (t *toolCall) takeSaveAs(c *Call) error {
	raw := meta(c.Req, MetaSaveAs)
	if c.Stateful && c.Item != nil && c.Item.TakesSaveAs() {
		if v := wire.Get(t.args, catalog.SaveAs); v != nil {
			raw = v
			t.args, t.changed = wire.Edit(nil, t.args, wire.Change{Name: catalog.SaveAs}), true
		}
	}
	if raw == nil || string(raw) == "null" {
		return nil
	}
	name, ok := wire.String(raw)
	if !ok {
		return fault.New(fault.InvalidArguments, catalog.SaveAs, "it is not a string")
	}
	if err := session.ValidName(name); err != nil {
		return err
	}
	switch {
	case c.Item != nil && c.Item.Handling.NoSaveAs:
		return &fault.Error{Kind: fault.InvalidArguments, Subject: catalog.SaveAs, Msg: "results of " + c.Item.Exposed + " are not kept", Hint: "Call it without saveAs; the config switches it off for this tool."}
	case t.session == nil:
		return sessionRequired("saveAs keeps the result in a session")
	}
	t.saveAs = name
	return nil
}

func sessionRequired(why string) error {
	return &fault.Error{Kind: fault.SessionRequired, Msg: why + ", and this request is bound to none",
		Hint: `Name one: the header Stoa-Session, _meta "stoa/session", or the address /s/{session}/mcp.`}
}

func meta(req *mcp.Request, name string) []byte {
	for _, f := range req.Meta {
		if string(f.Name) == name {
			return f.Value
		}
	}
	return nil
}

// resolve replaces the references in the arguments.
func (d *Door) resolve(ctx context.Context, c *Call, t *toolCall) error {
	args, used, err := d.sessions.Resolve(ctx, c.Req.Client.Actor.Name(), t.session, t.args, int(d.argBytes.Load()), t.pins)
	if err != nil {
		f := *fault.Of(err)
		if f.Subject == "" && c.Item != nil {
			f.Subject = c.Item.Exposed
		}
		return &f
	}
	if len(args) != len(t.args) || used != nil {
		t.args, t.changed, t.used = args, true, used
	}
	return nil
}
