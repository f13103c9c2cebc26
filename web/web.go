// Package web owns what the hub serves to browsers, embedded as it was
// written.
//
// It promises that nothing in it needs a build step or another site. It knows
// neither the hub nor who asks: whoever routes to it has checked that. For now
// it is the browser client alone.
package web

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/http"
	"time"
)

//go:embed client/MCPBrowserClient.js
var module []byte

// script is the client for script tags that do not say type="module", where an
// export is a syntax error. The braces keep its classes out of the page's way,
// also if it is loaded twice; what the page uses is a member of globalThis.
var script = func() []byte {
	body, _, ok := bytes.Cut(module, []byte("\nexport {"))
	if !ok {
		panic("web: MCPBrowserClient.js does not end with its exports")
	}
	return append(append([]byte("{\n"), body...), "}\n"...)
}()

// Client serves MCPBrowserClient.js. A browser says whether it wants a module
// or a plain script: modules are fetched in mode cors, others in no-cors. It
// says so only to https and to this machine; elsewhere the query ?classic
// asks for the script, and everybody else gets the module.
func Client() http.Handler {
	asModule, asScript := newDocument(module), newDocument(script)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d := asModule
		if r.Header.Get("Sec-Fetch-Mode") == "no-cors" || r.URL.Query().Has("classic") {
			d = asScript
		}
		w.Header().Add("Vary", "Sec-Fetch-Mode")
		d.serve(w, r)
	})
}

// document is a script that is served from memory.
type document struct {
	text []byte
	tag  string
}

func newDocument(text []byte) document {
	sum := sha256.Sum256(text)
	return document{text, `"` + hex.EncodeToString(sum[:8]) + `"`}
}

func (d document) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache") // asked for anew each time, and not sent if it is the same
	h.Set("ETag", d.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(d.text))
}
