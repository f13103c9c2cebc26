package auth

import (
	"context"
	"errors"
	"net/http"
	"strings"
)

// ErrBadToken is the answer to a token that is unknown, revoked or expired.
// Any other error of a Verifier means that it could not find out.
var ErrBadToken = errors.New("the token is not valid")

// Verifier finds out whose token it is.
type Verifier interface {
	Verify(ctx context.Context, token string) (*Principal, error)
	// Again returns who somebody is now that came in before, or ErrBadToken if they
	// would not be let in any more.
	Again(ctx context.Context, who *Principal) (*Principal, error)
}

// maxToken bounds a token's length; those of OAuth servers have some KiB.
const maxToken = 8 << 10

// Bearer returns the token of the Authorization header and whether there is
// such a header. One that is there but not exactly `Bearer <token>`, or is
// there twice, is an error: guessing at credentials invites confusion between
// us and what is in front of us.
func Bearer(h http.Header) (token string, present bool, err error) {
	values := h["Authorization"]
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
	default:
		return "", true, errors.New("the Authorization header is there more than once")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", true, errors.New("the Authorization header is not of the form Bearer <token>")
	}
	if !isToken68(token) {
		return "", true, errors.New("the Authorization header has no well-formed token")
	}
	return token, true, nil
}

// isToken68 reports whether s has the syntax of RFC 6750's b64token.
func isToken68(s string) bool {
	body := strings.TrimRight(s, "=")
	if body == "" || len(s) > maxToken {
		return false
	}
	for i := range len(body) {
		switch c := body[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '-', c == '.', c == '_', c == '~', c == '+', c == '/':
		default:
			return false
		}
	}
	return true
}
