package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// versions are those that a hub knows of a value.
func versions(t *testing.T, s *Session, name string) string {
	t.Helper()
	all, err := s.History(name)
	if err != nil {
		t.Fatal(err)
	}
	out := ""
	for _, v := range all {
		out += fmt.Sprint(v.Version, " ")
	}
	return out
}

// How many versions a value has is decided by who stores it, and known alike to all
// hubs, however they are configured, also after a restart.
func TestHubsWithOtherHistories(t *testing.T) {
	server := storetest.StartServer(t)
	open := func(history int) *Registry {
		return registry(t, storetest.Open(t, store.Options{URL: server.URL}), Options{History: history})
	}
	many, few := open(5), open(2)
	here, there := bind(t, many, "p", "s"), bind(t, few, "p", "s")
	for i := range 4 {
		store1(t, here, "v", fmt.Sprint(i))
	}
	same := func(want string) {
		t.Helper()
		for name, r := range map[string]*Registry{"many": many, "few": few, "few, started again": open(2), "many, started again": open(5)} {
			if err := r.CatchUp(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := versions(t, bind(t, r, "p", "s"), "v"); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	}
	same("4 3 2 1 ")
	store1(t, there, "v", "4")
	same("5 4 ")
	store1(t, here, "v", "5")
	same("6 5 4 ")
}

// A Session is not ended by a hub whose time-out is shorter while another hub, by
// which it was used, would keep it.
func TestHubsWithOtherTimeouts(t *testing.T) {
	server := storetest.StartServer(t)
	for _, tc := range []struct {
		name  string
		keeps Options
		ends  Options
		until time.Duration // it is there
		gone  time.Duration // it is not
	}{
		{"longer", Options{Timeout: 24 * time.Hour}, Options{Timeout: time.Minute}, 24 * time.Hour, 33 * time.Hour},
		{"never", Options{}, Options{Timeout: time.Minute}, 29 * 24 * time.Hour, 31 * 24 * time.Hour},
		{"older", Options{MaxAge: 48 * time.Hour}, Options{MaxAge: time.Hour}, 47 * time.Hour, 49 * time.Hour},
		{"notTooOld", Options{Timeout: time.Hour}, Options{Timeout: time.Hour, MaxAge: time.Minute}, time.Hour, 3 * time.Hour},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx := ctxFor(t, 100*time.Second)
			open := func(o Options) *Registry {
				return registry(t, storetest.Open(t, store.Options{URL: server.URL}), o)
			}
			a, b := open(tc.keeps), open(tc.ends)
			store1(t, bind(t, b, "p", tc.name), "v", "1") // each has used it
			there := func(r *Registry) bool { return r.find(key{"p", tc.name}) != nil }
			await.Until(t, "both know it", func() bool { return there(a) && there(b) })
			used := time.Now()
			a.Sweep(ctx, used)
			await.Until(t, "the other knows for how long it is kept", func() bool {
				s := b.find(key{"p", tc.name})
				s.mu.RLock()
				defer s.mu.RUnlock()
				return s.state.until > used.Add(tc.until).UnixNano()
			})
			store1(t, bind(t, b, "p", tc.name), "v", "2") // what made the first spare says it still
			again := open(tc.ends)
			for _, r := range []*Registry{b, again} {
				r.Sweep(ctx, used.Add(tc.until))
				if !there(r) {
					t.Fatal("a hub has ended what another keeps")
				}
			}
			again.Sweep(ctx, used.Add(tc.gone))
			if there(again) {
				t.Error("it is kept though nobody wants it any more")
			}
		})
	}
}
