package mcp

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
)

// One principal's connections make room for its own new ones and, where all
// are taken, for another's; never the other way round.
func TestSharesOfConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ann, bob := &auth.Principal{Name: "ann", Via: auth.ViaToken}, &auth.Principal{Name: "bob", Via: auth.ViaToken}
		all := NewSessions(16, time.Hour)
		defer all.Close()
		open := func(who *auth.Principal) (string, error) {
			s := &session{id: newSessionID(), scope: "/mcp", client: &Client{Era: Legacy, Actor: actor.New(actor.HTTP, who)}, detach: func() {}, over: make(chan struct{})}
			s.touch()
			return s.id, all.add(s)
		}
		first, err := open(bob)
		if err != nil {
			t.Fatal(err)
		}
		for range 12 {
			if _, err := open(ann); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := open(ann); !fault.Is(err, fault.Limit) {
			t.Errorf("one more while all are in use: %v", err)
		}
		<-time.After(2 * time.Second) // of the bubble
		for range 20 {
			if _, err := open(ann); err != nil {
				t.Fatal(err)
			}
			<-time.After(2 * time.Second) // of the bubble
		}
		if all.Len() != 13 || !all.has(first) {
			t.Errorf("%d are left; bob's is %v", all.Len(), all.has(first))
		}
		for range 3 {
			if _, err := open(auth.Owner); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := open(auth.Owner); err != nil || all.Len() != 16 || !all.has(first) {
			t.Errorf("the owner: %v; %d are left; bob's is %v", err, all.Len(), all.has(first))
		}
	})
}
