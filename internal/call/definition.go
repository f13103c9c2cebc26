package call

import (
	"context"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/pin"
	"github.com/stoahub/stoa/internal/policy"
)

// What is approved is what runs: an approval is bound to the definition that it
// was given for, and what is held is not called.

// standing is what is made of the definition that a call is about; nil if its
// server's are not pinned, or if the call is about none.
func (c *Call) standing() *catalog.Standing {
	switch {
	case c.Standing != nil:
		return c.Standing
	case c.Item != nil:
		return c.Item.Standing
	}
	return nil
}

// held is why a call cannot be made because of its definition; nil if it can.
func (d *Door) held(c *Call) error {
	st, name := c.standing(), ""
	if pins := c.Upstream.Pins(); st == nil && c.Item == nil && pins != nil {
		switch c.Req.Method {
		case "tools/call", "prompts/get":
			name, _ = c.Req.Text("name")
			st = pins.Seen(c.Upstream.Viewer(c.Req.Client), definedBy(c.Req.Method), name)
			name, c.Standing = catalog.Expose(c.Upstream.Name(), name), st
		case "resources/read", "resources/subscribe":
			if name, _ = c.Req.Text("uri"); c.Rename == "uri" {
				name = c.Name
			}
			st = reading(pins, name)
		}
	}
	if !st.Held() {
		return nil
	}
	if c.Item != nil {
		name = c.Item.Exposed
	}
	f := &fault.Error{Kind: fault.DefinitionHeld, Subject: name, Msg: st.Hold,
		Hint: "Do without it. The hub's owner can look at the definition and accept it: `stoa tools changes`, `stoa tools accept`, or the page Tools of the console."}
	f = f.With("state", st.State).With("definition", st.Digest)
	if st.After != nil && c.Req.Client.Actor.Has(auth.RightSettings) {
		f = f.With("change", pin.Diff(st.Before, st.After)) // who may accept it is shown it; a model, which never may, is not
	}
	return f
}

// reading is what is made of the definition that a URI is read by, if it is held,
// however the URI is written.
func reading(pins *pin.Server, uri string) *catalog.Standing {
	if pins == nil {
		return nil
	}
	for _, one := range policy.Spellings(uri) {
		if st := pins.Reading(one); st.Held() {
			return st
		}
	}
	return nil
}

func definedBy(method string) catalog.Kind {
	if method == "prompts/get" {
		return catalog.Prompt
	}
	return catalog.Tool
}

// Defined tells a person what the definition is that a call is about.
func Defined(st *catalog.Standing) (def policy.Definition) {
	if st == nil {
		return def
	}
	def = policy.Definition{Digest: st.Digest, Flags: st.Flags, Accepted: st.Since}
	if now := st.After; now != nil && st.Before != nil {
		def.Diff = func() string { return pin.Diff(st.Before, now) }
	}
	if st.State != catalog.Accepted && st.After != nil {
		def.Change = pin.Diff(st.Before, st.After)
	}
	return def
}

// same makes sure that a definition is the one that a person approved. It is
// looked at when the person has answered, and once more when the call has its
// turn.
func (d *Door) same(c *Call) error {
	st, pins := c.standing(), c.Upstream.Pins()
	if st == nil || pins == nil || c.Item == nil || c.Standing != nil {
		return nil
	}
	if now := pins.Current(c.Item.Kind, c.Item.Name); now == "" || now == st.Digest {
		return nil
	}
	return &fault.Error{Kind: fault.DefinitionHeld, Subject: c.Item.Exposed, Msg: "its definition has changed since the call was approved, so that the approval does not count",
		Hint: "Read its definition again, and call it again if that is still what you want: somebody is then asked with the new definition."}
}

// startApproved is what is done when an approved call has its turn.
func (d *Door) startApproved(c *Call) func(context.Context) error {
	then := c.Starting
	return func(ctx context.Context) error {
		if err := d.same(c); err != nil {
			return err
		}
		if then != nil {
			return then(ctx)
		}
		return nil
	}
}
