package agentd

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/secret"
	"github.com/stoahub/stoa/internal/task"
	"github.com/stoahub/stoa/internal/wire"
)

const (
	drainTime   = 10 * time.Second // for running calls to end after the agent was told to stop
	connections = 1000             // of legacy clients
	idleTime    = 30 * time.Minute // after which one of them is ended
)

// ErrNoToken means that an address which others can reach needs a token.
var ErrNoToken = errors.New("an address that others can reach needs a token")

// bearer is the one token that lets callers in.
type bearer struct{ token secret.String }

// principal is who has the token.
var principal = &auth.Principal{Name: "caller", Scopes: auth.Scopes{"*"}}

// Again is that of a token which lasts as long as the agent.
func (bearer) Again(_ context.Context, who *auth.Principal) (*auth.Principal, error) { return who, nil }

func (b bearer) Verify(_ context.Context, token string) (*auth.Principal, error) {
	if own := b.token.Reveal(); own == "" || subtle.ConstantTimeCompare([]byte(own), []byte(token)) != 1 {
		return nil, auth.ErrBadToken
	}
	return principal, nil
}

// Serve serves the agent on ln until ctx ends, then drains. token lets callers
// in, wherever they are; without one, callers on this machine need none, and
// others are not let in at all.
func (a *Agent) Serve(ctx context.Context, ln net.Listener, token secret.String) error {
	defer ln.Close()
	addr, ok := ln.Addr().(*net.TCPAddr)
	loopback := ok && addr.IP.IsLoopback()
	if !loopback && token.Reveal() == "" {
		return ErrNoToken
	}
	g, err := auth.NewGuard(auth.Options{Loopback: loopback, Verifier: bearer{token}, Logger: a.log})
	if err != nil {
		return err
	}
	let := g.Accept
	if token.Reveal() != "" {
		let = g.Require
	}
	sessions := mcp.NewSessions(connections, idleTime)
	defer sessions.Close()
	endpoint := mcp.NewEndpoint(mcp.EndpointOptions{Sessions: sessions, Panicked: a.panicked})
	s := &http.Server{Handler: a.recovered(endpoint.InTime(a.routes(let, g.Public, endpoint))), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 5 * time.Minute}
	failed := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	})
	sweep := time.NewTicker(30 * time.Second)
	defer sweep.Stop()
	for err == nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case err = <-failed:
		case <-sweep.C:
			sessions.Sweep()
		}
	}
	endpoint.Close()
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	if s.Shutdown(late) != nil {
		s.Close()
	}
	endpoint.Wait(late)
	wg.Wait()
	return err
}

// ServePipe serves one client on a pair of streams until in ends.
func (a *Agent) ServePipe(ctx context.Context, in io.Reader, out io.Writer, grace time.Duration) error {
	return mcp.ServePipe(ctx, in, out, auth.Local, a, mcp.PipeOptions{Grace: grace, Panicked: a.panicked})
}

// routes are served to those whom let lets in, or to everybody.
func (a *Agent) routes(let func(auth.Handler) http.Handler, public func(http.Handler) http.Handler, e *mcp.Endpoint) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/mcp", let(func(w http.ResponseWriter, r *http.Request, who *auth.Principal) { e.Serve(w, r, who, "", a) }))
	mux.Handle("/mcp/ws", let(func(w http.ResponseWriter, r *http.Request, who *auth.Principal) { e.ServeSocket(w, r, who, a) }))
	status := let(func(w http.ResponseWriter, _ *http.Request, _ *auth.Principal) { a.status(w) })
	mux.Handle("GET /status", status)
	mux.Handle("GET /{$}", status)
	mux.Handle("GET /healthz", public(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]string{"name": "stoa agent", "version": a.opts.Version})
	})))
	mux.Handle("/", public(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := fault.New(fault.UnknownAgent, "", "there is nothing at %s", r.URL.Path)
		f.Hint = "MCP is at /mcp; GET /status tells how the agent does."
		e.Refuse(w, r, nil, f)
	})))
	return mux
}

// status tells how the agent does.
func (a *Agent) status(w http.ResponseWriter) {
	o := a.offer.Load()
	reply(w, struct {
		Name      string `json:"name"`
		Version   string `json:"version"`
		MCP       string `json:"mcp"`
		Tools     int    `json:"tools"`
		Resources int    `json:"resources"`
		Prompts   int    `json:"prompts"`
		task.Status
	}{o.m.Name, a.opts.Version, "/mcp", len(o.tools), len(o.resources), len(o.prompts), a.queue.Status()})
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(v) // who went away misses nothing
}

// recovered turns a panic of a handler into an answer and a log line.
func (a *Agent) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil || p == http.ErrAbortHandler {
				return
			}
			a.panicked(p, debug.Stack())
			w.WriteHeader(http.StatusInternalServerError) // no effect if an answer has begun
			w.Write(wire.AppendError(nil, nil, fault.New(fault.Internal, "", "the request made the agent stumble").Wire(false)))
		}()
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

func (a *Agent) panicked(p any, stack []byte) {
	a.log.Error("panic in a request", obs.KeyAction, "serve", obs.KeyErr, fmt.Sprint(p), "stack", string(stack))
}
