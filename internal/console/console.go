// Package console owns what people see in a browser: it serves the console's
// files and lets a browser in.
//
// A browser that showed a valid token once brings it back in a cookie that
// scripts cannot read and that only the hub's own pages count with. All that
// the console shows comes from the JSON API, which the command line uses too.
package console

import (
	"context"
	"net/http"
	"os/exec"
	"runtime"
	"time"

	"github.com/stoahub/stoa/internal/auth"
)

// stay is how long a browser keeps its token.
const stay = 30 * 24 * time.Hour

// Cookie is the name of the cookie of a hub. Hubs on several ports of a machine
// share its cookies, so that each has a name of its own.
func Cookie(hub string) string { return "stoa_" + hub }

// Route adds the console, whose pages are files, to mux. public lets everybody see the files, which
// tell nothing; require lets those with a token through.
func Route(mux *http.ServeMux, cookie string, files http.Handler, public func(http.Handler) http.Handler, require func(auth.Handler) http.Handler) {
	mux.Handle("GET /console", http.RedirectHandler("/console/", http.StatusMovedPermanently))
	mux.Handle("GET /console/", public(files))
	mux.Handle("POST /console/login", require(func(w http.ResponseWriter, r *http.Request, _ *auth.Principal) {
		token, present, err := auth.Bearer(r.Header)
		if !present || err != nil { // it was let in by its cookie
			w.WriteHeader(http.StatusNoContent)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: cookie, Value: token, Path: "/", MaxAge: int(stay.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
		w.WriteHeader(http.StatusNoContent)
	}))
	mux.Handle("POST /console/logout", public(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: cookie, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
		w.WriteHeader(http.StatusNoContent)
	})))
}

// Open asks the system to show an address to the person at it.
func Open(ctx context.Context, address string) error {
	name, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	}
	return exec.CommandContext(ctx, name, args...).Run()
}
