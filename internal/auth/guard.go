package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/stoahub/stoa/internal/fault"
)

// Handler serves a request of a principal.
type Handler func(w http.ResponseWriter, r *http.Request, who *Principal)

// Options say whom a Guard lets through.
type Options struct {
	Loopback bool     // the listener is reached from this machine only; a request without a token may then be that of Local
	Hosts    []string // values of Host to allow besides loopback ones, each host or host:port
	Origins  []string // origins to allow besides the hub's own, each scheme://host[:port]
	Verifier Verifier // finds out whose a token is; nil means that no token is valid
	Tickets  *Tickets // what lets browsers in where they cannot send a token; nil means that no ticket is valid
	// Local returns an error if a caller on this machine without a token must
	// not be treated as Local; nil means every caller may be.
	Local func(r *http.Request) *fault.Error
	// Hold is called with the principal of each request. It returns an error if
	// they hold too many connections; nil means no limit.
	Hold func(r *http.Request, who *Principal) *fault.Error
	// Sender is set for the listener that serves other hubs only. It returns the
	// principal named by the hub that authenticated the caller, and no other
	// check is made. nil everywhere else.
	Sender func(r *http.Request) (*Principal, error)
	Logger *slog.Logger     // nil means none
	Now    func() time.Time // the clock; nil means time.Now
}

// HeaderRights is by which a client says that it wants to be let in by its token
// and nothing more: none of the rights that come with the token are needed.
const HeaderRights = "Stoa-Rights"

// Guard stands before the handlers of one listener. It refuses requests that
// were made under a foreign name or by a foreign page, which is how web sites
// reach servers on the visitor's machine, and finds out who is asking.
type Guard struct {
	opt   Options
	sites sites
	fails *attempts
	say   func(w http.ResponseWriter, f *fault.Error, status int)
}

// NewGuard returns a Guard for a listener.
func NewGuard(opt Options) (*Guard, error) {
	s, err := newSites(opt.Loopback, opt.Hosts, opt.Origins)
	if err != nil {
		return nil, err
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Guard{opt: opt, sites: s, fails: &attempts{now: opt.Now}, say: refuse}, nil
}

// Saying returns the same Guard for handlers whose clients expect refusals in
// another form than that of JSON-RPC. say writes the whole answer.
func (g *Guard) Saying(say func(w http.ResponseWriter, f *fault.Error, status int)) *Guard {
	other := *g
	other.say = say
	return &other
}

// Require lets only requests with a valid token through.
func (g *Guard) Require(h Handler) http.Handler { return g.handler(true, h) }

// Accept also lets requests without a token through, as Local, if the listener
// is a loopback one and nothing says that a proxy sent them on. Elsewhere it
// is the same as Require.
func (g *Guard) Accept(h Handler) http.Handler { return g.handler(false, h) }

// Public checks Host and Origin only, for what everybody may see.
func (g *Guard) Public(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := g.sites.checkPublic(r); f != nil {
			g.say(w, f, f.Status(false))
			return
		}
		if g.share(w, r) {
			return
		}
		h.ServeHTTP(w, r)
	})
}

func (g *Guard) handler(require bool, h Handler) http.Handler {
	require = require || !g.opt.Loopback
	if g.opt.Sender != nil {
		return g.sent(h)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := g.sites.check(r); f != nil {
			g.say(w, f, f.Status(false))
			return
		}
		if g.share(w, r) {
			return
		}
		if f := plainPost(r); f != nil {
			g.say(w, f, f.Status(false))
			return
		}
		var who *Principal
		if ticket, present := cutTicket(r); present {
			who = g.admit(w, r, ticket)
		} else {
			who = g.identify(w, r, require)
		}
		if who == nil {
			return
		}
		whole := who // with all that may end
		if r.Header.Get(HeaderRights) != "" {
			who = who.WithoutRights() // whatever it says: nobody can ask for more
		}
		if g.opt.Hold != nil {
			if f := g.opt.Hold(r, who); f != nil {
				w.Header().Set("Connection", "close")
				w.Header().Set("Retry-After", "1")
				g.say(w, f, http.StatusTooManyRequests)
				return
			}
		}
		if whole != Local {
			var leave func()
			w, r, leave = g.stay(w, r, whole)
			defer leave()
		}
		h(w, r, who)
	})
}

