package mcp

import (
	"net/http"

	"github.com/stoahub/stoa/internal/wire"
)

// A request may say, by a header or in its _meta, which Session it works on
// and how its arguments and results are to be treated. A header, which whoever
// sits before us can see and set, goes before the body. What is asked for is
// not the protocol's affair.
const (
	// HeaderSession and MetaSession name the Session.
	HeaderSession = "Stoa-Session"
	MetaSession   = ownPrefix + "session"
	// HeaderCards and MetaCards switch cards, HeaderReferences and
	// MetaReferences references: on or off in a header, a boolean in _meta.
	HeaderCards      = "Stoa-Cards"
	MetaCards        = ownPrefix + "cards"
	HeaderReferences = "Stoa-References"
	MetaReferences   = ownPrefix + "references"
	// MetaAll asks tools/list also for tools that can be called and that lists
	// do not show; these are named in the answer's _meta by MetaUnlisted.
	MetaAll      = ownPrefix + "all"
	MetaUnlisted = ownPrefix + "unlisted"

	ownPrefix = "stoa/" // of names in _meta that are for this hub
)

// Asked is what a request asks of the hub besides what its method says.
type Asked struct {
	Session    string // the name of the Session; empty for none
	Cards      Switch
	References Switch
	All        Switch // see MetaAll

	// What follows is said within the process and never read from the wire.

	Key string // goes along to the upstream, the same each time the call is tried; empty for none
	// Kept says that the result is kept under a name, or is a program's to go on
	// with: nothing may be left out to make the answer short.
	Kept bool
	// CardAbove is how long an answer may be before a card takes its place and it is
	// kept: an answer that is longer has to be whole too. 0 means that none is.
	CardAbove int
	Turn      string // the turn of a conversation that made it; empty for none
	// Correlation is what all lines of the log have in common that come of the
	// same message of a person; empty for none.
	Correlation string
}

// Switch is what a client says of something that can be on or off.
type Switch int8

const (
	Unsaid  Switch = iota
	On             // on, or true
	Off            // off, or false
	Unclear        // said, but neither
)

// notText stands for the name of a Session that is no string. It is the name
// of none, so that whoever asks is told, and not given another.
const notText = "(not a string)"

// asked is what m asks for: what the header says, else what m says itself, else
// the given Session.
func asked(h http.Header, m *wire.Message, otherwise string) Asked {
	a := Asked{Cards: switchIn(h, HeaderCards), References: switchIn(h, HeaderReferences)}
	if v := h[HeaderSession]; len(v) > 0 {
		a.Session = v[0]
	}
	for i := range m.Meta {
		f := &m.Meta[i]
		if len(f.Name) <= len(ownPrefix) || string(f.Name[:len(ownPrefix)]) != ownPrefix {
			continue
		}
		switch string(f.Name) {
		case MetaSession:
			if a.Session == "" {
				name, ok := wire.String(f.Value)
				if a.Session = name; !ok {
					a.Session = notText
				}
			}
		case MetaCards:
			a.Cards.say(f.Value)
		case MetaReferences:
			a.References.say(f.Value)
		case MetaAll:
			a.All.say(f.Value)
		}
	}
	if a.Session == "" {
		a.Session = otherwise
	}
	return a
}

func switchIn(h http.Header, name string) Switch {
	v := h[name]
	if len(v) == 0 {
		return Unsaid
	}
	switch v[0] {
	case "on":
		return On
	case "off":
		return Off
	}
	return Unclear
}

// say takes in what a body says, unless a header has spoken.
func (s *Switch) say(raw []byte) {
	if *s != Unsaid {
		return
	}
	switch string(raw) {
	case "true":
		*s = On
	case "false":
		*s = Off
	default:
		*s = Unclear
	}
}

// asked is what a message of this POST asks for.
func (x *exchange) asked(m *wire.Message) Asked { return asked(x.r.Header, m, "") }
