package actor

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoahub/stoa/internal/auth"
)

func TestCheckFindsWhoIsGone(t *testing.T) {
	old, again := *alice, *alice
	old.Token, again.Token = "t_1", "t_2"
	ofBob := New(HTTP, bob)
	for name, tc := range map[string]struct {
		a     Actor
		known []*auth.Principal
		gone  bool
	}{
		"still there":                    {New(Chat, alice).By(ByModel("")), all, false},
		"revoked":                        {New(Chat, alice).By(ByModel("")), []*auth.Principal{bob}, true},
		"made again under the same name": {New(Chat, &old).By(ByTask()), []*auth.Principal{&again}, true},
		"the same token":                 {New(Chat, &old).By(ByTask()), []*auth.Principal{&old}, false},
		"whose plan it is":               {New(API, alice).By(ByRun("r", &ofBob)), []*auth.Principal{alice}, true},
		"nobody":                         {Actor{}.By(ByTask()), all, true},
		"the owner":                      {New(API, auth.Owner).By(ByModel("")), all, false},
	} {
		if err := tc.a.Check(among(tc.known)); errors.Is(err, ErrGone) != tc.gone {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWatchEndsWithTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone atomic.Bool
		var looked atomic.Int64
		lookup := func(string, auth.Via) *auth.Principal {
			if looked.Add(1); gone.Load() {
				return nil
			}
			return alice
		}
		began := time.Now()
		ctx, leave := New(Chat, alice).By(ByModel("")).Watch(t.Context(), lookup)
		defer leave()
		time.AfterFunc(2500*time.Millisecond, func() { gone.Store(true) })
		<-ctx.Done()
		if took := time.Since(began); took != 3*time.Second || !errors.Is(context.Cause(ctx), ErrGone) {
			t.Errorf("it ended after %v by %v", took, context.Cause(ctx))
		}
		// Work that is over is looked at no more, and the owner never is.
		gone.Store(false)
		_, left := New(Chat, alice).Watch(t.Context(), lookup)
		left()
		owned, end := New(API, auth.Owner).By(ByModel("")).Watch(t.Context(), lookup)
		defer end()
		n := looked.Load()
		rest, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		<-rest.Done()
		if looked.Load() != n || owned.Err() != nil {
			t.Errorf("looked %d times more; the owner's context: %v", looked.Load()-n, owned.Err())
		}
	})
}
