package call

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/upstream"
)

// What works for somebody whose token was revoked makes no call, also not one
// that a person allows a moment later, and what it has asked is withdrawn.
func TestNothingIsCalledForWhoIsGone(t *testing.T) {
	s := stage(t, upstream.Options{})
	for name, tc := range map[string]struct {
		by     actor.Actor
		before bool         // the token goes before the call
		ask    policy.Asker // else while this asks
	}{
		"before a model's call": {by: direct(ann).By(actor.ByModel("")), before: true},
		"before a task's call":  {by: direct(ann).By(actor.ByTask()), before: true},
		"before a yes": {by: direct(ann).By(actor.ByTask()), ask: func(context.Context, policy.Approval) (policy.Decision, error) {
			return policy.Decision{Approve: true, By: "somebody"}, nil
		}},
		"before a yes to a client": {by: direct(ann), ask: func(context.Context, policy.Approval) (policy.Decision, error) {
			return policy.Decision{Approve: true, By: "somebody"}, nil
		}},
		"while nobody answers": {by: direct(ann).By(actor.ByModel("")), ask: func(ctx context.Context, _ policy.Approval) (policy.Decision, error) {
			<-ctx.Done()
			return policy.Decision{}, context.Cause(ctx)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var gone atomic.Bool
			d := New(Options{Rules: compiled(policy.Rule{Action: policy.Ask}), Principal: func(name string, via auth.Via) (*auth.Principal, error) {
				if gone.Load() {
					return nil, nil
				}
				return lookupOf(ann)(name, via)
			}})
			gone.Store(tc.before)
			n, asked := s.box.reached(), 0
			_, err := s.call(d, as(tc.by), "write", "", Hooks{Ask: func(ctx context.Context, a policy.Approval) (policy.Decision, error) {
				asked++
				gone.Store(true)
				if tc.ask == nil {
					return policy.Decision{Approve: true, By: "somebody"}, nil
				}
				return tc.ask(ctx, a)
			}})
			if !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "not valid any more") || s.box.reached() != n {
				t.Errorf("%v; %d calls", err, s.box.reached()-n)
			}
			if tc.before && asked > 0 {
				t.Error("a person was asked")
			}
		})
	}
}

// A call is not refused because the tokens cannot be read for a moment, and is not
// made before they can.
func TestCallWaitsForWhatCannotBeRead(t *testing.T) {
	s := stage(t, upstream.Options{})
	var unread atomic.Bool
	var looked atomic.Int64
	d := New(Options{Rules: compiled(), Principal: func(name string, via auth.Via) (*auth.Principal, error) {
		if unread.Load() {
			looked.Add(1)
			return nil, errors.New("the file is half written")
		}
		return lookupOf(ann)(name, via)
	}})
	unread.Store(true)
	n, done := s.box.reached(), make(chan error, 1)
	go func() {
		_, err := s.call(d, as(direct(ann).By(actor.ByTask())), "write", "", Hooks{})
		done <- err
	}()
	await.Until(t, "it looks", func() bool { return looked.Load() > 0 })
	if s.box.reached() != n {
		t.Error("it was called for nobody knows whom")
	}
	unread.Store(false)
	if err := <-done; err != nil || s.box.reached() != n+1 {
		t.Errorf("%v; %d calls", err, s.box.reached()-n)
	}
	// Who gives up before is told that it may be tried again.
	unread.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		done <- d.present(ctx, direct(ann), "box__write")
	}()
	cancel()
	if err := <-done; !fault.Is(err, fault.Storage) || !fault.Of(err).Retryable() {
		t.Errorf("given up: %v", err)
	}
}

// A server that goes on with a call of somebody whose token was revoked has no
// model's answer any more, also where nobody has to be asked for one.
func TestNoModelAnswersForWhoIsGone(t *testing.T) {
	var gone atomic.Bool
	d := New(Options{Rules: compiled(policy.Rule{Tools: []string{"box:sampling"}, Action: policy.Allow}), Principal: func(name string, via auth.Via) (*auth.Principal, error) {
		if gone.Load() {
			return nil, nil
		}
		return lookupOf(ann)(name, via)
	}})
	if dec, err := d.Sampling(t.Context(), as(direct(ann)), "box", policy.Approval{}); err != nil || !dec.Approve {
		t.Errorf("while the token is there: %+v, %v", dec, err)
	}
	gone.Store(true)
	if dec, err := d.Sampling(t.Context(), as(direct(ann)), "box", policy.Approval{}); !fault.Is(err, fault.Denied) || dec.Approve {
		t.Errorf("when it is revoked: %+v, %v", dec, err)
	}
}
