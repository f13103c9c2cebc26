package mcp

import (
	"context"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// MethodSample is how a server asks for the answer of a model.
const MethodSample = "sampling/createMessage"

// Sampler stands in for the client where a server asks for the answer of a
// model.
type Sampler struct {
	// Capability is what the server is told of sampling in place of what the
	// client declared; nil tells it that there is none.
	Capability []byte
	// Answer answers one request, by its params, until ctx ends; nil refuses
	// all of them.
	Answer func(ctx context.Context, params []byte) (Response, error)
}

// Declare returns a client's capabilities, which may be nil, as the server is
// to see them.
func (s *Sampler) Declare(caps []byte) []byte {
	if caps == nil {
		caps = []byte("{}")
	}
	return wire.Edit(nil, caps, wire.Change{Name: "sampling", Value: s.Capability})
}

// Ask answers a request or refuses it.
func (s *Sampler) Ask(ctx context.Context, params []byte) (Response, error) {
	if s.Answer == nil {
		return Response{}, errNoSampling
	}
	return s.Answer(ctx, params)
}

var errNoSampling = &fault.Error{Kind: fault.MissingCapability, Subject: MethodSample, Msg: "the hub does not let this server ask for a model's answer",
	Hint: "Set sampling of this server to client or host in the config."}

// refusesSampling reports whether the server of this connection is to have no
// answers of models.
func (f *inflight) refusesSampling() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.m {
		if s := p.o.Sampler; s != nil && s.Answer == nil {
			return true
		}
	}
	return false
}

// sameParty reports whether it makes no difference to who is asked for leave
// which of the two requests a server's request comes of.
func sameParty(p, q *pending) bool {
	a, b := p.o.Client, q.o.Client
	return a != nil && b != nil && a.Actor.Equal(b.Actor) && a.Connection == b.Connection && p.o.Asked.Session == q.o.Asked.Session
}
