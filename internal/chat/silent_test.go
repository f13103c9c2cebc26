package chat

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/proxy"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// TestStoreIsSilentDuringACall goes on with a turn whose tool runs while the store
// does not answer for as long as a cluster needs for another leader.
func TestStoreIsSilentDuringACall(t *testing.T) {
	p := proxy.New(t, storetest.StartServer(t).URL)
	s := newStage(t, staged{store: storetest.Open(t, store.Options{URL: p.URL}), model: &spoken{answers: []answer{says("I look.", "srv__slow"), says("There.")}}})
	release := make(chan struct{})
	s.shop.add("srv__slow", `{"readOnlyHint":true}`, func(ctx context.Context, _ *mcp.Request, _ json.RawMessage) (string, error) {
		select {
		case <-release:
			return "here", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	c := s.open("one")
	s.send(c, "go")
	s.until(c, func(ev *Event) bool { return ev.Type == CallStarted })
	p.Set(proxy.Lose, proxy.Lose)
	back := time.Now().Add(9 * time.Second)
	await.Until(t, "the store is back", func() bool { return time.Now().After(back) })
	p.Restore()
	await.NoError(t, "the store is reached again", func() error { _, err := s.e.journal.At(c.id).Latest(t.Context()); return err })
	close(release)
	log := s.turns(c, 1)
	if last := log[len(log)-1]; last.End.Reason != ReasonDone {
		t.Errorf("the turn has ended with %+v:\n%s", last.End, describe(log))
	}
}

// appends counts what a log is asked to keep.
type appends struct {
	journal.Log
	n atomic.Int32
}

func (a *appends) Append(ctx context.Context, subject string, data []byte, expect uint64) (uint64, error) {
	a.n.Add(1)
	return a.Log.Append(ctx, subject, data, expect)
}

// TestSilentStore says that it is not known whether an input was kept when the
// store has not told for as long as it may take: a conversation is not held up
// for as long as all tries would take.
func TestSilentStore(t *testing.T) {
	p := proxy.New(t, storetest.StartServer(t).URL)
	log := &appends{}
	s := newStage(t, staged{store: storetest.Open(t, store.Options{URL: p.URL, Timeout: 500 * time.Millisecond}), model: &spoken{answers: []answer{says("There.")}},
		over: func(l journal.Log) journal.Log { log.Log = l; return log }})
	c := s.open("one")
	s.send(c, "go")
	s.turns(c, 1)
	before := log.n.Load()
	p.Set(proxy.Pass, proxy.Lose)
	_, err := c.Send(t.Context(), Input{Text: "more"})
	if !errors.Is(err, journal.ErrUncertain) {
		t.Errorf("it ended with %v", err)
	}
	if n := log.n.Load() - before; n > 2 {
		t.Errorf("a store that is silent was asked to keep the input %d times", n)
	}
	p.Restore()
}

// TestPrincipalIsLookedFor lets others use the conversations while it is found out
// whose an unfinished one is: that may have to wait for the store.
func TestPrincipalIsLookedFor(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	first := newStage(t, staged{store: st, model: &spoken{answers: []answer{hangs("I will")}}})
	c := first.open("one")
	first.send(c, "go")
	first.until(c, func(ev *Event) bool { return ev.Type == TextPart })
	first.send(c, "then this")
	first.e.Close()
	asked := atomic.Bool{}
	next := newStage(t, staged{store: st, model: &spoken{answers: []answer{says("There.")}}, lookup: func(s *stage) {
		asked.Store(true)
		used := make(chan struct{})
		go func() {
			defer close(used)
			s.e.Draining()
		}()
		select {
		case <-used:
		case <-time.After(await.Patience):
			t.Error("nobody can use the conversations meanwhile")
		}
	}})
	next.turns(next.open("one"), 2)
	if !asked.Load() {
		t.Error("nobody was looked for")
	}
}
