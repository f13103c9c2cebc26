package web

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// file is one of the console's, ready to be sent: as it was written, and
// compressed where that makes it smaller. The two are different answers, so
// that each has a tag of its own.
type file struct {
	plain  document
	packed document // without text if it would be no smaller
	typ    string
}

// files are all of the console's by name. They are compressed once for the
// process, when somebody asks for the first of them.
var files = sync.OnceValue(func() map[string]*file {
	all := map[string]*file{}
	err := fs.WalkDir(ConsoleFiles(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(ConsoleFiles(), name)
		if err != nil {
			return err
		}
		if name == "index.html" {
			text = page()
		}
		f := &file{plain: newDocument(text), typ: typeOf(name)}
		if packed := pack(text); len(packed) < len(text) {
			f.packed = newDocument(packed)
		}
		all[name] = f
		return nil
	})
	if err != nil {
		panic("web: " + err.Error()) // they are embedded
	}
	return all
})

// pack compresses a text as far as gzip can.
func pack(text []byte) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic("web: " + err.Error()) // of memory to memory
	}
	return out.Bytes()
}

// serve sends the file, compressed to those who take that. keep says for how
// long they may keep it; no-cache means if they ask about its tag each time.
func (f *file) serve(w http.ResponseWriter, r *http.Request, keep string) {
	h, d := w.Header(), f.plain
	h.Set("Content-Type", f.typ)
	h.Set("Cache-Control", keep)
	h.Add("Vary", "Accept-Encoding")
	if f.packed.text != nil && TakesGzip(r.Header) {
		d = f.packed
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.Itoa(len(d.text))) // which ServeContent leaves to who encodes
	}
	h.Set("ETag", d.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(d.text))
}

// TakesGzip reports whether a client says that it takes gzip.
func TakesGzip(h http.Header) bool {
	for _, line := range h.Values("Accept-Encoding") {
		for one := range strings.SplitSeq(line, ",") {
			name, q, _ := strings.Cut(strings.TrimSpace(one), ";")
			if name = strings.TrimSpace(name); !strings.EqualFold(name, "gzip") && name != "*" {
				continue
			}
			weight, found := strings.CutPrefix(strings.ReplaceAll(q, " ", ""), "q=")
			if n, err := strconv.ParseFloat(weight, 64); !found || err == nil && n > 0 {
				return true
			}
		}
	}
	return false
}
