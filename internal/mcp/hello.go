package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// terms are what a connection and its server have agreed on.
type terms struct {
	p atomic.Pointer[agreement]
}

type agreement struct {
	era     Era
	version string
}

func (t *terms) agree(era Era, version string) { t.p.Store(&agreement{era, version}) }

// Era is the era that was agreed on; 0 before.
func (t *terms) Era() Era {
	if a := t.p.Load(); a != nil {
		return a.era
	}
	return 0
}

func (t *terms) version() string {
	if a := t.p.Load(); a != nil {
		return a.version
	}
	return ""
}

// Hello is how a server introduced itself.
type Hello struct {
	Era          Era
	Version      string   // the version agreed on
	Versions     []string // modern: all versions that the server names
	Capabilities []byte   // raw object
	Instructions string
	Info         []byte   // serverInfo, raw; nil if it was not said
	Hubs         []string // the ids of the hubs on the way to the server; none if it is behind no other hub
}

// Eras is the set of eras that the server is known to speak.
func (h *Hello) Eras() Eras {
	set := Eras(h.Era)
	for _, v := range h.Versions {
		set |= Eras(EraOf(v))
	}
	return set
}

// Can reports whether the server declared a capability, such as "tools".
func (h *Hello) Can(name string) bool { return wire.Get(h.Capabilities, name) != nil }

// CanDo reports whether a capability has a true option, such as resources.subscribe.
func (h *Hello) CanDo(name, option string) bool {
	return string(wire.Get(wire.Get(h.Capabilities, name), option)) == "true"
}

// Rejected is the answer of a server that refused what the hub itself asked of
// it, such as to introduce itself.
type Rejected struct{ Object []byte }

func (r *Rejected) Error() string { return fmt.Sprintf("the server answered %s", r.Object) }

// Refusal returns what to answer after err: what the server said, if that is
// what err is, and resp if it is nil.
func Refusal(resp Response, err error) (Response, error) {
	if r, ok := errors.AsType[*Rejected](err); ok {
		return Response{Error: r.Object}, nil
	}
	return resp, err
}

// Code is the JSON-RPC code of the refusal.
func (r *Rejected) Code() int { return errorCode(r.Object) }

// Eras is the set of eras that a server names as its own when it refuses a
// version; none if that is not what it refused.
func (r *Rejected) Eras() (set Eras) {
	if r.Code() != codeBadVersion {
		return 0
	}
	named, _ := wire.Elements(wire.Get(wire.Get(r.Object, "data"), "supported"))
	for _, raw := range named {
		v, _ := wire.String(raw)
		set |= Eras(EraOf(v))
	}
	return set
}

// codeBadVersion is what a server of the modern era says to a version that it
// does not speak.
const codeBadVersion = -32022

// Initialize opens the legacy era on c, declaring capabilities on behalf of
// whoever will use the connection.
func Initialize(ctx context.Context, c Conn, capabilities, info []byte) (*Hello, error) {
	if info == nil {
		info = ownInfo
	}
	params := []byte(`{"protocolVersion":"` + LegacyVersion + `","capabilities":`)
	params = append(append(append(append(params, capabilities...), `,"clientInfo":`...), info...), '}')
	c.agree(Legacy, "")
	resp, err := c.Call(ctx, &Outgoing{Method: "initialize", Raw: params, Fields: wire.Members(params)})
	if err != nil {
		return nil, err
	}
	if resp.Error != nil {
		return nil, &Rejected{clone(resp.Error)}
	}
	h, err := parseHello(resp.Result)
	if err != nil {
		return nil, err
	}
	if EraOf(h.Version) != Legacy {
		return nil, fault.New(fault.BadVersion, "initialize", "the server wants protocol version %q, which we do not speak", h.Version)
	}
	h.Era = Legacy
	c.agree(Legacy, h.Version)
	return h, c.Notify(ctx, noteInitialized, nil)
}

// Discover asks c for its introduction in the modern era. The connection
// speaks that era afterwards, if the server does.
func Discover(ctx context.Context, c Conn) (*Hello, error) {
	c.agree(Modern, ModernVersion)
	resp, err := c.Call(ctx, &Outgoing{Method: "server/discover"})
	if err == nil && resp.Error != nil && (&Rejected{resp.Error}).Eras().Has(Modern) {
		// It refuses the version that it says it speaks: once may be a mistake.
		resp.Release()
		resp, err = c.Call(ctx, &Outgoing{Method: "server/discover"})
	}
	if err != nil {
		return nil, err
	}
	if resp.Error != nil {
		return nil, &Rejected{clone(resp.Error)}
	}
	h, err := parseHello(resp.Result)
	if err != nil {
		return nil, err
	}
	if len(h.Versions) == 0 {
		return nil, fault.New(fault.BadVersion, "server/discover", "the server names no supported versions")
	}
	for _, v := range h.Versions {
		if EraOf(v) == Modern {
			h.Era, h.Version = Modern, v
			return h, nil
		}
	}
	return nil, fault.New(fault.BadVersion, "server/discover", "the server speaks %v", h.Versions).With("supported", h.Versions)
}

func parseHello(result []byte) (*Hello, error) {
	var r struct {
		ProtocolVersion   string                     `json:"protocolVersion"`
		SupportedVersions []string                   `json:"supportedVersions"`
		Capabilities      json.RawMessage            `json:"capabilities"`
		ServerInfo        json.RawMessage            `json:"serverInfo"`
		Instructions      string                     `json:"instructions"`
		Meta              map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return nil, fmt.Errorf("the server's introduction is not of the protocol's form: %w", err)
	}
	h := &Hello{Version: r.ProtocolVersion, Versions: r.SupportedVersions, Capabilities: clone(r.Capabilities), Instructions: r.Instructions}
	if len(h.Capabilities) == 0 || h.Capabilities[0] != '{' {
		h.Capabilities = []byte("{}")
	}
	h.Hubs = HubsOf(result)
	h.Info = clone(r.ServerInfo)
	if info := r.Meta[metaServerInfo]; h.Info == nil && info != nil {
		h.Info = clone(info)
	}
	return h, nil
}

// ServerInfo is how the hub names itself.
func ServerInfo(name, title string) []byte {
	b, _ := json.Marshal(map[string]string{"name": name, "title": title, "version": Release})
	return b
}

// Introduce renders the answer to initialize or server/discover for a client.
func Introduce(c *Client, capabilities, info []byte, instructions string) (Response, error) {
	if info == nil {
		info = ownInfo
	}
	r := map[string]any{"capabilities": json.RawMessage(capabilities)}
	if instructions != "" {
		r["instructions"] = instructions
	}
	if c.Era == Legacy {
		r["protocolVersion"] = c.Version
		r["serverInfo"] = json.RawMessage(info)
	} else {
		r["resultType"] = "complete"
		r["supportedVersions"] = Versions
		r["ttlMs"] = 0
		r["cacheScope"] = "private"
		r["_meta"] = map[string]any{metaServerInfo: json.RawMessage(info)}
	}
	b, err := json.Marshal(r)
	if err != nil {
		return Response{}, fmt.Errorf("introduce: %w", err)
	}
	return Response{Result: b}, nil
}
