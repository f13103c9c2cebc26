package auth

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// bearing is a request with a token.
func bearing(token string) *http.Request {
	r := httptest.NewRequest("POST", "http://127.0.0.1:8080/api/v1/tickets", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func issue(t *testing.T, tickets *Tickets, token string, who *Principal, path string) string {
	t.Helper()
	secret, _, err := tickets.Issue(bearing(token), who, path)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// A ticket lets in once, to its path, within its life, as who asked for it; what
// serves the request sees nothing of it.
func TestTickets(t *testing.T) {
	at := newClock()
	tickets := &Tickets{Now: at.now}
	g := newGuard(t, Options{Loopback: true, Verifier: verifierOf("good"), Tickets: tickets})
	h := g.Require(func(w http.ResponseWriter, r *http.Request, who *Principal) {
		fmt.Fprint(w, who.Name, " ", r.URL, " ", r.RequestURI)
	})
	get := func(target string, change ...func(*http.Request)) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", target, nil)
		r.Host = "127.0.0.1:8080"
		for _, f := range change {
			f(r)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	fresh := func() string { return issue(t, tickets, "good", &Principal{Name: "p"}, "/s/a%20b/mcp/ws") }

	one := fresh()
	w := get("/s/a%20b/mcp/ws?after=5&ticket=" + one + "&x=1")
	if w.Code != 200 || w.Body.String() != "p /s/a%20b/mcp/ws?after=5&x=1 /s/a%20b/mcp/ws?after=5&x=1" {
		t.Errorf("the first time: %d %s", w.Code, w.Body)
	}
	late := fresh()
	at.pass(TicketLife)
	for what, w := range map[string]*httptest.ResponseRecorder{
		"again":               get("/s/a%20b/mcp/ws?ticket=" + one),
		"too late":            get("/s/a%20b/mcp/ws?ticket=" + late),
		"another path":        get("/ws?ticket=" + fresh()),
		"made up":             get("/s/a%20b/mcp/ws?ticket=AAAA"),
		"empty":               get("/s/a%20b/mcp/ws?ticket="),
		"two of them":         get("/s/a%20b/mcp/ws?ticket=" + fresh() + "&ticket=" + fresh()),
		"another method":      get("/s/a%20b/mcp/ws?ticket="+fresh(), func(r *http.Request) { r.Method = "POST" }),
		"besides a token":     get("/s/a%20b/mcp/ws?ticket="+fresh(), func(r *http.Request) { r.Header.Set("Authorization", "Bearer good") }),
		"a token as a ticket": get("/s/a%20b/mcp/ws?ticket=good"),
	} {
		if w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String(), one) {
			t.Errorf("%s: %d %s", what, w.Code, w.Body)
		}
	}
	// One that was shown to the wrong path is spent.
	spent := fresh()
	get("/ws?ticket=" + spent)
	if w := get("/s/a%20b/mcp/ws?ticket=" + spent); w.Code == 200 {
		t.Error("a ticket that was used for another path is good for its own")
	}
}

// A ticket is no more than the token: when that has ended, so has the ticket,
// and rights that its maker did without are not in it.
func TestTicketStandsForItsToken(t *testing.T) {
	tokens, _ := openTokens(t)
	_, secret, err := tokens.Create("alice", Scopes{"*"}, 0, RightApprove)
	if err != nil {
		t.Fatal(err)
	}
	tickets := &Tickets{}
	g := newGuard(t, Options{Loopback: true, Verifier: tokens, Tickets: tickets})
	h := g.Require(func(w http.ResponseWriter, _ *http.Request, who *Principal) {
		fmt.Fprint(w, who.Name, who.Has(RightApprove))
	})
	get := func(ticket string) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1:8080/ws?ticket="+ticket, nil))
		return w.Body.String()
	}
	who, err := tokens.Verify(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	if got := get(issue(t, tickets, secret, who, "/ws")); got != "alicetrue" {
		t.Errorf("with its rights: %s", got)
	}
	less := bearing(secret)
	less.Header.Set(HeaderRights, "none")
	ticket, _, err := tickets.Issue(less, who, "/ws")
	if err != nil {
		t.Fatal(err)
	}
	if got := get(ticket); got != "alicefalse" {
		t.Errorf("without rights: %s", got)
	}
	ticket = issue(t, tickets, secret, who, "/ws")
	if _, err := tokens.Revoke("alice"); err != nil {
		t.Fatal(err)
	}
	if got := get(ticket); !strings.Contains(got, "not valid") {
		t.Errorf("of a revoked token: %s", got)
	}
}

func TestTicketsAreBounded(t *testing.T) {
	at := newClock()
	tickets := &Tickets{Now: at.now}
	for range maxTickets {
		issue(t, tickets, "good", holder("alice", "t_1"), "/ws")
	}
	if _, _, err := tickets.Issue(bearing("good"), holder("alice", "t_1"), "/ws"); !errors.Is(err, ErrTooMany) {
		t.Errorf("one too many: %v", err)
	}
	issue(t, tickets, "good", holder("bob", "t_2"), "/ws")
	at.pass(TicketLife)
	issue(t, tickets, "good", holder("alice", "t_1"), "/ws")
	if len(tickets.open) != 1 {
		t.Errorf("%d are kept, though all but one have expired", len(tickets.open))
	}
	for _, path := range []string{"", "ws", "http://x/ws", "/ws?a=1", "/ws#a", "/" + strings.Repeat("a", maxTicketPath)} {
		if _, _, err := tickets.Issue(bearing("good"), holder("alice", "t_1"), path); err == nil || errors.Is(err, ErrTooMany) {
			t.Errorf("path %.20q: %v", path, err)
		}
	}
	if _, _, err := tickets.Issue(httptest.NewRequest("POST", "/", nil), Local, "/ws"); err == nil {
		t.Error("a ticket for nobody's token")
	}
}
