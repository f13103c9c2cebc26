package registration

import (
	"crypto/subtle"
	"net/netip"
	"time"

	"github.com/stoahub/stoa/internal/fault"
)

// Registration is an agent that has registered itself. It has secrets in it, and
// is not to be logged.
type Registration struct {
	Name     string `json:"name"`
	URL      string `json:"url"`
	Token    string `json:"token,omitempty"` // that hubs show to the agent
	Protocol string `json:"protocol,omitempty"`
	Queue    *Queue `json:"queue,omitempty"`

	Lease string        `json:"lease"` // the secret by which it is renewed
	Life  time.Duration `json:"life"`  // of the lease
	Ends  time.Time     `json:"ends"`  // by the clock of the hub that renewed it last

	Owner   string `json:"owner"`             // the principal that registered it
	TokenID string `json:"tokenId,omitempty"` // of the principal's token; empty for the hubs' owner

	From     netip.Addr `json:"from"`     // the address that it was registered from; not valid if that is not known
	Loopback string     `json:"loopback"` // what loopback addresses lead to where it was registered
	At       string     `json:"at"`       // the hub where it was registered, for people

	// First is the revision with which it was registered first; 0 if that is its
	// own.
	First uint64 `json:"first,omitempty"`
}

// Queue is one that an agent has asked for.
type Queue struct {
	Concurrency int           `json:"concurrency"`
	Capacity    int           `json:"capacity"`
	Timeout     time.Duration `json:"timeout,omitempty"`
}

// Skew is by how much the clocks of hubs may differ.
const Skew = 3 * time.Second

// over reports whether its lease has ended, if clocks differ by skew.
func (r *Registration) over(now time.Time, skew time.Duration) bool {
	return !now.Before(r.Ends.Add(skew))
}

// shows reports whether who comes with a lease is who registered the agent.
func (r *Registration) shows(owner, lease string) bool {
	return r.Owner == owner && subtle.ConstantTimeCompare([]byte(r.Lease), []byte(lease)) == 1
}

// since is the revision with which it was registered first, if it has one itself.
func (r *Registration) since(rev uint64) uint64 {
	if r.First != 0 {
		return r.First
	}
	return rev
}

func unknown(name string) error {
	return &fault.Error{Kind: fault.UnknownAgent, Subject: name, Msg: "there is no such lease", Hint: "Register again by POST /mcps."}
}

func taken(name string) error {
	return &fault.Error{Kind: fault.Denied, Subject: name, Msg: "an agent of this name is registered", Hint: "Show its lease, wait for it to end, or choose another name."}
}
