package hub

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/envelope"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/spell"
)

// apiHandler answers a request of the JSON API. What it returns is told to the
// client; nothing has been written then.
type apiHandler func(w http.ResponseWriter, r *http.Request, who *auth.Principal) error

// routeAPI adds the JSON API; docs/api.md describes it.
func (h *Hub) routeAPI(mux *http.ServeMux, g *auth.Guard) {
	tools := g.Saying(sayEnvelope)
	mux.Handle("POST /api/tools/{tool...}", tools.Require(func(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
		if err := h.postTool(w, r, who); err != nil {
			h.stumbled(r, err)
			sayEnvelope(w, fault.Of(err), apiStatus(fault.Of(err)))
		}
	}))
	v1 := g.Saying(sayError)
	routes := map[string]apiHandler{
		"GET /api/v1/sessions":                             h.listSessions,
		"GET /api/v1/sessions/{session}":                   h.showSession,
		"DELETE /api/v1/sessions/{session}":                h.removeSession,
		"GET /api/v1/sessions/{session}/export":            h.exportSession,
		"GET /api/v1/sessions/{session}/values/{value}":    h.readValue,
		"DELETE /api/v1/sessions/{session}/values/{value}": h.removeValue,
		"GET /api/v1/hubs":                                 h.listHubs,
		"GET /api/v1/connections":                          h.listConnections,
		"GET /api/v1/tasks":                                h.listTasks,
		"GET /api/v1/tasks/{task}":                         h.showTask,
		"DELETE /api/v1/tasks/{task}":                      h.cancelTask,
		"GET /api/v1/calls":                                h.listCalls,
		"DELETE /api/v1/calls/{call}":                      h.cancelCall,
		"GET /api/v1/modules":                              h.listModules,
		"PUT /api/v1/modules/{name}":                       h.switchModule,
		"DELETE /api/v1/modules/{name}":                    h.resetModule,
		"GET /api/v1/tools":                                h.listTools,
		"GET /api/v1/tools/{tool...}":                      h.showTool,
		"POST /api/v1/check/{tool...}":                     h.checkTool,
		"GET /api/v1/definitions":                          h.listDefinitions,
		"POST /api/v1/definitions/accept":                  h.acceptDefinitions,
		"POST /api/v1/definitions/reject":                  h.rejectDefinitions,
		"GET /api/v1/events":                               h.pollEvents,
		"GET /api/v1/events/ws":                            h.watchEvents,
		"GET /api/v1/exchanges/{call}":                     h.showExchange,
		"GET /api/v1/exchanges/export":                     h.exportExchanges,
		"GET /api/v1/errors":                               h.listErrors,
		"GET /api/v1/errors/{error}":                       h.showError,
		"GET /api/v1/errors/export":                        h.exportErrors,
		"GET /api/v1/errors/kinds":                         h.listErrorKinds,
		"GET /api/v1/traces/{trace}":                       h.showTrace,
		"GET /api/v1/approvals":                            h.listApprovals,
		"POST /api/v1/approvals/{approval}":                h.decideApproval,
		"GET /api/v1/approvals/remembered":                 h.listRemembered,
		"DELETE /api/v1/approvals/remembered":              h.forgetRemembered,
		"DELETE /api/v1/approvals/remembered/{decision}":   h.forgetRemembered,
		"POST /api/v1/policy/test":                         h.testPolicy,
		"/api/":                                            h.noAPI,
	}
	maps.Copy(routes, h.planRoutes())
	for pattern, f := range routes {
		mux.Handle(pattern, h.answering(v1, f))
	}
	h.routeConsoleAPI(mux, v1)
	h.routeEntry(mux, v1)
}

// answering serves f to those with a token, and compresses what is long.
func (h *Hub) answering(g *auth.Guard, f apiHandler) http.Handler {
	return compressed(g.Require(func(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
		if err := h.surely(f)(w, r, who); err != nil {
			h.stumbled(r, err)
			sayError(w, fault.Of(err), apiStatus(fault.Of(err)))
		}
	}))
}

// stumbled logs what the client is not told.
func (h *Hub) stumbled(r *http.Request, err error) {
	if fault.Of(err).Kind == fault.Internal {
		h.logger("api").Error("a request of the API failed", obs.KeyAction, "serve", "path", obs.ShortPath(r.URL.Path), obs.KeyErr, err)
	}
}

