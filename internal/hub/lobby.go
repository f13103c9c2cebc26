package hub

import (
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/lobby"
)

// openLobby makes room for connections.
func (h *Hub) openLobby() {
	h.lobby = lobby.New(h.cfg.Limits.Connections)
	h.tellsUsers = h.cfg.Auth.Local == config.LocalOwner && lobby.Knows()
}

// hold says that a caller has too many connections.
func (h *Hub) hold(r *http.Request, who *auth.Principal) *fault.Error {
	if g := lobby.Of(r.Context()); g != nil && !g.Hold(who.Name, who.IsOwner()) {
		f := fault.New(fault.Limit, "", "%q holds too many connections", who.Name)
		f.Hint = "Close some, or have the hub's owner raise limits.connections."
		return f
	}
	return nil
}

// local says why a caller on this machine without a token is not let in: it is
// another user's.
func (h *Hub) local(r *http.Request) *fault.Error {
	switch h.cfg.Auth.Local {
	case config.LocalToken:
		return fault.New(fault.Unauthorized, "", "a token is needed")
	case config.LocalOpen:
		return nil
	}
	g := lobby.Of(r.Context())
	if !h.tellsUsers || g == nil { // the latter is a program that serves our handler itself
		return nil
	}
	uid, err := g.User()
	switch {
	case err == nil && (uid == os.Geteuid() || uid == 0):
		return nil
	case errors.Is(err, lobby.ErrUnknown):
		h.log.Error("cannot tell whose a connection is", "action", "authenticate", "err", err)
	}
	f := fault.New(fault.Unauthorized, "", "this is another user's hub, and a token is needed")
	f.Hint = "Send Authorization: Bearer with a token that its owner has made with `stoa token create`. The owner can also set auth.local to open."
	return f
}

// localHealth says that users of this machine cannot be told apart.
func (h *Hub) localHealth() []healthItem {
	if h.tellsUsers || h.cfg.Auth.Local != config.LocalOwner {
		return nil
	}
	return []healthItem{{Code: "local_users", Severity: "warning", Text: fmt.Sprintf("every user of this machine can use the hub without a token: %v", lobby.ErrUnknown), Hint: "Set auth.local to token if you are not the only one, or to open if that is fine."}}
}
