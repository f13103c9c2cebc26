package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
)

const (
	legacyVersion = "2025-11-25"
	modernVersion = "2026-07-28"
	metaVersion   = "io.modelcontextprotocol/protocolVersion"
	progressCount = 3
	pageSize      = 1000
	serverInfo    = `{"name":"bench-upstream","version":"1"}`
)

// upstream is a minimal MCP server that speaks both eras on one URL. It does
// as little per call as a server can, so that what a gateway adds is seen.
type upstream struct {
	tools    int
	sessions atomic.Int64
	buffers  sync.Pool
}

func runUpstream(args []string) error {
	flags := flag.NewFlagSet("upstream", flag.ContinueOnError)
	tools := flags.Int("tools", 10, "number of tools in the list")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return serveRole(newUpstream(*tools))
}

func newUpstream(tools int) *upstream {
	return &upstream{tools: tools, buffers: sync.Pool{New: func() any { return new(exchange) }}}
}

// exchange holds the two buffers of one request; they are reused.
type exchange struct {
	in  bytes.Buffer
	out []byte
}

// toolName is fixed in width, so that every tool's call has the same size.
func toolName(i int) string { return fmt.Sprintf("echo_%05d", i) }

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
	case http.MethodGet:
		holdStream(w, r, ": open\n\n")
		return
	case http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
		return
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	x := u.buffers.Get().(*exchange)
	defer u.buffers.Put(x)
	x.in.Reset()
	x.out = x.out[:0]
	if r.ContentLength > 0 {
		x.in.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	if _, err := x.in.ReadFrom(r.Body); err != nil {
		http.Error(w, "read request: "+err.Error(), http.StatusBadRequest)
		return
	}
	a, err := readAsk(x.in.Bytes())
	if err != nil {
		http.Error(w, "read request: "+err.Error(), http.StatusBadRequest)
		return
	}
	u.answer(w, r, x, a)
}

func (u *upstream) answer(w http.ResponseWriter, r *http.Request, x *exchange, a ask) {
	status := http.StatusOK
	switch {
	case a.id == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	case a.method == "tools/call" && a.text != nil && a.progress != nil:
		u.stream(w, x, a)
		return
	case a.method == "tools/call" && a.text != nil:
		x.out = appendEcho(x.out, a)
	case a.method == "tools/list":
		x.out = u.appendList(x.out, a)
	case a.method == "server/discover" && a.modern:
		x.out = appendResult(x.out, a, `"supportedVersions":["`+modernVersion+`","`+legacyVersion+`"],"capabilities":{"tools":{}},"ttlMs":3600000,"cacheScope":"public"`)
	case a.method == "initialize" && !a.modern:
		w.Header()["Mcp-Session-Id"] = []string{"bench-" + strconv.FormatInt(u.sessions.Add(1), 10)}
		x.out = appendResult(x.out, a, `"protocolVersion":"`+legacyVersion+`","capabilities":{"tools":{}},"serverInfo":`+serverInfo)
	case a.method == "ping" && !a.modern:
		x.out = appendResult(x.out, a, "")
	case a.method == "subscriptions/listen" && a.modern:
		holdStream(w, r, `data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`+string(a.id)+`},"notifications":{}}}`+"\n\n")
		return
	default:
		if a.modern {
			status = http.StatusNotFound
		}
		x.out = fmt.Appendf(x.out, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"the bench upstream has no such method"}}`, a.id)
	}
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(x.out))}
	w.WriteHeader(status)
	_, _ = w.Write(x.out)
}

// stream answers one call over SSE: progress first, each event flushed by
// itself as a working server would, then the result.
func (u *upstream) stream(w http.ResponseWriter, x *exchange, a ask) {
	w.Header()["Content-Type"] = []string{"text/event-stream"}
	w.Header()["Cache-Control"] = []string{"no-cache"}
	flush := http.NewResponseController(w)
	for i := 1; i <= progressCount; i++ {
		x.out = fmt.Appendf(x.out[:0], `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"total":%d}}`+"\n\n", a.progress, i, progressCount)
		if _, err := w.Write(x.out); err != nil {
			return
		}
		if err := flush.Flush(); err != nil {
			return
		}
	}
	x.out = append(x.out[:0], "data: "...)
	x.out = appendEcho(x.out, a)
	x.out = append(x.out, "\n\n"...)
	_, _ = w.Write(x.out)
}

func appendEcho(out []byte, a ask) []byte {
	out = appendHead(out, a)
	out = append(out, `"content":[{"type":"text","text":`...)
	out = append(out, a.text...)
	return append(out, `}]}}`...)
}

// appendHead opens the response and its result object, and writes the members
// that only the modern era has.
func appendHead(out []byte, a ask) []byte {
	out = append(out, `{"jsonrpc":"2.0","id":`...)
	out = append(out, a.id...)
	out = append(out, `,"result":{`...)
	if a.modern {
		out = append(out, `"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":`+serverInfo+`},`...)
	}
	return out
}

func appendResult(out []byte, a ask, body string) []byte {
	out = appendHead(out, a)
	if body == "" {
		out = bytes.TrimSuffix(out, []byte(","))
	}
	out = append(out, body...)
	return append(out, "}}"...)
}

// appendList writes one page. The cursor is the index of the page's first tool.
func (u *upstream) appendList(out []byte, a ask) []byte {
	first := 0
	if len(a.cursor) > 2 {
		if n, err := strconv.Atoi(string(a.cursor[1 : len(a.cursor)-1])); err == nil && n > 0 {
			first = n
		}
	}
	last := min(first+pageSize, u.tools)
	out = appendHead(out, a)
	if a.modern {
		out = append(out, `"ttlMs":3600000,"cacheScope":"public",`...)
	}
	if last < u.tools {
		out = fmt.Appendf(out, `"nextCursor":"%d",`, last)
	}
	out = append(out, `"tools":[`...)
	for i := first; i < last; i++ {
		if i > first {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, `{"name":%q,"description":"Returns its text, number %d.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}`, toolName(i), i)
	}
	return append(out, "]}}"...)
}

// holdStream opens an SSE answer, flushes first, and keeps it open until the
// client goes.
func holdStream(w http.ResponseWriter, r *http.Request, first string) {
	w.Header()["Content-Type"] = []string{"text/event-stream"}
	w.Header()["Cache-Control"] = []string{"no-cache"}
	if _, err := io.WriteString(w, first); err != nil {
		return
	}
	if err := http.NewResponseController(w).Flush(); err != nil {
		return
	}
	<-r.Context().Done()
}
