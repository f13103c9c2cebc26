package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// entrance is all by which one hub lets people in.
type entrance struct {
	tokens  *Tokens
	signIns *SignIns
	codes   *Codes
	tickets *Tickets
}

func entranceOf(t *testing.T, s *storetest.Server) *entrance {
	t.Helper()
	in, _ := sharing(t, s)
	e := &entrance{tokens: sharedTokensOf(t, in), codes: &Codes{}, tickets: &Tickets{}}
	var err error
	if e.signIns, err = OpenSharedSignIns(t.Context(), in, e.tokens); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.signIns.Close)
	if err := e.codes.Share(t.Context(), in, e.tokens); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.codes.Close)
	if err := e.tickets.Share(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.tickets.Close)
	return e
}

func (e *entrance) Verify(ctx context.Context, token string) (*Principal, error) {
	switch {
	case token == "owner":
		return Owner, nil
	case strings.HasPrefix(token, SignInPrefix):
		return e.signIns.Verify(ctx, token)
	}
	return e.tokens.Verify(ctx, token)
}

func (e *entrance) Again(ctx context.Context, who *Principal) (*Principal, error) {
	switch {
	case who.SignIn != "":
		return e.signIns.Again(ctx, who)
	case who.Token != "":
		return e.tokens.Again(ctx, who)
	}
	return who, nil
}

