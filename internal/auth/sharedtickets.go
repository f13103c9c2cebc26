package auth

import (
	"context"
	"errors"
	"time"

	"github.com/stoahub/stoa/internal/journal"
)

// sharedTickets are those that hubs share, each under a hash of the ticket.
type sharedTickets struct {
	in   Shared
	kept *kept[ticketRecord]
}

// ticketRecord says whom a ticket stands for by what that ends with, and holds
// nothing that lets anybody in.
type ticketRecord struct {
	Path    string    `json:"path"`
	Name    string    `json:"name"`
	Via     Via       `json:"via"`
	Token   string    `json:"token,omitempty"`
	SignIn  string    `json:"signIn,omitempty"`
	Less    bool      `json:"less,omitempty"`
	Expires time.Time `json:"expires"`
	Used    bool      `json:"used,omitempty"`
	Entry   string    `json:"entry"` // see unlike
}

// who is to be looked at again before they are let in.
func (r *ticketRecord) who() *Principal {
	switch {
	case r.SignIn == "" && r.Via == ViaOwner:
		return Owner
	case r.SignIn == "" && r.Via == ViaLoopback:
		return Local
	}
	return &Principal{Name: r.Name, Via: r.Via, Token: r.Token, SignIn: r.SignIn}
}

// Share has the tickets be those of all hubs on a store. It is called before they
// are used. Close ends it.
func (t *Tickets) Share(ctx context.Context, in Shared) error {
	k, err := openKept(ctx, in, "tickets", func(r ticketRecord, now time.Time) bool { return !now.Before(r.Expires) })
	if err == nil {
		t.shared = &sharedTickets{in, k}
	}
	return err
}

// Close ends what goes on behind tickets that hubs share.
func (t *Tickets) Close() {
	if t.shared != nil {
		t.shared.kept.Close()
	}
}

func (s *sharedTickets) issue(now time.Time, secret string, one ticket) error {
	mine, all := 0, 0
	for _, v := range s.kept.All() {
		if v.V.Used || !now.Before(v.V.Expires) {
			continue
		}
		if all++; v.V.Name == one.who.Name {
			mine++
		}
	}
	if mine >= maxTickets || all >= maxAllTickets && !one.who.IsOwner() {
		return ErrTooMany
	}
	ctx, cancel := context.WithTimeout(context.Background(), sharedTime)
	defer cancel()
	return s.kept.put(ctx, s.in.hash("ticket", secret), ticketRecord{Path: one.path, Name: one.who.Name, Via: one.who.Via, Token: one.who.Token,
		SignIn: one.who.SignIn, Less: one.less, Expires: one.expires.UTC(), Entry: unlike()}, 0)
}

// use spends a ticket as redeem does a code.
func (s *sharedTickets) use(now time.Time, secret, path string) (ticket, error) {
	if err := s.kept.latest(now, "whether a ticket is valid"); err != nil {
		return ticket{}, err
	}
	key := s.in.hash("ticket", secret)
	v, err := s.kept.Get(key)
	switch {
	case errors.Is(err, journal.ErrNotFound), err == nil && v.V.Used:
		return ticket{}, ErrBadTicket
	case err != nil:
		return ticket{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), sharedTime)
	defer cancel()
	used := v.V
	used.Used, used.Entry = true, unlike()
	if err := s.kept.put(ctx, key, used, v.Rev); isConflict(err) {
		return ticket{}, ErrBadTicket
	} else if err != nil {
		return ticket{}, err
	}
	if v.V.Path != path || !now.Before(v.V.Expires) {
		return ticket{}, ErrBadTicket
	}
	return ticket{path: path, who: v.V.who(), less: v.V.Less, expires: v.V.Expires}, nil
}
