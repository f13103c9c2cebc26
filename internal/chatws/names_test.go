package chatws

import (
	"context"

	"github.com/stoahub/stoa/internal/auth"
)

// owner is the token of the hub's owner, who may approve. Without a token comes
// whoever is at this machine, who has the same Sessions and may not.
const owner = "owner"

// names takes every other token for the name of a principal without rights.
type names struct{}

func (names) Verify(_ context.Context, token string) (*auth.Principal, error) {
	if token == owner {
		return auth.Owner, nil
	}
	return &auth.Principal{Name: token, Scopes: auth.Scopes{"*"}, Via: auth.ViaToken}, nil
}

func (names) Again(_ context.Context, who *auth.Principal) (*auth.Principal, error) { return who, nil }

// known is who has a name.
func known(name string, via auth.Via) (*auth.Principal, error) {
	switch {
	case name != auth.LocalName:
		return &auth.Principal{Name: name, Scopes: auth.Scopes{"*"}, Via: auth.ViaToken}, nil
	case via == auth.ViaOwner:
		return auth.Owner, nil
	}
	return auth.Local, nil
}
