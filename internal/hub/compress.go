package hub

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/stoahub/stoa/web"
)

// packFrom is how long the first part of an answer must be to be compressed:
// below it, little is gained.
const packFrom = 8 << 10

// packers are large and soon made ready again.
var packers = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(io.Discard, gzip.DefaultCompression)
	if err != nil {
		panic("hub: " + err.Error()) // the level is one
	}
	return w
}}

// compressed serves long answers of next compressed, to those who take that.
// An answer that is cut off stays cut off.
func compressed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.Header.Get("Upgrade") != "" || !web.TakesGzip(r.Header) {
			next.ServeHTTP(w, r)
			return
		}
		p := &packer{ResponseWriter: w}
		next.ServeHTTP(p, r)
		p.end()
	})
}

// packer is the writer of an answer that is compressed if it begins long
// enough.
type packer struct {
	http.ResponseWriter
	out    *gzip.Writer // nil: as it is
	status int
	begun  bool
}

// WriteHeader waits for the first part, which decides what the header says.
func (p *packer) WriteHeader(status int) {
	if p.begun || p.status != 0 {
		return
	}
	p.status = status
}

func (p *packer) Write(b []byte) (int, error) {
	if !p.begun {
		p.begin(len(b))
	}
	if p.out != nil {
		return p.out.Write(b)
	}
	return p.ResponseWriter.Write(b)
}

func (p *packer) begin(first int) {
	p.begun = true
	h := p.Header()
	text := strings.HasPrefix(h.Get("Content-Type"), "application/")
	if first >= packFrom && text && h.Get("Content-Encoding") == "" && (p.status == 0 || p.status == http.StatusOK) {
		h.Set("Content-Encoding", "gzip")
		h.Del("Content-Length")
		p.out = packers.Get().(*gzip.Writer)
		p.out.Reset(p.ResponseWriter)
	}
	h.Add("Vary", "Accept-Encoding")
	if p.status != 0 {
		p.ResponseWriter.WriteHeader(p.status)
	}
}

// end writes what is left.
func (p *packer) end() {
	if !p.begun {
		p.begin(0)
	}
	if p.out != nil {
		_ = p.out.Close() // a client that has gone misses nothing
		p.out.Reset(io.Discard)
		packers.Put(p.out)
	}
}

// Unwrap gives those who take the connection over what they need.
func (p *packer) Unwrap() http.ResponseWriter { return p.ResponseWriter }
