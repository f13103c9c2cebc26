package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/elapsed"
)

// TicketParam is the query parameter in which a ticket is brought.
const TicketParam = "ticket"

const (
	// TicketLife is how long a ticket can be used.
	TicketLife = 30 * time.Second

	maxTicketPath = 1024
	maxTickets    = 64     // unused ones of a principal
	maxAllTickets = 16_384 // unused ones of everybody but the owner
)

// ErrBadTicket is the answer to a ticket that lets nobody in.
var ErrBadTicket = errors.New("the ticket is not valid: it was used, has expired, or is for another path")

// Tickets let browsers in where they cannot send a header: to WebSockets and
// event streams. A ticket stands for the token of whoever asked for it, for one
// GET of one path within TicketLife. They are kept in memory only, unless hubs
// share them; the zero value has none.
type Tickets struct {
	Now func() time.Time // the clock; nil means time.Now

	shared *sharedTickets // nil: they are in memory

	mu    sync.Mutex
	open  map[[sha256.Size]byte]ticket
	count map[string]int // by principal
	swept time.Time
}

type ticket struct {
	path    string
	who     *Principal // looked at again when the ticket is used
	less    bool       // without the rights of the token
	expires time.Time
}

func (t *Tickets) now() time.Time {
	if t.Now != nil {
		return t.Now()
	}
	return time.Now()
}

// Issue returns a ticket for a path to who came with a token.
func (t *Tickets) Issue(r *http.Request, who *Principal, path string) (secret string, expires time.Time, err error) {
	_, present, err := Bearer(r.Header)
	switch {
	case err != nil:
		return "", time.Time{}, err
	case !present:
		return "", time.Time{}, errors.New("a ticket stands for a token, and there is none in the Authorization header")
	}
	at, err := url.ParseRequestURI(path)
	if err != nil || path[0] != '/' || strings.ContainsAny(path, "?#") || len(path) > maxTicketPath {
		return "", time.Time{}, fmt.Errorf("write the path as in an address, from / on, without a query, in at most %d characters", maxTicketPath)
	}
	now := t.now()
	one := ticket{path: at.Path, who: who, less: r.Header.Get(HeaderRights) != "", expires: now.Add(TicketLife)}
	secret = rand.Text()
	if t.shared != nil {
		return secret, one.expires, t.shared.issue(now, secret, one)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(now)
	if t.count[who.Name] >= maxTickets || len(t.open) >= maxAllTickets && !who.IsOwner() {
		return "", time.Time{}, ErrTooMany
	}
	t.open[sha256.Sum256([]byte(secret))] = one
	t.count[who.Name]++
	return secret, one.expires, nil
}

// use takes a ticket, which is good for nothing afterwards, also if it was for
// another path.
func (t *Tickets) use(secret, path string) (ticket, error) {
	if t.shared != nil {
		return t.shared.use(t.now(), secret, path)
	}
	key := sha256.Sum256([]byte(secret))
	t.mu.Lock()
	defer t.mu.Unlock()
	one, ok := t.open[key]
	if !ok {
		return ticket{}, ErrBadTicket
	}
	t.drop(key, one)
	if one.path != path || elapsed.Past(one.expires, t.now()) {
		return ticket{}, ErrBadTicket
	}
	return one, nil
}

// sweep drops what has expired, at most once a second. Called with mu held.
func (t *Tickets) sweep(now time.Time) {
	if t.open == nil {
		t.open, t.count = map[[sha256.Size]byte]ticket{}, map[string]int{}
	}
	if now.Sub(t.swept) < time.Second {
		return
	}
	t.swept = now
	for key, one := range t.open {
		if elapsed.Past(one.expires, now) {
			t.drop(key, one)
		}
	}
}

// drop is called with mu held.
func (t *Tickets) drop(key [sha256.Size]byte, one ticket) {
	delete(t.open, key)
	if t.count[one.who.Name]--; t.count[one.who.Name] <= 0 {
		delete(t.count, one.who.Name)
	}
}

// cutTicket takes a ticket out of the address of a request, so that whatever
// reads, logs or passes on the address does not see it.
func cutTicket(r *http.Request) (secret string, present bool) {
	if !strings.Contains(r.URL.RawQuery, TicketParam+"=") {
		return "", false // nearly always, and without an allocation
	}
	var rest []string
	for part := range strings.SplitSeq(r.URL.RawQuery, "&") {
		value, is := strings.CutPrefix(part, TicketParam+"=")
		switch {
		case !is:
			rest = append(rest, part)
		case present:
			secret = "" // two of them are none
		default:
			secret, present = value, true
		}
	}
	if present {
		u := *r.URL
		u.RawQuery = strings.Join(rest, "&")
		r.URL, r.RequestURI = &u, u.RequestURI()
	}
	return secret, present
}

// admit returns who brought a ticket, or answers the request and returns nil.
func (g *Guard) admit(w http.ResponseWriter, r *http.Request, secret string) *Principal {
	if len(r.Header["Authorization"]) > 0 || r.Method != http.MethodGet || g.opt.Tickets == nil {
		g.reject(w, r, errors.New("a ticket is for a GET without an Authorization header"))
		return nil
	}
	one, err := g.opt.Tickets.use(secret, r.URL.Path)
	if errors.Is(err, ErrBadTicket) {
		g.reject(w, r, err)
		return nil
	}
	var who *Principal
	if err == nil {
		who, err = g.again(r.Context(), one.who)
	}
	if who = g.let(w, r, who, err); who != nil && one.less {
		who = who.WithoutRights()
	}
	return who
}
