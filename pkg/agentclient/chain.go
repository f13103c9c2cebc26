package agentclient

import (
	"context"
	"encoding/json"
	"os"
)

// Names under which a call's descent travels in _meta, and in the environment
// of commands.
const (
	metaChain = "stoa/chain"
	envChain  = "STOA_CHAIN"
	envTrace  = "TRACEPARENT"
	envState  = "TRACESTATE"
	envBags   = "BAGGAGE"
)

// Chain says which calls a call comes of. Its parts are opaque: pass them on.
type Chain struct {
	Chain       string // the hub's signed record of the calls above
	TraceParent string // W3C trace context
	TraceState  string
	Baggage     string
}

// FromMeta reads the chain of a request that an agent serves from its _meta,
// which may be the JSON that came or anything that encodes to it. What has no
// chain gives the zero Chain.
func FromMeta(meta any) Chain {
	raw, err := json.Marshal(meta)
	var members map[string]json.RawMessage
	if err != nil || json.Unmarshal(raw, &members) != nil {
		return Chain{}
	}
	text := func(name string) (s string) {
		_ = json.Unmarshal(members[name], &s) // what is no text is not ours
		return s
	}
	return Chain{Chain: text(metaChain), TraceParent: text("traceparent"), TraceState: text("tracestate"), Baggage: text("baggage")}
}

// FromEnv reads the chain of a command that an agent has started.
func FromEnv() Chain {
	return Chain{Chain: os.Getenv(envChain), TraceParent: os.Getenv(envTrace), TraceState: os.Getenv(envState), Baggage: os.Getenv(envBags)}
}

type chainKey struct{}

// WithChain returns a context whose calls carry on chain, in place of the one
// in the environment.
func WithChain(ctx context.Context, chain Chain) context.Context {
	return context.WithValue(ctx, chainKey{}, chain)
}

// add puts the chain into the _meta of a request.
func (c Chain) add(meta map[string]any) {
	for name, value := range map[string]string{metaChain: c.Chain, "traceparent": c.TraceParent, "tracestate": c.TraceState, "baggage": c.Baggage} {
		if _, given := meta[name]; value != "" && !given {
			meta[name] = value
		}
	}
}
