package mcp

import "github.com/stoahub/stoa/internal/wire"

// A request may name the Session whose state it works on, by a header or in
// its _meta. What the name stands for is not the protocol's affair.
const (
	// HeaderSession is the header, in the canonical form of net/http.
	HeaderSession = "Stoa-Session"
	// MetaSession is the member of _meta.
	MetaSession = ownPrefix + "session"

	ownPrefix = "stoa/" // of names in _meta that are for this hub
)

// sessionOf is the name in m's _meta, or else what is given.
func sessionOf(m *wire.Message, otherwise string) string {
	if name, ok := wire.String(m.MetaValue(MetaSession)); ok && name != "" {
		return name
	}
	return otherwise
}

// session is the name that a POST asks for: its header's, which whoever sits
// before us can see and set, before the body's.
func (x *exchange) session(m *wire.Message) string {
	if v := x.r.Header[HeaderSession]; len(v) > 0 && v[0] != "" {
		return v[0]
	}
	return sessionOf(m, "")
}
