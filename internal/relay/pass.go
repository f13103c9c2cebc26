package relay

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"

	"github.com/stoahub/stoa/internal/auth"
)

// header says who sent a request that is passed on. It counts on the connections
// of a Relay alone, which only hubs with the key can open.
const header = "Stoa-Relayed"

// Passer passes requests on to other hubs.
type Passer struct {
	t   *http.Transport
	log *slog.Logger
}

// NewPasser returns one that uses the connections of r.
func NewPasser(r *Relay) *Passer {
	return &Passer{log: r.o.Logger, t: &http.Transport{
		DialContext: func(ctx context.Context, _, host string) (net.Conn, error) {
			peer, _, err := net.SplitHostPort(host)
			if err != nil {
				return nil, err
			}
			return r.dial(ctx, peer)
		},
		// A connection that was used before may be to a process that is ending: then
		// nobody knew whether it got the request. Dialling says it.
		DisableCompression: true, DisableKeepAlives: true,
	}}
}

// Client is who speaks HTTP to another hub on behalf of somebody: paths are those
// of the hub, the host does not matter.
func (p *Passer) Client(process string, who *auth.Principal) *http.Client {
	return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		if err := p.address(r, process, who); err != nil {
			return nil, err
		}
		return p.t.RoundTrip(r)
	})}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// address sends a request to a process, in the name of who.
func (p *Passer) address(r *http.Request, process string, who *auth.Principal) error {
	raw, err := json.Marshal(who)
	if err != nil {
		return fmt.Errorf("say who asks: %w", err)
	}
	r.URL.Scheme, r.URL.Host = "http", net.JoinHostPort(token(process), "80")
	// What lets somebody in here is nothing for another hub.
	r.Header.Del("Authorization")
	r.Header.Del("Cookie")
	r.Header.Set(header, base64.RawURLEncoding.EncodeToString(raw))
	return nil
}

// Pass has another process answer a request of who. body is what was read of it
// already, nil if nothing was. It returns ErrGone, and has answered nothing, if
// the process is not there; lost answers the request where it was there and went.
func (p *Passer) Pass(w http.ResponseWriter, r *http.Request, who *auth.Principal, process string, body []byte, lost func(w http.ResponseWriter, err error)) error {
	var gone error
	if body != nil {
		r = r.Clone(r.Context())
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	proxy := httputil.ReverseProxy{
		Transport: p.t, FlushInterval: -1, ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
		Rewrite: func(out *httputil.ProxyRequest) {
			out.SetURL(&url.URL{Scheme: "http", Host: "hub"})
			out.Out.Host = out.In.Host
			if err := p.address(out.Out, process, who); err != nil {
				p.log.Error("a request cannot be passed on", "action", "relay", "err", err)
			}
		},
		ModifyResponse: func(out *http.Response) error {
			out.Header.Del("X-Content-Type-Options") // which this hub says, too
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if errors.Is(err, ErrGone) {
				gone = err
				return
			}
			lost(w, err)
		},
	}
	proxy.ServeHTTP(w, r)
	return gone
}

// Came reports whether a request came by a Relay.
func Came(r *http.Request) bool {
	_, ok := r.Context().Value(http.LocalAddrContextKey).(addr)
	return ok
}

// Sender reads who sent a request that came by a Relay.
func Sender(r *http.Request) (*auth.Principal, error) {
	if !Came(r) {
		return nil, errors.New("the request did not come from another hub")
	}
	raw, err := base64.RawURLEncoding.DecodeString(r.Header.Get(header))
	if err != nil || len(raw) == 0 {
		return nil, errors.New("the request does not say who sent it")
	}
	var who auth.Principal
	if err := json.Unmarshal(raw, &who); err != nil {
		return nil, fmt.Errorf("the request does not say who sent it: %w", err)
	}
	switch {
	case who.Via == auth.ViaLoopback && who.SignIn == "":
		return auth.Local, nil
	case who.Via == auth.ViaOwner && who.SignIn == "":
		return auth.Owner, nil
	}
	return &who, nil
}
