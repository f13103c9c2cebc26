package auth

import (
	"errors"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// clock is a time that tests move.
type clock struct{ at time.Time }

func newClock() *clock                  { return &clock{time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)} }
func (c *clock) now() time.Time         { return c.at }
func (c *clock) pass(d time.Duration)   { c.at = c.at.Add(d) }
func holder(name, id string) *Principal { return &Principal{Name: name, Via: ViaToken, Token: id} }

func newCodeOf(t *testing.T, c *Codes, who *Principal) (Code, string) {
	t.Helper()
	code, text, err := c.Create(who)
	if err != nil {
		t.Fatal(err)
	}
	return code, text
}

const somebody = "192.0.2.7:1"

// A code is good once, within its life, for who asked for it and nobody else.
func TestCodeIsGoodOnce(t *testing.T) {
	at := newClock()
	c := &Codes{Now: at.now}
	known, text := newCodeOf(t, c, Owner)
	if !regexp.MustCompile(`^[0-9A-HJKMNP-TV-Z]{4}(-[0-9A-HJKMNP-TV-Z]{4}){2}$`).MatchString(text) {
		t.Fatalf("code %q", text)
	}
	_, other := newCodeOf(t, c, holder("alice", "t_1"))
	if s, err := c.State(known.ID, Owner); err != nil || s.Used {
		t.Errorf("before it is used: %+v, %v", s, err)
	}
	if _, err := c.State(known.ID, holder("alice", "t_1")); !errors.Is(err, ErrNoCode) {
		t.Errorf("alice hears of the owner's code: %v", err)
	}
	who, _, err := c.Redeem(strings.ToLower(strings.ReplaceAll(text, "-", " ")), somebody)
	if err != nil || who != Owner {
		t.Fatalf("as somebody types it: %v, %v", who, err)
	}
	if s, err := c.State(known.ID, Owner); err != nil || !s.Used {
		t.Errorf("after it was used: %+v, %v", s, err)
	}
	if _, _, err := c.Redeem(text, somebody); !errors.Is(err, ErrBadCode) {
		t.Errorf("again: %v", err)
	}
	if who, _, err := c.Redeem(other, somebody); err != nil || who.Name != "alice" || who.IsOwner() {
		t.Errorf("alice's code signs in %v, %v", who, err)
	}
}

func TestCodeExpires(t *testing.T) {
	at := newClock()
	c := &Codes{Now: at.now}
	known, text := newCodeOf(t, c, Owner)
	at.pass(CodeLife)
	if _, _, err := c.Redeem(text, somebody); !errors.Is(err, ErrBadCode) {
		t.Errorf("after its life: %v", err)
	}
	if _, err := c.State(known.ID, Owner); !errors.Is(err, ErrNoCode) {
		t.Errorf("it is still known: %v", err)
	}
}

// Who guesses is told to wait. The right code gets in all the same.
func TestWrongCodesAreLimited(t *testing.T) {
	at := newClock()
	c := &Codes{Now: at.now}
	_, text := newCodeOf(t, c, Owner)
	for i := range maxAttempts + 5 {
		_, wait, err := c.Redeem("0000-0000-0000", somebody)
		if !errors.Is(err, ErrBadCode) || (wait > 0) != (i >= maxAttempts) {
			t.Fatalf("guess %d: wait %v, %v", i+1, wait, err)
		}
	}
	if _, wait, err := c.Redeem("", "198.51.100.1:2"); !errors.Is(err, ErrBadCode) || wait > 0 {
		t.Errorf("nothing, from another address: %v, %v", wait, err)
	}
	if _, _, err := c.Redeem(strings.Repeat("0", 1<<20), "198.51.100.1:2"); !errors.Is(err, ErrBadCode) {
		t.Errorf("a megabyte: %v", err)
	}
	if who, _, err := c.Redeem(text, somebody); err != nil || who != Owner {
		t.Errorf("the right one: %v, %v", who, err)
	}
}

// One principal's codes do not crowd out another's, and all are bounded.
func TestCodesAreBounded(t *testing.T) {
	c := &Codes{Now: newClock().now}
	_, mine := newCodeOf(t, c, Owner)
	_, first := newCodeOf(t, c, holder("alice", "t_1"))
	for range maxCodes {
		newCodeOf(t, c, holder("alice", "t_1"))
	}
	if _, _, err := c.Redeem(first, somebody); !errors.Is(err, ErrBadCode) {
		t.Errorf("alice's oldest of %d: %v", maxCodes+1, err)
	}
	var err error
	for i := range maxAllCodes + 1 {
		_, _, err = c.Create(holder("p"+string(rune('a'+i%26))+strings.Repeat("x", i/26), "t_2"))
		if err != nil {
			break
		}
	}
	if !errors.Is(err, ErrTooMany) || len(c.made) > maxAllCodes {
		t.Errorf("%d codes: %v", len(c.made), err)
	}
	if _, _, err := c.Create(Owner); err != nil {
		t.Errorf("the owner is locked out: %v", err)
	}
	if who, _, err := c.Redeem(mine, somebody); err != nil || who != Owner {
		t.Errorf("the owner's code: %v, %v", who, err)
	}
}

// Only who holds a token can pass on what it is good for.
func TestWhoCanMakeCodes(t *testing.T) {
	c := &Codes{}
	signed := *Owner
	signed.SignIn = "s_1"
	for what, who := range map[string]*Principal{"no token": Local, "a sign-in": &signed, "the owner without rights": Owner.WithoutRights()} {
		if _, _, err := c.Create(who); err == nil {
			t.Errorf("%s: a code was made", what)
		}
	}
}

// Of many who bring the same code or ticket at once, one gets in.
func TestOnlyOneOfManyGetsIn(t *testing.T) {
	codes, tickets := &Codes{}, &Tickets{}
	_, text := newCodeOf(t, codes, Owner)
	ticket := issue(t, tickets, "good", Owner, "/ws")
	var entered, admitted atomic.Int32
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			if _, _, err := codes.Redeem(text, somebody); err == nil {
				entered.Add(1)
			}
			if _, err := tickets.use(ticket, "/ws"); err == nil {
				admitted.Add(1)
			}
		})
	}
	wg.Wait()
	if entered.Load() != 1 || admitted.Load() != 1 {
		t.Errorf("%d got in by the code and %d by the ticket", entered.Load(), admitted.Load())
	}
}
