package call

import (
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/wire"
)

// A call that used references and needs input is made again by its client,
// with the same references. What they stand for may have changed meanwhile, and
// the server would be given other arguments than in the round before. So the
// client carries, in its requestState, which versions were used; and whether a
// person has approved the call, who would else be asked in every round.

const statePrefix = "stoar1."

// rounds is how long a client may take to come again.
const rounds = time.Hour

// continuation is what the wrapped state says.
type continuation struct {
	State     []byte         `json:"s,omitempty"` // the upstream's own, raw
	Used      []session.Used `json:"v"`
	Approved  bool           `json:"a,omitempty"`
	Edited    []byte         `json:"x,omitempty"` // the arguments in place of the client's
	Upstream  string         `json:"u"`
	Principal string         `json:"p"`
	Digest    string         `json:"d"` // of the tool's name and arguments as the client wrote them
	Expires   int64          `json:"e"`
}

func digest(req *mcp.Request) string {
	h := sha256.New()
	h.Write(req.Param("name"))
	h.Write([]byte{0})
	h.Write(req.Param("arguments"))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}

// wrap puts what was used into the state that the client is to bring back.
func (d *Door) wrap(c *Call, t *tooled, resp mcp.Response) (mcp.Response, error) {
	if t.used == nil && !t.approved {
		return resp, nil
	}
	state, err := d.key.Sign(statePrefix, continuation{
		State: wire.Get(resp.Result, "requestState"), Used: t.used, Approved: t.approved, Edited: t.edited, Upstream: c.Upstream.Name(), Principal: c.Req.Client.Principal.Name,
		Digest: digest(c.Req), Expires: time.Now().Add(rounds).UnixMilli(),
	})
	if err != nil {
		return mcp.Response{}, fault.New(fault.Internal, c.Upstream.Name(), "the state of the call could not be kept").Because(err)
	}
	out := wire.Edit(nil, resp.Result, wire.Change{Name: "requestState", Value: wire.Quote(state)})
	resp.Release()
	return mcp.Response{Result: out}, nil
}

// unwrap takes apart the state of a call that is being continued, if we wrapped
// it, and returns what was used in the round before.
func (d *Door) unwrap(c *Call, t *tooled) ([]session.Used, error) {
	state, _ := c.Req.Text("requestState")
	if len(state) < len(statePrefix) || state[:len(statePrefix)] != statePrefix {
		return nil, nil
	}
	var k continuation
	if err := d.key.Open(statePrefix, state, &k); err != nil {
		return nil, fault.New(fault.InvalidParams, "requestState", "%v", err)
	}
	switch {
	case k.Principal != c.Req.Client.Principal.Name || k.Upstream != c.Upstream.Name() || k.Digest != digest(c.Req):
		return nil, fault.New(fault.InvalidParams, "requestState", "it belongs to another request")
	case time.Now().UnixMilli() > k.Expires:
		return nil, fault.New(fault.ContinuationLost, c.Upstream.Name(), "the input came too late")
	}
	t.resumed, t.state, t.approved = true, k.State, k.Approved
	if k.Edited != nil {
		t.args, t.changed, t.edited = k.Edited, true, k.Edited
	}
	return k.Used, nil
}
