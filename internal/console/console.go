// Package console owns what people see in a browser: it serves the console's
// files and has the system show them.
//
// The files tell nothing and are for everybody. All that the console shows
// comes from the JSON API, which the command line uses too, and needs a sign-in
// (docs/adr/0011-sign-in.md). Nothing that lets anybody in is ever part of an
// address or of a command that this package runs.
package console

import (
	"context"
	"net/http"
	"os/exec"
	"runtime"
	"strings"
)

// Route adds the console, whose pages are files, to mux. public lets everybody
// see them, also a browser that comes from the file of `stoa console`, which it
// calls another site (Sec-Fetch-Site: cross-site).
func Route(mux *http.ServeMux, files http.Handler, public func(http.Handler) http.Handler) {
	mux.Handle("GET /console", http.RedirectHandler("/console/", http.StatusMovedPermanently))
	mux.Handle("GET /console/", public(files))
}

// Open asks the system to show an address to the person at it. Everybody on the
// machine can read the address.
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

// Browser says in words what a User-Agent header does, so that people know
// their browsers apart.
func Browser(agent string) string {
	pick := func(or string, pairs ...string) string {
		for i := 0; i < len(pairs); i += 2 {
			if strings.Contains(agent, pairs[i]) {
				return pairs[i+1]
			}
		}
		return or
	}
	// Each of these claims to be those that follow it.
	name := pick("a program", "Edg/", "Edge", "OPR/", "Opera", "Firefox/", "Firefox", "Chrome/", "Chrome", "Safari/", "Safari", "Mozilla/", "a browser")
	if system := pick("", "Android", "Android", "iPhone", "iPhone", "iPad", "iPad", "Windows", "Windows", "Mac OS X", "macOS", "CrOS", "ChromeOS", "Linux", "Linux"); system != "" {
		return name + " on " + system
	}
	return name
}
