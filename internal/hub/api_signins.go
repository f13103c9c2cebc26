package hub

import (
	"bytes"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/console"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/obs"
)

// The bounds of a request that signs in or asks for a ticket.
const (
	maxEntryBytes = 4 << 10
	entryTime     = 10 * time.Second // in which its body has to be here
)

// routeEntry adds how browsers get in: tickets for sockets and streams, codes
// and sign-ins for the console. A hub without a data folder has no console.
func (h *Hub) routeEntry(mux *http.ServeMux, v1 *auth.Guard) {
	mux.Handle("POST /api/v1/tickets", h.answering(v1, h.issueTicket))
	if h.signIns == nil {
		return
	}
	for pattern, f := range map[string]apiHandler{
		"GET /api/v1/sign-ins":              h.listSignIns,
		"DELETE /api/v1/sign-ins":           h.revokeSignIns,
		"DELETE /api/v1/sign-ins/{id}":      h.revokeSignIns,
		"POST /api/v1/sign-ins/codes":       h.createCode,
		"GET /api/v1/sign-ins/codes/{code}": h.showCode,
	} {
		mux.Handle(pattern, h.answering(v1, f))
	}
	withToken := h.answering(v1, h.signInWithToken)
	withCode := v1.Public(http.HandlerFunc(h.signInWithCode))
	mux.HandleFunc("POST /api/v1/sign-ins", func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header["Authorization"]) > 0 {
			withToken.ServeHTTP(w, r)
			return
		}
		withCode.ServeHTTP(w, r)
	})
}

// entryBody reads the short JSON object of a request that may come from
// anybody.
func entryBody(w http.ResponseWriter, r *http.Request, into any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		// Which a form of a foreign page cannot send.
		return &fault.Error{Kind: fault.InvalidRequest, Subject: "Content-Type", Msg: "the body has to be JSON", Hint: "Send Content-Type: application/json."}
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(entryTime)) // the server sets it anew for the next request
	b, err := readWhole(w, r, maxEntryBytes)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fault.New(fault.Parse, "", "the body is not what is expected here: %v", err)
	}
	return nil
}

// tooMany answers who has to wait.
func tooMany(w http.ResponseWriter, wait time.Duration, subject, text string) {
	seconds := strconv.Itoa(int((wait + time.Second - 1) / time.Second))
	w.Header().Set("Retry-After", seconds)
	sayError(w, &fault.Error{Kind: fault.Limit, Subject: subject, Msg: text, Hint: "Wait " + seconds + " s, then try again."}, http.StatusTooManyRequests)
}

// issueTicket lets who has a token open one socket or stream without a header.
func (h *Hub) issueTicket(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	var asked struct {
		Path string `json:"path"`
	}
	if err := entryBody(w, r, &asked); err != nil {
		return err
	}
	ticket, expires, err := h.tickets.Issue(r, who, asked.Path)
	switch {
	case errors.Is(err, auth.ErrTooMany):
		tooMany(w, auth.TicketLife, "tickets", "too many tickets wait to be used")
		return nil
	case fault.Is(err, fault.Storage):
		return err
	case err != nil:
		return fault.New(fault.InvalidParams, "path", "%v", err)
	}
	w.Header().Set("Cache-Control", "no-store")
	reply(w, http.StatusOK, map[string]any{"ticket": ticket, "expires": expires.UTC()})
	return nil
}

// createCode makes a code with which somebody else's browser, or one's own
// without the token, is signed in as the caller.
func (h *Hub) createCode(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if r.Header.Get(auth.HeaderRights) != "" {
		return fault.New(fault.Denied, auth.HeaderRights, "who does without the rights of a token cannot pass them on")
	}
	code, text, err := h.codes.Create(who)
	switch {
	case errors.Is(err, auth.ErrTooMany):
		tooMany(w, auth.CodeLife, "codes", "too many codes wait to be used")
		return nil
	case fault.Is(err, fault.Storage):
		return err
	case err != nil:
		return fault.New(fault.Denied, "codes", "%v", err)
	}
	w.Header().Set("Cache-Control", "no-store")
	reply(w, http.StatusOK, struct {
		auth.Code
		Text string `json:"code"`
	}{code, text})
	return nil
}

