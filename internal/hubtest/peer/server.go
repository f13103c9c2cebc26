package peer

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// server is a peer without a transport: what it offers and who listens.
type server struct {
	spec    Spec
	journal *journal
	ended   chan struct{} // closed when the peer ends its subscriptions
	down    atomic.Bool   // the peer itself stops: what ends now was not cancelled

	mu        sync.Mutex
	endOnce   sync.Once
	tools     []Tool
	versions  map[string]int // by resource URI, raised by Touch
	extra     int
	count     int
	listeners map[*listener]struct{}
	gated     map[string]bool // by the arguments of Gate: who was sent away
	tasks     map[string]*serverTask
	life      context.Context // ends with the peer
	wg        sync.WaitGroup  // of tasks that run
}

func newServer(life context.Context, spec Spec, j *journal) *server {
	j.note("start", os.Getpid())
	return &server{
		spec:      spec,
		journal:   j,
		ended:     make(chan struct{}),
		tools:     slices.Clone(spec.Tools),
		versions:  map[string]int{},
		listeners: map[*listener]struct{}{},
		gated:     map[string]bool{},
		tasks:     map[string]*serverTask{},
		life:      life,
	}
}

// request is one request with all that its handling may look at.
type request struct {
	ctx    context.Context
	id     json.RawMessage
	method string
	raw    json.RawMessage
	params params
	modern bool // the era; a transport may know it before admit does
	client client
	header http.Header // nil on stdio
	// session is the legacy session, on stdio the connection; nil for modern
	// requests over HTTP.
	session *session
	// send writes a message on the request's own stream, in order.
	send func(line []byte) error
}

// client is what a peer knows of the one that asks: from initialize, or from
// the _meta of a modern request.
type client struct {
	version string
	info    json.RawMessage
	caps    map[string]json.RawMessage
}

// admit reads the params of a request and refuses it if its era's rules for
// any request are broken.
func (s *server) admit(r *request) (reply, bool) {
	if r.raw != nil {
		if err := json.Unmarshal(r.raw, &r.params); err != nil {
			return refuse(codeInvalidParams, nil, "%s: read params: %v", r.method, err), false
		}
	}
	version := r.params.metaString("protocolVersion")
	r.modern = r.modern || s.spec.modern() && (version != "" || !s.spec.legacy())
	if !r.modern {
		return s.admitLegacy(r)
	}
	if version == "" {
		if r.method == "initialize" {
			return s.refuseVersion(r.params.ProtocolVersion), false
		}
		return refuse(codeInvalidParams, nil, "_meta must hold %sprotocolVersion", metaPrefix), false
	}
	if version != Modern {
		return s.refuseVersion(version), false
	}
	caps := r.params.Meta[metaPrefix+"clientCapabilities"]
	if caps == nil || json.Unmarshal(caps, &r.client.caps) != nil || r.client.caps == nil {
		return refuse(codeInvalidParams, nil, "_meta must hold %sclientCapabilities, an object", metaPrefix), false
	}
	r.client.version, r.client.info = version, r.params.Meta[metaPrefix+"clientInfo"]
	return reply{}, true
}

func (s *server) admitLegacy(r *request) (reply, bool) {
	r.client = r.session.client()
	if r.client.version == "" && !slices.Contains([]string{"initialize", "ping", "server/discover"}, r.method) {
		return refuse(codeInvalidRequest, nil, "%s before initialize: initialize the session first", r.method), false
	}
	return reply{}, true
}

func (s *server) refuseVersion(requested string) reply {
	return refuse(codeVersion, map[string]any{"supported": s.spec.versions(), "requested": requested},
		"unsupported protocol version %q: use one of %s", requested, strings.Join(s.spec.versions(), ", "))
}

// handle answers a request that was admitted.
func (s *server) handle(r *request) reply {
	switch r.method {
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list":
		return s.list(r)
	case "tools/call", "prompts/get", "resources/read":
		if rep, ok := s.taskCall(r); ok {
			return rep
		}
		return s.invoke(r)
	case "completion/complete":
		v := r.params.Argument.Value
		return s.complete(r, `{"completion":`+string(encode(map[string]any{
			"values": []string{v + "-1", v + "-2"}, "total": 2, "hasMore": false}))+"}")
	}
	if rep, ok := s.handleEra(r); ok {
		return rep
	}
	if s.spec.Quirks.SilentOnUnknown {
		return reply{none: true}
	}
	return refuse(codeUnknownMethod, nil, "unknown method %s", r.method)
}

