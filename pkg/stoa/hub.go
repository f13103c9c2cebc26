package stoa

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/upstream"
	"github.com/stoahub/stoa/internal/wire"
)

// Hub is an open hub.
type Hub struct {
	hub     *hub.Hub
	handler http.Handler
	log     *slog.Logger

	mu     sync.Mutex // held while the program's own tools change
	token  string
	own    *module // nil before the first AddTool
	listed *upstream.Upstream
	closed bool
}

// Open opens a hub. With AutoDiscover it waits until every server has been
// read, is known not to be reached now, or Config.Wait is over: a server that
// cannot be reached is no error, its State says so. If ctx ends before, nothing
// is left open. ctx has no meaning after Open has returned.
func Open(ctx context.Context, c Config) (*Hub, error) {
	cfg, err := c.internal()
	if err != nil {
		return nil, err
	}
	inner, err := hub.Open(hub.Options{Config: cfg, Logger: c.Logger, Temporary: true})
	if err != nil {
		return nil, wrap(err)
	}
	h := &Hub{hub: inner, token: c.Token, log: c.Logger}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if c.Token != "" {
		inner.Admit(c.Token)
	}
	if h.handler, err = inner.Handler(c.Token == ""); err != nil {
		inner.Close()
		return nil, wrap(err)
	}
	if c.AutoDiscover && c.Wait >= 0 {
		wait := c.Wait
		if wait == 0 {
			wait = 10 * time.Second
		}
		settled, cancel := context.WithTimeout(ctx, wait)
		inner.Settle(settled)
		cancel()
	}
	if ctx.Err() != nil {
		inner.Close()
		return nil, wrap(context.Cause(ctx))
	}
	return h, nil
}

// Close ends every connection and process of the hub and waits for it. It may
// be called more than once. The error is always nil.
func (h *Hub) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.hub.Close()
	return nil
}

// CallTool calls a tool of a server by the server's own name for it. args is
// anything that encodes to a JSON object; nil is an empty one, and []byte and
// json.RawMessage are taken as JSON as they are. They are checked against the
// tool's schema first. A program's own tools are those of the server [Local].
//
// The error is an *Error; a tool that says no is a Result with IsError.
func (h *Hub) CallTool(ctx context.Context, server, tool string, args any) (*Result, error) {
	raw, err := encode(args)
	switch {
	case err == nil && (len(raw) == 0 || string(raw) == "null"): // nil of some type
		raw = []byte("{}")
	case err == nil && raw[0] != '{':
		err = errors.New("they are no object")
	}
	if err != nil {
		return nil, &Error{Kind: "invalid_arguments", Message: server + ":" + tool + ": the arguments cannot be used: " + err.Error(), Hint: "Pass something that encodes to a JSON object.", cause: err}
	}
	resp, err := h.hub.Call(ctx, config.Slug(server), tool, raw)
	if err != nil {
		return nil, wrap(err)
	}
	return newResult(resp)
}

// encode renders a value as JSON; bytes are JSON already.
func encode(v any) ([]byte, error) {
	var raw []byte
	switch t := v.(type) {
	case nil:
		return []byte("{}"), nil
	case []byte:
		raw = t
	case json.RawMessage:
		raw = t
	default:
		return json.Marshal(v)
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return nil, nil
	}
	return raw, wire.Valid(raw, wire.FromClient)
}

// Discover reads what a server offers now, connecting if needed.
func (h *Hub) Discover(ctx context.Context, server string) error {
	return wrap(h.hub.Discover(ctx, config.Slug(server)))
}

// Ping finds out whether a server answers, connecting if needed.
func (h *Hub) Ping(ctx context.Context, server string) error {
	return wrap(h.hub.Ping(ctx, config.Slug(server)))
}

// Reload makes c the configuration in effect, or refuses it whole: an error
// means that nothing has changed. Servers that are configured as before are not
// touched; calls that run on those that change or go may end. It returns what
// changed, in words. AutoDiscover, Token, Hosts and Origins cannot change.
func (h *Hub) Reload(c Config) ([]string, error) {
	cfg, err := c.internal()
	if err != nil {
		return nil, err
	}
	if c.Token != h.token {
		return nil, &Error{Kind: "invalid_request", Message: "reload: Token cannot change while the hub is open; nothing was changed"}
	}
	changes, err := h.hub.Reload(cfg)
	if err != nil {
		return nil, wrap(err)
	}
	out := make([]string, len(changes))
	for i, change := range changes {
		out[i] = change.String()
	}
	return out, nil
}

// Handler serves the hub to MCP clients. It offers the servers of the Config and
// the program's own tools, and nothing else: no tools, agents, chat or console
// of the command stoa.
//
//   - /mcp is everything merged, /s/{session}/mcp the same with a session that
//     keeps values; both end in /ws for WebSockets.
//   - /mcps lists the servers, /mcps/{server}/mcp is one by itself.
//   - /healthz, /readyz and /metrics say how the hub does; / lists all of this.
//   - POST /mcps and /api/v1 are for who has the token, and closed without one.
//
// With Config.Token every request but those for /, /healthz and
// /MCPBrowserClient.js needs it as a bearer token, wherever it comes from; who
// has it may call everything. Without one, programs on this machine may do so
// without asking: requests are answered that arrive at a loopback address, are
// for a loopback name (Host), are not made by a foreign page (Origin) and were
// not passed on by a proxy. Set a token if others share the machine.
//
// It belongs at the root of a mux; http.StripPrefix puts it elsewhere. Open
// streams end with Close.
func (h *Hub) Handler() http.Handler { return h.handler }
