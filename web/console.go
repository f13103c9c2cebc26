package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"
)

//go:embed console
var consoleFiles embed.FS

// inline finds the one script that stands in the page itself: the map of what
// modules are called.
var inline = regexp.MustCompile(`(?s)<script type="importmap">(.*?)</script>`)

// edition stands for all files of the console as they are. The page names it in
// the addresses of what it loads, so that a browser asks for each of the many
// files once, and for all of them anew when one has changed.
var edition = sync.OnceValue(func() string {
	sum := sha256.New()
	err := fs.WalkDir(ConsoleFiles(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(ConsoleFiles(), name)
		fmt.Fprintln(sum, name, len(text))
		sum.Write(text)
		return err
	})
	if err != nil {
		panic("web: " + err.Error()) // they are embedded
	}
	return "@" + hex.EncodeToString(sum.Sum(nil)[:8])
})

// page is index.html, with the edition in the addresses that it names.
var page = sync.OnceValue(func() []byte {
	text, err := fs.ReadFile(ConsoleFiles(), "index.html")
	if err != nil {
		panic("web: " + err.Error()) // it is embedded
	}
	return bytes.ReplaceAll(text, []byte(`"/console/`), []byte(`"/console/`+edition()+`/`))
})

// Console serves the console below /console/: its files as they were written,
// also below the edition, and its page at every other address there, since the
// page itself knows what is at which. Nothing from elsewhere is loaded or run,
// and nobody may frame it.
func Console() http.Handler {
	policy := "default-src 'none'; script-src 'self'" + hashes(page()) + "; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		name := strings.TrimPrefix(path.Clean(r.URL.Path), "/console")
		name = strings.TrimPrefix(name, "/")
		keep := "no-cache"
		first, rest, _ := strings.Cut(name, "/")
		filed := strings.HasPrefix(first, "@")
		if filed { // else, or by a page that is older than the hub, it is asked about each time
			if name = rest; first == edition() {
				keep = "public, max-age=31536000, immutable"
			}
		}
		f := files()[name]
		if f == nil {
			if ext := path.Ext(name); filed || ext != "" && known[ext] != "" && strings.Contains(name, "/") {
				http.NotFound(w, r) // a file that is missing must not look like a page
				return
			}
			f = files()["index.html"]
		}
		f.serve(w, r, keep)
	})
}

// hashes are those of the scripts that stand in the page.
func hashes(page []byte) (out string) {
	for _, m := range inline.FindAllSubmatch(page, -1) {
		sum := sha256.Sum256(m[1])
		out += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return out
}

// known are the types of files, whatever the machine thinks of them.
var known = map[string]string{
	".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".html": "text/html; charset=utf-8", ".svg": "image/svg+xml", ".json": "application/json", ".txt": "text/plain; charset=utf-8",
}

func typeOf(name string) string {
	if t := known[path.Ext(name)]; t != "" {
		return t
	}
	return mime.TypeByExtension(path.Ext(name))
}

// ConsoleFiles are the console's files, for those who check them.
func ConsoleFiles() fs.FS {
	root, err := fs.Sub(consoleFiles, "console")
	if err != nil {
		panic("web: " + err.Error())
	}
	return root
}
