package auth

import (
	"errors"
	"fmt"
	"path"
	"slices"
)

// LocalName is the name of the person at this machine, who may come with the
// token of the data folder or, on loopback, without any. No token can have it.
const LocalName = "local"

// Principal is an identity that a request was found to have. It is shared
// between requests and not to be changed.
type Principal struct {
	Name   string
	Scopes Scopes
	Via    Via
	Rights Rights // those that its token was given; the owner has all
	Token  string // id of the token that it came with or signed in with; empty without one, and for the owner
	SignIn string // id of the sign-in that it came with, if it did
}

// Via is how a principal was authenticated.
type Via string

// The ways.
const (
	ViaLoopback Via = "loopback" // by nothing but coming from this machine
	ViaOwner    Via = "owner"    // by the token of the data folder, or as the program itself
	ViaToken    Via = "token"    // by a token that the owner made
)

// Local is a caller on loopback without a token. Sessions, values and published
// plans are the owner's; the owner's rights are not.
var Local = &Principal{Name: LocalName, Scopes: Scopes{"*"}, Via: ViaLoopback}

// Owner is the hub's owner: Local, authenticated.
var Owner = &Principal{Name: LocalName, Scopes: Scopes{"*"}, Via: ViaOwner}

// IsOwner reports whether it was authenticated as the hub's owner.
func (p *Principal) IsOwner() bool { return p.Via == ViaOwner }

// Has reports whether it has a right.
func (p *Principal) Has(r Right) bool { return p.IsOwner() || slices.Contains(p.Rights, r) }

// WithoutRights is the same principal with nothing but what its scopes allow.
func (p *Principal) WithoutRights() *Principal {
	if p.IsOwner() && p.SignIn != "" { // with which it ends
		less := *Local
		less.SignIn = p.SignIn
		return &less
	}
	if p.IsOwner() {
		return Local
	}
	if len(p.Rights) == 0 {
		return p
	}
	less := *p
	less.Rights = nil
	return &less
}

// Right is something beyond the use of servers. The owner has every right;
// tokens have those they were made with.
type Right string

// The rights. Only the first two can be given to a token.
const (
	RightApprove  Right = "approve"  // answer questions about its own calls; the owner answers everybody's
	RightRegister Right = "register" // register agents
	RightShare    Right = "share"    // show published plans to others
	RightLogs     Right = "logs"     // see logs, errors and what others do
	RightSessions Right = "sessions" // see and remove what others keep
	RightSettings Right = "settings" // change what holds for everybody
)

// Rights are those of a token.
type Rights []Right

// Grantable are the rights that a token can be given.
var Grantable = Rights{RightApprove, RightRegister}

// Check says what is wrong with the rights of a token, if anything.
func (r Rights) Check() error {
	for _, one := range r {
		if !slices.Contains(Grantable, one) {
			return fmt.Errorf("right %q cannot be given to a token: use %s or %s", one, RightApprove, RightRegister)
		}
	}
	return nil
}

// Scopes are globs over the names of upstreams (`*` any text, `?` one
// character, `[a-z]` one of a set). None means nothing is allowed.
type Scopes []string

// Allows reports whether the scopes cover the upstream.
func (s Scopes) Allows(upstream string) bool {
	for _, glob := range s {
		if glob == "*" || glob == upstream {
			return true
		}
		if ok, err := path.Match(glob, upstream); ok && err == nil {
			return true
		}
	}
	return false
}

// All reports whether the scopes cover every upstream.
func (s Scopes) All() bool { return slices.Contains(s, "*") }

// Check says what is wrong with the scopes, if anything.
func (s Scopes) Check() error {
	if len(s) == 0 {
		return errors.New("no scope: name the upstreams it may use, or * for all")
	}
	for _, glob := range s {
		if _, err := path.Match(glob, ""); err != nil || glob == "" {
			return fmt.Errorf("scope %q is not a pattern of upstream names such as github, git* or *", glob)
		}
	}
	return nil
}

func (s Scopes) clone() Scopes { return slices.Clone(s) }
