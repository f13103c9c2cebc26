package mcp

import (
	"bytes"
	"crypto/rand"
	"slices"

	"github.com/stoahub/stoa/internal/wire"
)

// Asks returns the capability that a server's request to its client needs, and
// whether there is such a request.
func Asks(method string, params []byte) (Capability, bool) {
	what, ok := askable[method]
	if !ok {
		return noCapability, false
	}
	if what == Elicitation && visits(params) {
		what = Addresses
	}
	return what, true
}

// visits reports whether an elicitation sends the user to an address.
func visits(params []byte) bool {
	mode, _ := wire.String(wire.Get(params, "mode"))
	return mode == "url"
}

// NeedsInput reports whether a modern result asks for input instead of being
// complete.
func NeedsInput(result []byte) bool {
	kind, _ := wire.String(wire.Get(result, "resultType"))
	return kind == "input_required"
}

// TakesInput reports whether a modern server may answer the method by asking
// for input.
func TakesInput(method string) bool {
	_, ok := needsName(method)
	return ok
}

// LegacyQuestion returns the params of a modern input request as a legacy
// client expects them.
func LegacyQuestion(method string, params []byte) []byte {
	if method != "elicitation/create" || !visits(params) || wire.Get(params, "elicitationId") != nil {
		return params
	}
	// The legacy era names each such question; the modern one does not.
	return wire.Edit(nil, params, wire.Change{Name: "elicitationId", Value: wire.Quote(rand.Text())})
}

// ModernQuestion returns the params of a legacy server's request as an input
// request of the modern era.
func ModernQuestion(method string, params []byte) []byte {
	if method != "elicitation/create" || wire.Get(params, "elicitationId") == nil {
		return params
	}
	return wire.Edit(nil, params, wire.Change{Name: "elicitationId"})
}

// sentTo notes an address that the user is sent to, by the id of the question.
func (p *pending) sentTo(id []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.visits = append(p.visits, id)
}

func (p *pending) wasSent(id []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.visits, func(v []byte) bool { return bytes.Equal(v, id) })
}
