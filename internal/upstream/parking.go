package upstream

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/seal"
	"github.com/stoahub/stoa/internal/wire"
)

const parkedMax = 16 // parked calls of one principal

// parking is where the parked calls of a pool are.
type parking struct {
	key  seal.Key      // signs requestState
	node string        // tells our requestState from those of other processes
	wait time.Duration // how long a call waits for its client

	mu sync.Mutex
	m  map[string]*parked
}

func newParking(key []byte, process string, wait time.Duration) *parking {
	if key == nil {
		key = seal.Random()
	}
	if process == "" {
		process = rand.Text()
	}
	return &parking{key: key, node: process, wait: wait, m: map[string]*parked{}}
}

// ticket is what a requestState says.
type ticket struct {
	Node      string `json:"n"`
	ID        string `json:"i"`
	Upstream  string `json:"u"`
	Principal string `json:"p"`
	Tag       string `json:"w,omitempty"` // of the actor
	Method    string `json:"m"`
	Digest    string `json:"d"` // of the params that must not change
	Expires   int64  `json:"e"`
}

const statePrefix = "stoa1."

func (k *parking) open(state string) (t ticket, err error) {
	if err := k.key.Open(statePrefix, state, &t); err != nil {
		return ticket{}, fault.New(fault.InvalidParams, "requestState", "%v", err)
	}
	return t, nil
}

// Holder is the process at which the call waits that a requestState is about;
// empty if it is about none.
func (p *Pool) Holder(state string) string {
	t, err := p.parking.open(state)
	if err != nil || time.Now().UnixMilli() > t.Expires {
		return ""
	}
	return t.Node
}

// digest is of the params that a client must repeat unchanged.
func digest(o *mcp.Outgoing) string {
	var kept []wire.Field
	for _, f := range o.Fields {
		switch string(f.Name) {
		case "_meta", "inputResponses", "requestState":
		default:
			kept = append(kept, f)
		}
	}
	sum := sha256.Sum256(wire.EditFields(nil, kept))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// park keeps a call for its client to come back to.
func (k *parking) park(p *parked, upstream string, o *mcp.Outgoing) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, again := k.m[p.id]; !again {
		if k.count(p.principal) >= parkedMax {
			return "", &fault.Error{Kind: fault.Limit, Subject: upstream, Msg: "too many calls of yours wait for input", Hint: "Answer or abandon some of them first."}
		}
		k.m[p.id] = p
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.expires != nil {
		p.expires.Stop()
	}
	p.expires = time.AfterFunc(k.wait, func() { k.drop(p, errAbandoned) })
	return k.key.Sign(statePrefix, ticket{
		Node: k.node, ID: p.id, Upstream: upstream, Principal: p.principal, Tag: p.tag,
		Method: o.Method, Digest: digest(o), Expires: time.Now().Add(k.wait).UnixMilli(),
	})
}

// count returns how many calls of a principal wait. If that is too many, those
// that have ended meanwhile are forgotten. Called with mu held.
func (k *parking) count(principal string) (n int) {
	var ended []string
	for id, p := range k.m {
		if p.principal != principal {
			continue
		}
		n++
		select {
		case <-p.done:
			ended = append(ended, id)
		default:
		}
	}
	if n < parkedMax {
		return n
	}
	for _, id := range ended {
		delete(k.m, id)
	}
	return n - len(ended)
}

var errAbandoned = fault.New(fault.Cancelled, "", "the client did not come back with the input in time")

// drop forgets a call and ends it.
func (k *parking) drop(p *parked, cause error) {
	k.mu.Lock()
	delete(k.m, p.id)
	k.mu.Unlock()
	p.cancel(cause)
}

// find returns the parked call that a client's request continues.
func (k *parking) find(upstream string, o *mcp.Outgoing, state string) (*parked, error) {
	t, err := k.open(state)
	if err != nil {
		return nil, err
	}
	lost := fault.New(fault.ContinuationLost, upstream, "the call that this input belongs to is over")
	switch {
	case t.Principal != o.Client.Actor.Name() || t.Tag != o.Client.Actor.Tag() || t.Upstream != upstream || t.Method != o.Method || t.Digest != digest(o):
		return nil, fault.New(fault.InvalidParams, "requestState", "it belongs to another request")
	case t.Node != k.node || time.Now().UnixMilli() > t.Expires:
		return nil, lost
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.m[t.ID]
	if p == nil {
		return nil, lost
	}
	delete(k.m, t.ID)
	return p, nil
}