// sent lets requests through that another hub passes on.
func (g *Guard) sent(h Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := g.opt.Sender(r)
		if err != nil {
			g.say(w, fault.New(fault.Unauthorized, "", "%s", err), http.StatusUnauthorized)
			return
		}
		if who != Local {
			var leave func()
			w, r, leave = g.stay(w, r, who)
			defer leave()
		}
		h(w, r, who)
	})
}

// identify returns who asks, or answers the request and returns nil.
func (g *Guard) identify(w http.ResponseWriter, r *http.Request, require bool) *Principal {
	token, present, err := Bearer(r.Header)
	if token == "undefined" || token == "null" {
		// What clients in JavaScript send that have no token.
		present = false
	}
	if !present {
		var f *fault.Error
		if require || Forwarded(r.Header) || !arrivedHere(r) {
			f = fault.New(fault.Unauthorized, "", "a token is needed")
		} else if f = g.foreigner(r); f == nil {
			return Local
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		g.say(w, f, http.StatusUnauthorized)
		return nil
	}
	if err != nil {
		g.reject(w, r, err)
		return nil
	}
	who, err := g.verify(r.Context(), token)
	return g.let(w, r, who, err)
}

// foreigner says why a caller on this machine is not Local.
func (g *Guard) foreigner(r *http.Request) *fault.Error {
	if g.opt.Local == nil {
		return nil
	}
	return g.opt.Local(r)
}

// let returns who was found, or answers the request with why nobody was and
// returns nil.
func (g *Guard) let(w http.ResponseWriter, r *http.Request, who *Principal, err error) *Principal {
	f, _ := errors.AsType[*fault.Error](err)
	switch {
	case err == nil:
		return who
	case errors.Is(err, ErrBadToken):
		g.reject(w, r, err)
	case f != nil && f.Kind == fault.Storage:
		g.opt.Logger.Warn("token could not be checked", "action", "authenticate", "err", err)
		w.Header().Set("Retry-After", "1")
		g.say(w, f, http.StatusServiceUnavailable)
	default:
		g.opt.Logger.Error("token could not be checked", "action", "authenticate", "err", err)
		g.say(w, fault.New(fault.Internal, "", "the token could not be checked").Because(err), http.StatusInternalServerError)
	}
	return nil
}

func (g *Guard) verify(ctx context.Context, token string) (*Principal, error) {
	if g.opt.Verifier == nil {
		return nil, ErrBadToken
	}
	return g.opt.Verifier.Verify(ctx, token)
}

func (g *Guard) again(ctx context.Context, who *Principal) (*Principal, error) {
	if g.opt.Verifier == nil {
		return nil, ErrBadToken
	}
	return g.opt.Verifier.Again(ctx, who)
}

// reject answers a request whose token is no good. Only failures are counted
// and held back: behind one address there may be others with good tokens.
func (g *Guard) reject(w http.ResponseWriter, r *http.Request, reason error) {
	wait, first := g.fails.failed(r.RemoteAddr)
	if first {
		g.opt.Logger.Warn("too many bad tokens from one address", "action", "authenticate", "remote", r.RemoteAddr)
	}
	w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`) // also to who has to wait: it tells this from other limits
	if wait > 0 {
		seconds := int((wait + time.Second - 1) / time.Second)
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		f := fault.New(fault.Limit, "", "too many requests with bad tokens from your address")
		f.Hint = fmt.Sprintf("Wait %d s, then send a valid token.", seconds)
		g.say(w, f, http.StatusTooManyRequests)
		return
	}
	g.say(w, fault.New(fault.Unauthorized, "", "%s", reason), http.StatusUnauthorized)
}

// Forwarded reports whether a proxy says that the request is another's. One on
// this machine would otherwise make the whole world Local.
func Forwarded(h http.Header) bool {
	return len(h["X-Forwarded-For"]) > 0 || len(h["Forwarded"]) > 0 || len(h["X-Real-Ip"]) > 0 || len(h["X-Forwarded-Host"]) > 0
}

// refuse answers with a JSON-RPC error that belongs to no request: the body
// was not read.
func refuse(w http.ResponseWriter, f *fault.Error, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	body := append([]byte(`{"jsonrpc":"2.0","id":null,"error":`), f.Wire(false)...)
	_, _ = w.Write(append(body, '}', '\n'))
}
