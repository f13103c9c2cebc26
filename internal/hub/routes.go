package hub

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/cert"
	"github.com/stoahub/stoa/internal/console"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/lobby"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/task"
	"github.com/stoahub/stoa/internal/upstream"
	"github.com/stoahub/stoa/internal/wire"
	"github.com/stoahub/stoa/web"
)

// server returns the HTTP server of one listener.
func (h *Hub) server(ln net.Listener) (*http.Server, error) {
	loopback := isLoopback(ln.Addr())
	if !loopback {
		v, ok := h.tokens.(*verifier)
		if !ok {
			return nil, errors.New("a temporary hub serves loopback addresses only")
		}
		if err := v.needed(); err != nil {
			return nil, err
		}
	}
	handler, err := h.Handler(loopback)
	if err != nil {
		return nil, err
	}
	s := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       5 * time.Minute,
		MaxHeaderBytes:    h.cfg.Limits.HeaderBytes,
		ErrorLog:          httpLog(h.logger("http")),
		ConnContext:       lobby.Context,
	}
	if !loopback && h.cfg.TLS.Cert == "" {
		h.log.Warn(plainText, obs.KeyAction, "listen", "address", ln.Addr().String(), "do", plainHint)
	}
	if h.cfg.TLS.Cert != "" {
		pair := cert.NewPair(h.cfg.TLS.Cert, h.cfg.TLS.Key)
		if _, err := pair.Get(); err != nil {
			return nil, err
		}
		s.TLSConfig = pair.Server()
	}
	return s, nil
}

func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// Handler returns all routes, as served on a loopback address or on another.
func (h *Hub) Handler(loopback bool) (http.Handler, error) {
	return h.handler(auth.Options{
		Loopback: loopback, Hosts: h.cfg.Auth.Hosts, Origins: h.cfg.Auth.Origins,
		Verifier: h.tokens, Tickets: &h.tickets, Logger: h.logger("auth"), Local: h.local, Hold: h.hold,
	})
}

func (h *Hub) handler(o auth.Options) (http.Handler, error) {
	g, err := auth.NewGuard(o)
	if err != nil {
		return nil, err
	}
	face := g.Accept
	if h.cfg.Auth.Required != nil && *h.cfg.Auth.Required {
		face = g.Require
	}
	metrics := h.metrics.Handler()
	mux := http.NewServeMux()
	mux.Handle("/mcp", face(func(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
		h.endpoint.Serve(w, r, who, "", h.gateway)
	}))
	mux.Handle("/mcp/ws", face(func(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
		h.endpoint.ServeSocket(w, r, who, h.gateway)
	}))
	mux.Handle("/s/{session}/mcp", face(h.serveSession))
	mux.Handle("/s/{session}/mcp/ws", face(func(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
		h.endpoint.ServeSocket(w, r, who, h.gateway.Stateful(r.PathValue("session")))
	}))
	if h.cfg.SSE {
		mux.Handle("GET /sse", face(func(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
			h.endpoint.ServeEvents(w, r, who, "/message", h.gateway)
		}))
		mux.Handle("POST /message", face(h.endpoint.ServeMessage))
	}
	mux.Handle("/mcps/{agent}/mcp", face(h.serveAgent))
	mux.Handle("GET /mcps", face(h.listAgents))
	mux.Handle("GET /mcps/{agent}", face(h.showAgent))
	mux.Handle("POST /mcps", g.Require(h.register))
	mux.Handle("PUT /mcps/{agent}", g.Require(h.renew))
	mux.Handle("DELETE /mcps/{agent}", g.Require(h.unregister))
	mux.Handle("GET /api/v1/servers", g.Require(h.listServers))
	h.routeAPI(mux, g)
	if h.data != nil { // a temporary hub has no token to let anybody in with
		console.Route(mux, web.Console(), g.Public)
	}
	h.routeChat(mux, g, face)
	mux.Handle("GET /healthz", g.Public(http.HandlerFunc(h.healthz)))
	// These tell what is behind the hub: to whoever is on this machine, else
	// to those with a token.
	mux.Handle("GET /readyz", g.Accept(h.readyz))
	mux.Handle("GET /metrics", g.Accept(func(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
		if !slices.Contains(who.Scopes, "*") {
			refuse(w, &fault.Error{Kind: fault.Denied, Subject: "metrics", Msg: "they are about every server, and this token is for some", Hint: "Use a token with the scope *."})
			return
		}
		if who.Has(auth.RightSettings) {
			metrics.ServeHTTP(w, r)
			return
		}
		h.metrics.Shown(h.countedTools(who)).ServeHTTP(w, r)
	}))
	mux.Handle("GET /MCPBrowserClient.js", g.Public(web.Client()))
	mux.Handle("GET /{$}", g.Public(http.HandlerFunc(h.index)))
	mux.Handle("/", g.Public(http.HandlerFunc(h.notFound)))
	return h.recovered(h.endpoint.InTime(mux)), nil
}