// showCode tells whether a code was used.
func (h *Hub) showCode(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	code, err := h.codes.State(r.PathValue("code"), who)
	if fault.Is(err, fault.Storage) {
		return err
	}
	if err != nil {
		return fault.New(fault.ResourceNotFound, r.PathValue("code"), "%v: codes are forgotten after %v", err, auth.CodeLife)
	}
	reply(w, http.StatusOK, code)
	return nil
}

// signInWithCode signs a browser in as whoever asked for the code that it
// brings.
func (h *Hub) signInWithCode(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Code string `json:"code"`
	}
	if err := entryBody(w, r, &asked); err != nil {
		sayError(w, fault.Of(err), apiStatus(fault.Of(err)))
		return
	}
	who, wait, err := h.codes.Redeem(asked.Code, r.RemoteAddr)
	switch {
	case wait > 0:
		tooMany(w, wait, "codes", "too many wrong codes from your address")
	case err != nil && !errors.Is(err, auth.ErrBadCode):
		sayError(w, fault.Of(err), apiStatus(fault.Of(err)))
	case err != nil:
		h.logger("auth").Warn("a wrong code was given to sign in", obs.KeyAction, "sign-in", "remote", r.RemoteAddr)
		sayError(w, &fault.Error{Kind: fault.Unauthorized, Msg: err.Error(), Hint: "Get another code with stoa console --no-open."}, http.StatusUnauthorized)
	default:
		if err := h.signIn(w, r, who); err != nil {
			sayError(w, fault.Of(err), apiStatus(fault.Of(err)))
		}
	}
}

// signInWithToken signs a browser in as the holder of a token, so that its page
// need not keep the token.
func (h *Hub) signInWithToken(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if r.Header.Get(auth.HeaderRights) != "" {
		return fault.New(fault.Denied, auth.HeaderRights, "who does without the rights of a token cannot pass them on")
	}
	return h.signIn(w, r, who)
}

func (h *Hub) signIn(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	made, secret, err := h.signIns.Create(who, console.Browser(r.UserAgent()))
	switch {
	case errors.Is(err, auth.ErrTooMany):
		tooMany(w, time.Minute, "sign-ins", "too many browsers were signed in within a minute")
		return nil
	case fault.Is(err, fault.Storage):
		return err
	case err != nil:
		return fault.New(fault.Denied, "sign-ins", "%v", err)
	}
	h.logger("auth").Info("a browser has signed in", obs.KeyAction, "sign-in", "principal", made.Name, "signIn", made.ID, "browser", made.Browser)
	w.Header().Set("Cache-Control", "no-store")
	reply(w, http.StatusOK, struct {
		auth.SignIn
		Secret string `json:"secret"`
		Owner  bool   `json:"owner"`
	}{made, secret, who.IsOwner()})
	return nil
}

// signInShown is a sign-in as it is told.
type signInShown struct {
	auth.SignIn
	Current bool `json:"current"` // the caller's own
}

// listSignIns tells of one's own browsers; the owner hears of all.
func (h *Hub) listSignIns(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if _, err := query(r); err != nil {
		return err
	}
	all, err := h.signIns.List()
	if err != nil {
		return err
	}
	out := []signInShown{}
	for _, one := range all {
		if one.Name == who.Name || who.IsOwner() {
			out = append(out, signInShown{one, one.ID == who.SignIn})
		}
	}
	reply(w, http.StatusOK, map[string]any{"signIns": out})
	return nil
}

// revokeSignIns signs out one browser, which the owner may do to anybody's, or
// all of one's own.
func (h *Hub) revokeSignIns(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if _, err := query(r); err != nil {
		return err
	}
	id := r.PathValue("id")
	gone, err := h.signIns.Revoke(func(one auth.SignIn) bool {
		if id == "" {
			return one.Name == who.Name
		}
		return one.ID == id && (one.Name == who.Name || who.IsOwner())
	})
	switch {
	case errors.Is(err, auth.ErrNoSignIn) && id != "":
		return fault.New(fault.ResourceNotFound, id, "there is no such sign-in")
	case err != nil && !errors.Is(err, auth.ErrNoSignIn):
		return err
	}
	for _, one := range gone {
		h.logger("auth").Info("a browser was signed out", obs.KeyAction, "sign-out", "principal", one.Name, "signIn", one.ID, "by", who.Name)
	}
	reply(w, http.StatusOK, map[string]any{"signedOut": len(gone)})
	return nil
}
