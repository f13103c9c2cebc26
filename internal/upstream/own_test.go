package upstream

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// Where there is no room for another session, one makes it that was not used for
// a while, and none that was used just now.
func TestSessionsMakeRoom(t *testing.T) {
	_, u, _ := asker(t, 0, func(o *Options) { o.PerSession, o.Most = true, 2 })
	call := func(session string) error {
		params := []byte(`{"name":"elicit","arguments":{}}`)
		resp, err := u.Do(context.Background(), &mcp.Outgoing{
			Method: "tools/call", Raw: params, Fields: wire.Members(params), Name: "elicit", Asked: mcp.Asked{Session: session},
			Client: &mcp.Client{Era: mcp.Modern, Version: mcp.ModernVersion, Capabilities: []byte(`{}`), Actor: actor.New(actor.API, auth.Owner)},
		}, Call{Tool: "elicit"})
		resp.Release()
		return err
	}
	have := func() (sessions []string) {
		u.mu.Lock()
		defer u.mu.Unlock()
		for k := range u.links {
			if k.alone {
				sessions = append(sessions, strings.Trim(k.client[strings.LastIndex(k.client, "\x00")+1:], `"`))
			}
		}
		slices.Sort(sessions)
		return sessions
	}
	for _, session := range []string{"a", "b", "a"} {
		if err := call(session); err != nil {
			t.Fatalf("%s: %v", session, err)
		}
	}
	if err := call("c"); !fault.Is(err, fault.Limit) || !slices.Equal(have(), []string{"a", "b"}) {
		t.Errorf("while all are in use: %v; there are %v", err, have())
	}
	u.mu.Lock()
	for k, l := range u.links {
		if strings.HasSuffix(k.client, `"a"`) {
			l.used.Store(time.Now().Add(-2 * spareAfter).UnixNano())
		}
	}
	u.mu.Unlock()
	if err := call("c"); err != nil || !slices.Equal(have(), []string{"b", "c"}) {
		t.Errorf("when one is not: %v; there are %v", err, have())
	}
}

// Agents call back for many: what one of them is given does not reach the calls of
// another.
func TestCallbacksShareNoConnection(t *testing.T) {
	u := &Upstream{opts: Options{PerSession: true}}
	u.eras.Store(uint32(mcp.Legacy))
	bot, ann, ben := &auth.Principal{Name: "bot"}, &auth.Principal{Name: "ann"}, &auth.Principal{Name: "ben"}
	key := func(a actor.Actor, session string) string {
		return u.Connection(&mcp.Client{Era: mcp.Modern, Actor: a}, session)
	}
	behind := func(caller *auth.Principal) actor.Actor {
		return actor.New(actor.HTTP, bot).By(actor.ByAgent("bot", "call", actor.New(actor.API, caller)))
	}
	own := actor.New(actor.HTTP, ann)
	for name, tc := range map[string]struct {
		a, b string
		same bool
	}{
		"one caller":                   {key(behind(ann), ""), key(behind(ann), ""), true},
		"two callers":                  {key(behind(ann), ""), key(behind(ben), ""), false},
		"a caller and the agent":       {key(behind(ann), ""), key(actor.New(actor.HTTP, bot), ""), false},
		"a task of one's own":          {key(own, "s"), key(own.By(actor.ByTask()), "s"), true},
		"another session":              {key(own, "s"), key(own, ""), false},
		"a run that somebody moved on": {key(own.By(actor.ByRun("r", nil)), ""), key(own.By(actor.ByRun("r", nil)).Steered(actor.New(actor.API, ben).By(actor.ByModel(""))), ""), true},
	} {
		if tc.a == "" || (tc.a == tc.b) != tc.same {
			t.Errorf("%s: %q and %q", name, tc.a, tc.b)
		}
	}
}
