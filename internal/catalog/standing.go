package catalog

import (
	"time"

	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/suspect"
	"github.com/stoahub/stoa/internal/wire"
)

// State says what is known of a definition beside those that its server had
// before.
type State string

const (
	Accepted  State = "accepted" // it was there first, or somebody accepted it
	Changed   State = "changed"  // another one of its name was there first
	Added     State = "new"      // nothing of its name was there first
	Rejected  State = "rejected"
	Unchecked State = "unchecked" // what was there first cannot be looked up
)

// Standing is what the hub makes of a definition. It is not changed once it is
// in use.
type Standing struct {
	Digest string
	State  State
	Since  time.Time      // when it was accepted; zero if it was not
	By     string         // who accepted it; "" if it was there first
	Flags  []suspect.Flag // what is suspicious about it
	Before []byte         // the definition that was accepted before it; nil if there was none, or it was too long to keep
	After  []byte         // the definition itself, where somebody may want to compare it; else nil
	Hold   string         // why it cannot be called; "" if it can
}

// Open reports whether somebody should look at the definition: it is not
// accepted, or it is suspicious and nobody has looked yet.
func (s *Standing) Open() bool {
	return s != nil && (s.State != Accepted || len(s.Flags) > 0 && s.By == "")
}

// Held reports whether calls are kept from it.
func (s *Standing) Held() bool { return s != nil && s.Hold != "" }

// Reviewed is the item with another standing. The text of a definition that is
// held is not shown: it is addressed to models, and nobody has accepted it. Nor does
// what it says count of a definition that is not accepted.
func (i *Item) Reviewed(s *Standing, trusted bool) *Item {
	c := *i
	c.Standing, c.Trusted = s, trusted
	if i.Kind == Tool {
		c.ReadOnly, c.Idempotent, c.pure = false, false, false
		if s == nil || s.State == Accepted {
			c.annotate(wire.Get(i.Raw, "annotations"))
		}
	}
	if i.Standing.Held() == s.Held() {
		return &c
	}
	if c.own == nil {
		c.own = i.Shown
	}
	def := c.own
	if s.Held() {
		def = Withheld(c.Kind, def, s)
	}
	if c.Kind == Tool {
		c.kept = &stateful{}
		c.show(def)
	} else {
		c.Shown = def
	}
	return &c
}

// Withheld is what is shown of a definition that is held: its name, and why.
func Withheld(k Kind, def []byte, s *Standing) []byte {
	name := wire.Get(def, "name")
	if name == nil {
		name = []byte(`""`)
	}
	out := append([]byte(`{"name":`), name...)
	out = append(append(out, `,"description":`...), wire.Quote("Not available: "+s.Hold+".")...)
	switch k {
	case Tool:
		out = append(out, `,"inputSchema":{"type":"object"}`...)
	case Template:
		out = append(append(out, `,"uriTemplate":`...), wire.Get(def, "uriTemplate")...)
	}
	return append(out, '}')
}

// Given is the definition as its server said it, for clients of the era; of one
// that is held, that it is.
func (i *Item) Given(era mcp.Era) []byte {
	switch {
	case i.Standing.Held():
		return Withheld(i.Kind, i.Raw, i.Standing)
	case i.Kind == Tool: // the catalogue may be that of the other era
		return mcp.Define(era, i.Raw)
	}
	return i.Raw
}

// Matches reports whether a URI is one of a template's.
func (i *Item) Matches(uri string) bool {
	return i.Name == uri || i.pattern != nil && i.pattern.MatchString(uri)
}
