package actor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
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
		lookup := func(string, auth.Via) (*auth.Principal, error) {
			if looked.Add(1); gone.Load() {
				return nil, nil
			}
			return alice, nil
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

// What cannot be found out ends nothing for good: not the check, nor the work, for
// as long as what was known last counts.
func TestNotKnowingIsNotGone(t *testing.T) {
	unread := errors.New("the file is half written")
	ofBob := New(HTTP, bob)
	lookup := func(name string, via auth.Via) (*auth.Principal, error) {
		if name == alice.Name {
			return nil, unread
		}
		return among([]*auth.Principal{carol})(name, via)
	}
	for name, tc := range map[string]struct {
		a    Actor
		want error
	}{
		"it alone":          {New(Chat, alice).By(ByModel("")), ErrUnsure},
		"before who is":     {New(Chat, alice).By(ByRun("r", &ofBob)), ErrGone},
		"who is known":      {New(Chat, carol).By(ByModel("")), nil},
		"beside who is one": {New(Chat, carol).By(ByRun("r", new(New(API, alice)))), ErrUnsure},
	} {
		err := tc.a.Check(lookup)
		if !errors.Is(err, tc.want) || errors.Is(err, ErrUnsure) && (errors.Is(err, ErrGone) || !errors.Is(err, unread) || !fault.Is(err, fault.Storage) || !fault.Of(err).Retryable()) {
			t.Errorf("%s: %v", name, err)
		}
		if _, back := Restore(tc.a.Record(), "", lookup); !errors.Is(back, ErrUnsure) && errors.Is(tc.want, ErrUnsure) {
			t.Errorf("%s is restored: %v", name, back)
		}
	}
}

func TestWatchBearsWhatCannotBeRead(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		from time.Duration // the error comes
		to   time.Duration // and goes
		end  time.Duration // 0: never
	}{
		"for a moment": {errors.New("half written"), 2 * time.Second, 25 * time.Second, 0},
		"for too long": {errors.New("half written"), 2500 * time.Millisecond, time.Hour, 2*time.Second + auth.Trusted},
		"too old":      {fmt.Errorf("%w: no leader", auth.ErrUntrusted), 2500 * time.Millisecond, time.Hour, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, leave := New(Chat, alice).By(ByModel("")).Watch(t.Context(), func(string, auth.Via) (*auth.Principal, error) {
					if at := time.Since(began); at >= tc.from && at < tc.to {
						return nil, tc.err
					}
					return alice, nil
				})
				defer leave()
				rest, cancel := context.WithTimeout(ctx, 2*time.Minute)
				defer cancel()
				<-rest.Done()
				if tc.end == 0 && ctx.Err() != nil || tc.end != 0 && (time.Since(began) != tc.end || !errors.Is(context.Cause(ctx), ErrUnsure) || errors.Is(context.Cause(ctx), ErrGone)) {
					t.Errorf("it ended after %v by %v", time.Since(began), context.Cause(ctx))
				}
			})
		})
	}
}
