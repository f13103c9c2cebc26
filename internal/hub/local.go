package hub

import (
	"context"
	"crypto/subtle"
	"sync"

	"github.com/stoahub/stoa/internal/auth"
)

// Admit makes token that of the owner on a temporary hub, which has no data
// folder to keep one in. It is called before Handler.
func (h *Hub) Admit(token string) { h.tokens = soleToken(token) }

// soleToken accepts one token and no other.
type soleToken string

func (t soleToken) Verify(_ context.Context, token string) (*auth.Principal, error) {
	if t == "" || subtle.ConstantTimeCompare([]byte(token), []byte(t)) != 1 {
		return nil, auth.ErrBadToken
	}
	return auth.Owner, nil
}

// Again is that of a token which lasts as long as the hub.
func (soleToken) Again(_ context.Context, who *auth.Principal) (*auth.Principal, error) {
	return who, nil
}

// Settle waits until each upstream has been read once or is known not to be
// reached now, or until ctx ends.
func (h *Hub) Settle(ctx context.Context) {
	var wg sync.WaitGroup
	for _, u := range h.pool.All() {
		wg.Go(func() { u.Settle(ctx) })
	}
	wg.Wait()
}

// DataID is how /healthz names a data folder, so that a command knows whether
// the hub that answers is the one of its folder.
func DataID(path string) string { return (&dataDir{path: path}).id() }

var _ auth.Verifier = soleToken("")