// recovered turns a panic of a handler into an answer and a log line: one bad
// request must not cost its neighbours anything.
func (h *Hub) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler {
				panic(p) // an answer that was cut off must not look whole
			}
			h.log.Error("panic in a request", obs.KeyAction, "serve", "path", obs.ShortPath(r.URL.Path), "err", p, "stack", string(debug.Stack()))
			h.metrics.Call("", obs.ShortPath(r.URL.Path), fault.Internal.String(), 0)
			w.WriteHeader(http.StatusInternalServerError) // no effect if an answer has begun
			w.Write(wire.AppendError(nil, nil, fault.New(fault.Internal, "", "the request made the hub stumble").Wire(false)))
		}()
		w.Header().Set("X-Content-Type-Options", "nosniff") // JSON that somebody else wrote is no page
		next.ServeHTTP(w, r)
	})
}

// panicked takes note of a handler that panicked where recovered cannot see it.
func (h *Hub) panicked(p any, stack []byte) {
	h.log.Error("panic in a request", obs.KeyAction, "serve", "err", p, "stack", string(stack))
	h.metrics.Call("", "", fault.Internal.String(), 0)
}

// serveSession serves the merged face of one Session.
func (h *Hub) serveSession(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
	name := r.PathValue("session")
	h.endpoint.Serve(w, r, who, "/s/"+name, h.gateway.Stateful(name))
}

func (h *Hub) serveAgent(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
	name := r.PathValue("agent")
	a, err := h.router.Agent(name, who)
	if err != nil {
		h.endpoint.Refuse(w, r, who, err)
		return
	}
	h.endpoint.Serve(w, r, who, a.Name(), a)
}

func (h *Hub) listAgents(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
	type agent struct {
		Name    string `json:"name"`
		Title   string `json:"title,omitempty"`
		URL     string `json:"url"`
		State   string `json:"state"`
		Queued  int    `json:"queued"`
		Running int    `json:"running"`
		// Queue is there if the agent has one.
		Queue *task.Status `json:"queue,omitempty"`
	}
	out := []agent{}
	for _, s := range h.router.Agents(who) {
		out = append(out, agent{s.Name, s.Title, "/mcps/" + s.Name + "/mcp", string(s.State), s.Queued, s.Running, s.Queue})
	}
	reply(w, http.StatusOK, map[string]any{"agents": out})
}

func (h *Hub) showAgent(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
	for _, s := range h.router.Agents(who) {
		if strings.EqualFold(s.Name, r.PathValue("agent")) {
			s = h.shownTo(who, s)
			s.Stderr = nil
			reply(w, http.StatusOK, struct {
				upstream.Status
				Tasks task.Counts `json:"tasks"`
			}{s, h.tasks.Kept().Counts(s.Name)})
			return
		}
	}
	h.endpoint.Refuse(w, r, who, fault.New(fault.UnknownAgent, "", "Agent '%s' not found", r.PathValue("agent")))
}

func (h *Hub) listServers(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
	out := map[string]any{"servers": h.listed(who)}
	if who.IsOwner() {
		out["pool"] = h.pool.Stats() // of all servers together
	}
	reply(w, http.StatusOK, out)
}

func (h *Hub) healthz(w http.ResponseWriter, r *http.Request) {
	out := map[string]string{"name": "stoa", "version": h.version, "config": h.config().Hash()}
	if h.data != nil {
		out["data"] = h.data.id()
	}
	reply(w, http.StatusOK, out)
}

func (h *Hub) index(w http.ResponseWriter, r *http.Request) {
	if h.data != nil && strings.Contains(r.Header.Get("Accept"), "text/html") {
		http.Redirect(w, r, "/console/", http.StatusFound)
		return
	}
	out := map[string]any{"name": "stoa", "version": h.version, "mcp": "/mcp", "socket": "/mcp/ws", "agents": "/mcps", "api": "/api/v1", "health": "/healthz", "ready": "/readyz", "metrics": "/metrics", "browserClient": "/MCPBrowserClient.js"}
	if h.chat.engine != nil {
		out["chat"] = "/ws"
	}
	if h.data != nil {
		out["console"] = "/console/"
	}
	reply(w, http.StatusOK, out)
}

func (h *Hub) notFound(w http.ResponseWriter, r *http.Request) {
	f := fault.New(fault.UnknownAgent, "", "there is nothing at %s", r.URL.Path)
	f.Hint = "MCP is at /mcp, single agents are at /mcps/{agent}/mcp; GET / lists the rest."
	h.endpoint.Refuse(w, r, nil, f)
}

func reply(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":"the answer could not be encoded"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(b, '\n'))
}
