package mcp

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/wire"
)

// Kept is what it takes to take up a legacy connection where another process
// left it.
type Kept struct {
	ID      string
	Scope   string   // the face it was made on
	Session string   // the Session that it named
	Client  *Client  // without a Version if it ends with the stream that it was opened by
	URIs    []string // the resources that it is subscribed to
}

// Keep is what an Endpoint needs where several processes serve the same clients.
// The zero Keep is that of an Endpoint that is alone.
type Keep struct {
	// Opened keeps a new connection before its client learns of it. If it
	// cannot, the connection is this process's alone.
	Opened func(ctx context.Context, k Kept)
	// Changed keeps what a connection has become.
	Changed func(ctx context.Context, k Kept)
	// Ended forgets a connection that has ended for good.
	Ended func(id string)
	// Elsewhere answers a request for a connection that another process has, and
	// reports whether it did. body is what was read of it. Where no process has
	// the connection any more, this one has it from then on: see Take.
	Elsewhere func(w http.ResponseWriter, r *http.Request, who *auth.Principal, id string, body []byte) bool
	// Continue answers a request that goes on with a call which waits at another
	// process, and reports whether it did.
	Continue func(w http.ResponseWriter, r *http.Request, who *auth.Principal, state string, body []byte) bool
	// Take returns a connection that is to be taken up here; nil: there is none.
	Take func(id string, who *auth.Principal) *Kept
}

// BearsRepeating reports whether it does no harm to do again what a message asks
// for, whatever it was done to: it calls no tool.
func BearsRepeating(body []byte) bool {
	if len(body) == 0 {
		return true // a GET or DELETE
	}
	var m wire.Message
	return !isBatch(body) && m.Scan(body, wire.FromClient) == nil && m.Method != "tools/call"
}

// kept is what of a session is kept.
func (s *session) kept() Kept {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := Kept{ID: s.id, Scope: s.scope, Client: s.client, URIs: slices.Sorted(maps.Keys(s.uris))}
	if s.listener != nil {
		k.Session = s.listener.Session
	}
	return k
}

// elsewhere reports whether a request was answered by the process that has its
// connection.
func (e *Endpoint) elsewhere(w http.ResponseWriter, r *http.Request, who *auth.Principal, id string, body []byte) bool {
	return id != "" && e.opts.Keep.Elsewhere != nil && !e.opts.Sessions.has(id) && e.opts.Keep.Elsewhere(w, r, who, id, body)
}

// continued reports whether the process answered where the call waits that a
// modern request goes on with.
func (x *exchange) continued() bool {
	if x.e.opts.Keep.Continue == nil {
		return false
	}
	state, ok := wire.String(x.m.Param("requestState"))
	return ok && state != "" && x.e.opts.Keep.Continue(x.w, x.r, x.who, state, x.body)
}

// take takes up a connection of another process. Nobody knows what its client
// was not told of while no process had it.
func (e *Endpoint) take(ctx context.Context, k *Kept, h Handler) (*session, error) {
	s, err := e.open(k.Client, k.Scope, k.Session, h)
	if err != nil {
		return nil, err
	}
	for _, uri := range k.URIs {
		if h.Subscribe(ctx, s.listener, uri) == nil {
			s.subscribed(uri, true)
		}
	}
	for _, method := range []string{NoteToolsChanged, NotePromptsChanged, NoteResourcesChanged} {
		if s.listener.Filter.Wants(method) {
			s.out.put(method, nil)
		}
	}
	return s, nil
}

// subscribed notes what a client is subscribed to.
func (s *session) subscribed(uri string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !on {
		delete(s.uris, uri)
		return
	}
	if s.uris == nil {
		s.uris = map[string]bool{}
	}
	s.uris[uri] = true
}

// changes keeps what a request that was answered has changed of the connection.
func (s *session) changes(ctx context.Context, e *Endpoint, m *wire.Message) {
	switch m.Method {
	case "logging/setLevel":
	case "resources/subscribe", "resources/unsubscribe":
		uri, _ := wire.String(m.Param("uri"))
		s.subscribed(uri, m.Method == "resources/subscribe")
	default:
		return
	}
	if e.opts.Keep.Changed != nil {
		e.opts.Keep.Changed(ctx, s.kept())
	}
}