// Who is signed in by one hub is so at the others, after a restart too, until they
// are signed out at any of them or their token ends.
func TestHubsShareSignIns(t *testing.T) {
	s := storetest.StartServer(t)
	a, b := entranceOf(t, s), entranceOf(t, s)
	_, token := create(t, a.tokens, "alice", "git*")
	alice, err := b.tokens.Verify(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	owners, own := signInAs(t, a.signIns, Owner)
	_, hers := signInAs(t, b.signIns, alice)
	for what, e := range map[string]*entrance{"here": a, "there": b, "after a restart": entranceOf(t, s)} {
		who, err := e.Verify(t.Context(), own)
		if err != nil || !who.IsOwner() || who.SignIn != owners.ID {
			t.Fatalf("the owner, %s: %+v, %v", what, who, err)
		}
		if who, err := e.Again(t.Context(), who); err != nil || !who.IsOwner() {
			t.Errorf("the owner again, %s: %+v, %v", what, who, err)
		}
		if who, err := e.Verify(t.Context(), hers); err != nil || who.Name != "alice" || !who.Scopes.Allows("github") || who.Scopes.Allows("files") {
			t.Errorf("alice, %s: %+v, %v", what, who, err)
		}
		if all, err := e.signIns.List(); err != nil || len(all) != 2 {
			t.Errorf("listed %s: %+v, %v", what, all, err)
		}
		if _, err := e.Verify(t.Context(), newSecret(SignInPrefix)); !errors.Is(err, ErrBadToken) {
			t.Errorf("a guess, %s: %v", what, err)
		}
	}
	raw := string(storetest.Raw(t, s.URL))
	for what, text := range map[string]string{"the secret": own[len(SignInPrefix):], "the id": owners.ID, "the name": "alice", "the browser": "Firefox"} {
		if strings.Contains(raw, text) {
			t.Errorf("the store tells %s", what)
		}
	}
	if gone, err := b.signIns.Revoke(func(one SignIn) bool { return one.ID == owners.ID }); err != nil || len(gone) != 1 {
		t.Fatalf("%+v, %v", gone, err)
	}
	if _, err := a.tokens.Revoke("alice"); err != nil {
		t.Fatal(err)
	}
	for _, e := range []*entrance{a, b, entranceOf(t, s)} {
		for what, secret := range map[string]string{"who was signed out": own, "whose token ended": hers} {
			await.Until(t, what+" is refused", func() bool {
				_, err := e.Verify(t.Context(), secret)
				return errors.Is(err, ErrBadToken)
			})
		}
		if _, err := e.Again(t.Context(), &Principal{SignIn: owners.ID}); !errors.Is(err, ErrBadToken) {
			t.Errorf("again: %v", err)
		}
	}
	if _, err := a.signIns.Revoke(func(SignIn) bool { return false }); !errors.Is(err, ErrNoSignIn) {
		t.Errorf("nobody: %v", err)
	}
}

// Of many who bring the same code or ticket to any of the hubs at once, one gets
// in; and nobody later, also where the hub has begun anew.
func TestCodeAndTicketAreGoodOnceOverHubs(t *testing.T) {
	s := storetest.StartServer(t)
	a, b := entranceOf(t, s), entranceOf(t, s)
	for range 5 {
		known, text := newCodeOf(t, a.codes, Owner)
		ticket := issue(t, b.tickets, "owner", Owner, "/ws")
		await.Until(t, "the other knows the code", func() bool {
			st, err := b.codes.State(known.ID, Owner)
			return err == nil && !st.Used
		})
		if raw := string(storetest.Raw(t, s.URL)); strings.Contains(raw, plain(text)) || strings.Contains(raw, text) || strings.Contains(raw, ticket) || strings.Contains(raw, known.ID) {
			t.Error("the store tells a code or a ticket")
		}
		var entered, admitted atomic.Int32
		var wg sync.WaitGroup
		for i := range 16 {
			e := []*entrance{a, b}[i%2]
			wg.Go(func() {
				switch who, _, err := e.codes.Redeem(text, somebody); {
				case err == nil && who == Owner:
					entered.Add(1)
				case !errors.Is(err, ErrBadCode):
					t.Errorf("a code: %v, %v", who, err)
				}
				switch one, err := e.tickets.use(ticket, "/ws"); {
				case err == nil && one.who == Owner:
					admitted.Add(1)
				case !errors.Is(err, ErrBadTicket):
					t.Errorf("a ticket: %+v, %v", one, err)
				}
			})
		}
		wg.Wait()
		if entered.Load() != 1 || admitted.Load() != 1 {
			t.Errorf("%d got in by the code and %d by the ticket", entered.Load(), admitted.Load())
		}
		later := entranceOf(t, s)
		if _, _, err := later.codes.Redeem(text, somebody); !errors.Is(err, ErrBadCode) {
			t.Errorf("the code later: %v", err)
		}
		if _, err := later.tickets.use(ticket, "/ws"); !errors.Is(err, ErrBadTicket) {
			t.Errorf("the ticket later: %v", err)
		}
		for _, e := range []*entrance{a, b, later} {
			await.Until(t, "it is known to be used", func() bool {
				st, err := e.codes.State(known.ID, Owner)
				return err == nil && st.Used
			})
		}
		if _, err := a.codes.State(known.ID, holder("alice", "t_1")); !errors.Is(err, ErrNoCode) {
			t.Errorf("alice hears of the owner's code: %v", err)
		}
	}
}

// A ticket of one hub opens at another what its maker may have there, and no more.
func TestTicketAtAnotherHub(t *testing.T) {
	s := storetest.StartServer(t)
	a, b := entranceOf(t, s), entranceOf(t, s)
	h := newGuard(t, Options{Loopback: true, Verifier: b, Tickets: b.tickets}).Require(func(w http.ResponseWriter, _ *http.Request, who *Principal) {
		fmt.Fprint(w, who.Name, " ", who.Has(RightApprove), " ", who.IsOwner())
	})
	get := func(ticket string) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1:8080/ws?ticket="+ticket, nil))
		return w.Body.String()
	}
	_, token, err := a.tokens.Create("alice", Scopes{"*"}, 0, RightApprove)
	if err != nil {
		t.Fatal(err)
	}
	alice, err := a.tokens.Verify(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	one, secret := signInAs(t, a.signIns, Owner)
	signed, err := a.Verify(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	less := func(bearer string, who *Principal) string {
		r := bearing(bearer)
		r.Header.Set(HeaderRights, "none")
		ticket, _, err := a.tickets.Issue(r, who.WithoutRights(), "/ws")
		if err != nil {
			t.Fatal(err)
		}
		return ticket
	}
	for want, ticket := range map[string]string{
		"alice true false":  issue(t, a.tickets, token, alice, "/ws"),
		"alice false false": less(token, alice),
		"local true true":   issue(t, a.tickets, secret, signed, "/ws"),
		"local false false": less(secret, signed),
	} {
		if got := get(ticket); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	spent := issue(t, a.tickets, token, alice, "/elsewhere")
	if got := get(spent); !strings.Contains(got, "not valid") {
		t.Errorf("for another path: %s", got)
	}
	ended, reduced := issue(t, a.tickets, token, alice, "/ws"), less(secret, signed)
	if _, err := b.tokens.Revoke("alice"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.signIns.Revoke(func(x SignIn) bool { return x.ID == one.ID }); err != nil {
		t.Fatal(err)
	}
	for what, ticket := range map[string]string{"a revoked token": ended, "a sign-in that is over": reduced} {
		if got := get(ticket); !strings.Contains(got, "not valid") {
			t.Errorf("of %s: %s", what, got)
		}
	}
}

// While the store does not answer, a code and a ticket let nobody in, and nobody
// says that they are bad: they are good afterwards.
func TestCodesWhileTheStoreIsAway(t *testing.T) {
	s := storetest.StartServer(t)
	a := entranceOf(t, s)
	_, text := newCodeOf(t, a.codes, Owner)
	_, signedIn := signInAs(t, a.signIns, Owner)
	if _, err := a.Verify(t.Context(), signedIn); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if _, wait, err := a.codes.Redeem(text, somebody); !fault.Is(err, fault.Storage) || wait > 0 {
		t.Errorf("a code: %v, %v", wait, err)
	}
	if _, err := a.tickets.use("ticket", "/ws"); !fault.Is(err, fault.Storage) {
		t.Errorf("a ticket: %v", err)
	}
	if _, _, err := a.codes.Create(Owner); !fault.Is(err, fault.Storage) {
		t.Errorf("a code was made: %v", err)
	}
	if who, err := a.Verify(t.Context(), signedIn); err != nil || !who.IsOwner() {
		t.Errorf("who is signed in: %v, %v", who, err)
	}
	if _, err := a.Verify(t.Context(), newSecret(SignInPrefix)); !fault.Is(err, fault.Storage) {
		t.Errorf("who is not known: %v", err)
	}
	s.Restart(t)
	await.Until(t, "the code is good", func() bool {
		who, _, err := a.codes.Redeem(text, somebody)
		return err == nil && who == Owner
	})
	if _, _, err := a.codes.Redeem(text, somebody); !errors.Is(err, ErrBadCode) {
		t.Errorf("twice: %v", err)
	}
}
