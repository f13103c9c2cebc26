package hub

import (
	"net/http"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/chatws"
	"github.com/stoahub/stoa/internal/fault"
)

// routeChat adds the addresses of the chat. Sockets are let in as MCP clients
// are, since browsers and agents come to them; what is under /api needs a token.
func (h *Hub) routeChat(mux *http.ServeMux, g *auth.Guard, face func(auth.Handler) http.Handler) {
	c := &h.chat
	if c.engine == nil {
		return
	}
	say := func(w http.ResponseWriter, r *http.Request, err error) {
		h.stumbled(r, err)
		sayError(w, fault.Of(err), apiStatus(fault.Of(err)))
	}
	answer := func(f func(http.ResponseWriter, *http.Request, *auth.Principal) error) auth.Handler {
		return func(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
			if err := f(w, r, who); err != nil {
				say(w, r, err)
			}
		}
	}
	api := g.Saying(sayError)
	c.host.Route(mux, face, api.Require, say)
	mux.Handle("/ws/{agent}", face(answer(c.agents.Serve)))
	files := chatws.NewFiles(c.files)
	mux.Handle("POST /api/files", api.Require(answer(files.Post)))
	mux.Handle("GET /api/files", api.Require(answer(files.List)))
	mux.Handle("GET /api/files/{id}", api.Require(answer(files.Get)))
	mux.Handle("DELETE /api/files/{id}", api.Require(answer(files.Delete)))
}
