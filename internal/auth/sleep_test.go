package auth

import (
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/sleep"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// What lets a browser in for a moment does not last until the moment after the
// machine has slept.
func TestCodesAndTicketsEndInSleep(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	codes, tickets := &Codes{Now: clock}, &Tickets{Now: clock}
	_, text := newCodeOf(t, codes, Owner)
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer x")
	secret, _, err := tickets.Issue(r, Owner, "/ws")
	if err != nil {
		t.Fatal(err)
	}
	now = sleep.For(now, time.Hour)
	if who, _, err := codes.Redeem(text, somebody); !errors.Is(err, ErrBadCode) {
		t.Errorf("the code signs in %v, %v", who, err)
	}
	if _, err := tickets.use(secret, "/ws"); !errors.Is(err, ErrBadTicket) {
		t.Errorf("the ticket lets in: %v", err)
	}
}

// A hub whose machine wakes up without its store knows no more who may come in: who
// is revoked may be so for long.
func TestTokensAfterSleep(t *testing.T) {
	s := storetest.StartServer(t)
	a := another(t, s)
	_, secret := create(t, a, "alice", "*")
	if _, err := a.Verify(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	a.now = func() time.Time { return sleep.For(time.Now(), time.Hour) }
	if _, err := a.Verify(t.Context(), secret); !errors.Is(err, ErrUntrusted) {
		t.Errorf("an hour later: %v", err)
	}
}

// Where nobody has come for long, who comes first after the store has fallen silent
// is let in as others are.
func TestStoreFallsSilentAfterAQuietTime(t *testing.T) {
	s := storetest.StartServer(t)
	in, _ := sharing(t, s)
	a := sharedTokensOf(t, in)
	_, secret := create(t, a, "alice", "*")
	if _, err := a.Verify(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	last := time.Now()
	known := a.keeper.(*sharedTokens).kept.Known
	await.Until(t, "it is looked at who may come in", func() bool { return known().After(last.Add(time.Second)) })
	s.Kill()
	late := time.Until(last.Add(Trusted + time.Second/2))
	if late < 0 {
		t.Fatal("nobody has looked for longer than is trusted what was known last")
	}
	a.now = func() time.Time { return time.Now().Add(late) }
	if who, err := a.Verify(t.Context(), secret); err != nil || who.Name != "alice" {
		t.Errorf("%v, %v", who, err)
	}
}