// sayEnvelope answers with a fault in the form of POST /api/tools/{tool}.
func sayEnvelope(w http.ResponseWriter, f *fault.Error, status int) {
	write(w, status, envelope.Bad(f).JSON())
}

// sayError answers with a fault in the form of the rest of the API: the error
// object of JSON-RPC, under the name error.
func sayError(w http.ResponseWriter, f *fault.Error, status int) {
	write(w, status, append(append([]byte(`{"error":`), f.Wire(true)...), '}'))
}

// write answers with JSON that nobody is to keep: it is somebody's.
func write(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a client that has gone misses nothing
}

// apiStatus is the HTTP status for a fault, where no JSON-RPC code says what
// it was.
func apiStatus(f *fault.Error) int {
	switch f.Kind {
	case fault.UnknownTool, fault.UnknownAgent, fault.UnknownMethod, fault.UnknownSession, fault.ResourceNotFound:
		return http.StatusNotFound
	case fault.Unauthorized:
		return http.StatusUnauthorized
	case fault.Denied, fault.ApprovalRequired, fault.ForeignOrigin, fault.DefinitionHeld:
		return http.StatusForbidden
	case fault.TooLarge:
		return http.StatusRequestEntityTooLarge
	case fault.Limit:
		return http.StatusTooManyRequests
	case fault.Unreachable, fault.Misconfigured, fault.UpstreamLost:
		return http.StatusBadGateway
	case fault.Timeout:
		return http.StatusGatewayTimeout
	case fault.QueueFull, fault.BreakerOpen, fault.Storage, fault.Cancelled:
		return http.StatusServiceUnavailable
	case fault.Loop:
		return http.StatusLoopDetected
	case fault.Internal:
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// readWhole reads a body of so many bytes at most. One that does not come whole
// is not one that is too long.
func readWhole(w http.ResponseWriter, r *http.Request, most int) ([]byte, error) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(most)))
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return nil, fault.New(fault.TooLarge, "", "the body is longer than %d bytes", most).With("limit", most)
	} else if err != nil {
		f := fault.New(fault.InvalidRequest, "", "the body did not arrive whole").Because(err)
		f.Hint = "Send it again."
		return nil, f
	}
	return b, nil
}

func (h *Hub) noAPI(_ http.ResponseWriter, r *http.Request, _ *auth.Principal) error {
	f := fault.New(fault.UnknownMethod, "", "there is no %s %s", r.Method, r.URL.Path)
	f.Hint = "docs/api.md lists what there is: POST /api/tools/{tool}, and tools, definitions, servers, sessions, connections, hubs, tasks, plans, runs, approvals, modules, events, exchanges, errors, sign-ins and tickets under /api/v1."
	return f
}

// query returns what a request asks for. A name that means nothing here is a
// mistake, not to be passed over: a misspelt saveAs would lose a result.
func query(r *http.Request, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fault.New(fault.InvalidParams, "query", "%v", err)
	}
	for name, values := range q {
		switch {
		case !slices.Contains(known, name):
			f := missing(fault.InvalidParams, "query parameter", name, known)
			f.Msg = fmt.Sprintf("%q is no query parameter of this address", name)
			return nil, f
		case len(values) > 1:
			return nil, fault.New(fault.InvalidParams, name, "it is given more than once")
		}
	}
	return q, nil
}

const shownNames = 20

// missing is the fault for a name that nothing has, with those that are close.
func missing(kind fault.Kind, what, name string, names []string) *fault.Error {
	names = slices.Sorted(slices.Values(names))
	f := fault.New(kind, "", "there is no %s %q", what, name)
	switch near := spell.Near(name, names, 3); {
	case len(near) > 0:
		f.Hint = "Did you mean " + strings.Join(near, " or ") + "?"
		f.With("close", near)
	case len(names) == 0:
		f.Hint = "There is none at all."
	default:
		f.Hint = "There are: " + strings.Join(names[:min(len(names), shownNames)], ", ") + "."
	}
	return f.With("allowed", names[:min(len(names), shownNames)]).With("count", len(names))
}