// handleEra answers the methods that only one era has.
func (s *server) handleEra(r *request) (reply, bool) {
	if r.modern {
		switch r.method {
		case "server/discover":
			return s.discover(r), true
		case "subscriptions/listen":
			return s.listen(r), true
		case "tasks/get", "tasks/update", "tasks/cancel":
			return s.handleTask(r), s.hasTasks()
		}
		return reply{}, false
	}
	switch r.method {
	case "initialize":
		return s.initialize(r), true
	case "ping":
	case "logging/setLevel":
		if !slices.Contains(levels, r.params.Level) {
			return refuse(codeInvalidParams, nil, "unknown log level %q", r.params.Level), true
		}
		r.session.setLevel(r.params.Level)
	case "resources/subscribe", "resources/unsubscribe":
		if _, ok := s.resource(r.params.URI); !ok {
			return s.noResource(r), true
		}
		r.session.subscribe(r.params.URI, r.method == "resources/subscribe")
	default:
		return reply{}, false
	}
	return reply{result: []byte("{}")}, true
}

func (s *server) initialize(r *request) reply {
	if s.spec.Quirks.HangInitialize {
		return reply{none: true}
	}
	if r.params.ProtocolVersion == "" || r.params.Capabilities == nil || r.params.ClientInfo == nil {
		return refuse(codeInvalidParams, nil, "initialize needs protocolVersion, capabilities and clientInfo")
	}
	version := s.spec.LegacyVersions[0]
	if slices.Contains(s.spec.LegacyVersions, r.params.ProtocolVersion) {
		version = r.params.ProtocolVersion
	}
	c := client{version: version, info: r.params.ClientInfo, caps: r.params.Capabilities}
	if !r.session.initialize(c) {
		return refuse(codeInvalidRequest, nil, "initialize came twice: open a new session")
	}
	res := map[string]any{"protocolVersion": version, "capabilities": s.capabilities(), "serverInfo": s.info()}
	if s.spec.Instructions != "" {
		res["instructions"] = s.spec.Instructions
	}
	return reply{result: encode(res)}
}

func (s *server) discover(r *request) reply {
	caps := s.capabilities()
	if s.hasTasks() {
		caps["extensions"] = map[string]any{tasksExtension: map[string]any{}}
	}
	res := map[string]any{"supportedVersions": s.spec.versions(), "capabilities": caps}
	if s.spec.Instructions != "" {
		res["instructions"] = s.spec.Instructions
	}
	return s.complete(r, string(encode(res)))
}

func (s *server) info() map[string]any {
	return map[string]any{"name": s.spec.Name, "version": "1.0.0"}
}

func (s *server) capabilities() map[string]any {
	caps := map[string]any{"logging": map[string]any{}, "completions": map[string]any{}}
	if len(s.spec.Tools) > 0 {
		caps["tools"] = map[string]any{"listChanged": true}
	}
	if len(s.spec.Prompts) > 0 {
		caps["prompts"] = map[string]any{"listChanged": true}
	}
	if len(s.spec.Resources)+len(s.spec.Templates) > 0 {
		caps["resources"] = map[string]any{"listChanged": true, "subscribe": true}
	}
	return caps
}

// complete is the reply with a whole result, an object; for a modern client
// the members that its era demands are put in front.
func (s *server) complete(r *request, object string) reply {
	if !r.modern {
		return reply{result: []byte(object)}
	}
	front := map[string]any{"resultType": "complete"}
	switch r.method {
	case "server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read":
		front["ttlMs"], front["cacheScope"] = s.spec.List.TTLMs, s.spec.List.CacheScope
	}
	front["_meta"] = map[string]any{metaPrefix + "serverInfo": s.info()}
	return reply{result: merge(string(encode(front)), object)}
}

// merge joins the members of two objects without touching their bytes.
func merge(a, b string) []byte {
	if b == "{}" {
		return []byte(a)
	}
	return []byte(strings.TrimSuffix(a, "}") + "," + strings.TrimPrefix(b, "{"))
}
