package auth

import (
	"errors"
	"fmt"
	"path"
	"slices"
)

// LocalName is the name of who asks on loopback without a token. No token can
// have it.
const LocalName = "local"

// Principal is an identity that a request was found to have. It is shared
// between requests and not to be changed.
type Principal struct {
	Name   string
	Scopes Scopes
}

// Local is who asks on loopback without a token: the person at this machine.
var Local = &Principal{Name: LocalName, Scopes: Scopes{"*"}}

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
