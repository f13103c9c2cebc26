package call

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/wire"
)

// A call that used references and needs input is made again by its client,
// with the same references. What they stand for may have changed meanwhile, and
// the server would be given other arguments than in the round before. So the
// client carries, in its requestState, which versions were used; and that a
// person has approved the call, who would else be asked in every round, and of
// which definition that was. Such an
// approval is good for one more round: who brings the same state twice has the
// person asked again.

const statePrefix = "stoar1."

// rounds is how long a client may take to come again.
const rounds = time.Hour

// continuation is what the wrapped state says.
type continuation struct {
	State     []byte         `json:"s,omitempty"` // the upstream's own, raw
	Used      []session.Used `json:"v"`
	Approved  string         `json:"n,omitempty"` // the name of an approval that was given and not used up
	Boot      string         `json:"b,omitempty"` // the start of the hub that it was given to
	Defined   string         `json:"f,omitempty"` // the digest of the definition that it was given for
	Tag       string         `json:"w,omitempty"` // of the actor
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
func (d *Door) wrap(c *Call, t *toolCall, resp mcp.Response) (mcp.Response, error) {
	if t.used == nil && !t.approved {
		return resp, nil
	}
	k := continuation{
		State: wire.Get(resp.Result, "requestState"), Used: t.used, Edited: t.edited, Upstream: c.Upstream.Name(), Principal: c.Req.Client.Actor.Name(),
		Tag: c.Req.Client.Actor.Tag(), Digest: digest(c.Req), Expires: time.Now().Add(rounds).UnixMilli(),
	}
	if t.approved {
		k.Approved, k.Boot = rand.Text(), d.boot
		if st := c.standing(); st != nil {
			k.Defined = st.Digest
		}
	}
	state, err := d.key.Sign(statePrefix, k)
	if err != nil {
		return mcp.Response{}, fault.New(fault.Internal, c.Upstream.Name(), "the state of the call could not be kept").Because(err)
	}
	out := wire.Edit(nil, resp.Result, wire.Change{Name: "requestState", Value: wire.Quote(state)})
	resp.Release()
	return mcp.Response{Result: out}, nil
}

// unwrap takes apart the state of a call that is being continued, if we wrapped
// it, and returns what was used in the round before.
func (d *Door) unwrap(c *Call, t *toolCall) ([]session.Used, error) {
	state, _ := c.Req.Text("requestState")
	if len(state) < len(statePrefix) || state[:len(statePrefix)] != statePrefix {
		return nil, nil
	}
	var k continuation
	if err := d.key.Open(statePrefix, state, &k); err != nil {
		return nil, fault.New(fault.InvalidParams, "requestState", "%v", err)
	}
	switch {
	case k.Principal != c.Req.Client.Actor.Name() || k.Tag != c.Req.Client.Actor.Tag() || k.Upstream != c.Upstream.Name() || k.Digest != digest(c.Req):
		return nil, fault.New(fault.InvalidParams, "requestState", "it belongs to another request")
	case time.Now().UnixMilli() > k.Expires:
		return nil, fault.New(fault.ContinuationLost, c.Upstream.Name(), "the input came too late")
	}
	t.resumed, t.state = true, k.State
	// Whether a hub that has ended since used an approval up, nobody knows: the
	// person is asked again.
	defined := ""
	if st := c.standing(); st != nil {
		defined = st.Digest
	}
	t.approved = k.Approved != "" && k.Boot == d.boot && k.Defined == defined && (t.dry || d.used.spend(k.Approved, k.Expires))
	if k.Edited != nil {
		t.args, t.changed, t.edited = k.Edited, true, k.Edited
	}
	return k.Used, nil
}

// Holder is the process at which a call can go on by the state that its client
// brings: where it waits, as parked says of an upstream's state, or else where a
// person approved it. It is empty if any process will do.
func (d *Door) Holder(state string, parked func(state string) string) string {
	var k continuation
	if d.key.Open(statePrefix, state, &k) != nil {
		return parked(state)
	}
	inner, _ := wire.String(k.State)
	return cmp.Or(parked(inner), k.Boot)
}

// spent remembers which approvals have been used up, until they would be of no
// use anyway.
type spent struct {
	mu   sync.Mutex
	m    map[string]int64 // when each ends, in Unix milliseconds
	look time.Time        // when it is looked for those that have ended, next
}

// maxSpent bounds how many are remembered. Beyond it no approval is good until
// some have ended: a person is asked again.
const maxSpent = 100_000

// spend uses an approval up. It reports whether it was good.
func (s *spent) spend(name string, ends int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, was := s.m[name]; was {
		return false
	}
	if s.m == nil {
		s.m = map[string]int64{}
	}
	if now := time.Now(); len(s.m) >= maxSpent {
		if now.Before(s.look) {
			return false
		}
		s.look = now.Add(time.Minute) // all of them are looked at
		maps.DeleteFunc(s.m, func(_ string, ends int64) bool { return ends < now.UnixMilli() })
		if len(s.m) >= maxSpent {
			return false
		}
	}
	s.m[name] = ends
	return true
}
