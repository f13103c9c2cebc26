package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/stoahub/stoa/internal/auth"
)

func TestHTTPTranscripts(t *testing.T) { transcripts(t, "http", playHTTP) }

// player is one HTTP transcript being played. A section "client:x" sends a
// request of that label (the first line is the method and, optionally, the
// path and who asks), or does something to the exchange of that label; "server:x"
// is what came on it since.
type player struct {
	t         *testing.T
	rt        http.RoundTripper
	endpoint  *Endpoint
	sessions  *Sessions
	exchanges []*heard
	known     []string // session ids, which are written SESSION1, SESSION2, …
	wg        sync.WaitGroup
}

// heard is what one exchange has brought.
type heard struct {
	label string
	stop  context.CancelFunc

	mu    sync.Mutex
	fresh strings.Builder
	head  bool // the status has been told
	over  bool
	told  bool // that it is over
}

func playHTTP(t *testing.T, script *txtar.Archive) *txtar.Archive {
	set := options(script)
	limit, idle := 10, time.Hour
	if v := set["sessions"]; v != "" {
		fmt.Sscan(v, &limit)
	}
	if v := set["idle"]; v != "" {
		idle, _ = time.ParseDuration(v)
	}
	sessions := NewSessions(limit, idle)
	endpoint := NewEndpoint(EndpointOptions{MessageBytes: 4096, Sessions: sessions})
	h := &sage{}
	rt, stop := serveMem(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := &auth.Principal{Name: r.Header.Get("X-Test-Principal"), Scopes: auth.Scopes{"*"}}
		endpoint.Serve(w, r, who, r.URL.Path, h)
	}))
	p := &player{t: t, rt: rt, endpoint: endpoint, sessions: sessions}
	played := &txtar.Archive{Comment: script.Comment}
	for _, f := range script.Files {
		if strings.HasPrefix(f.Name, "server") {
			continue
		}
		played.Files = append(played.Files, f)
		if label, ok := strings.CutPrefix(f.Name, "client"); ok {
			p.act(label, string(f.Data))
			rest()
			played.Files = p.collect(played.Files)
		}
	}
	for _, x := range p.exchanges {
		x.stop()
	}
	p.wg.Wait()
	sessions.Close()
	endpoint.Close()
	stop()
	return played
}

func (p *player) act(label, text string) {
	line, rest, _ := strings.Cut(text, "\n")
	switch {
	case elapse(p.t, line):
	case line == "close":
		for _, x := range p.exchanges {
			if x.label == label {
				x.stop()
			}
		}
	case line == "shutdown":
		p.endpoint.Close()
	case line == "sweep":
		p.sessions.Sweep()
	default:
		p.request(label, line, rest)
	}
}

func (p *player) request(label, line, text string) {
	head, body, _ := strings.Cut(text, "\n\n")
	words := strings.Fields(line)
	path, who := "/mcp", "local"
	for i, w := range words {
		switch {
		case strings.HasPrefix(w, "/"):
			path = w
		case w == "as":
			who = words[i+1]
		}
	}
	body = strings.ReplaceAll(strings.TrimSuffix(body, "\n"), "$META", metaText)
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, words[0], "http://memory"+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("X-Test-Principal", who)
	if words[0] == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for h := range strings.Lines(head) {
		name, value, ok := strings.Cut(strings.TrimSpace(h), ": ")
		if !ok {
			continue
		}
		if name == "Content-Type" {
			req.Header.Del(name)
		}
		for i, id := range p.known {
			value = strings.ReplaceAll(value, fmt.Sprintf("SESSION%d", i+1), id)
		}
		req.Header.Add(name, value)
	}
	x := &heard{label: label, stop: cancel}
	p.exchanges = append(p.exchanges, x)
	p.wg.Go(func() { p.exchange(x, req) })
}

func (p *player) exchange(x *heard, req *http.Request) {
	resp, err := p.rt.RoundTrip(req)
	if err != nil {
		x.add("no answer: " + err.Error() + "\n")
		x.end(nil)
		return
	}
	defer resp.Body.Close()
	x.add(p.headers(resp))
	buf := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buf)
		x.add(string(buf[:n]))
		if err != nil {
			x.end(err)
			return
		}
	}
}

var shownHeaders = []string{"Allow", "Content-Type", "Mcp-Session-Id", "X-Accel-Buffering"}

func (p *player) headers(resp *http.Response) string {
	var b strings.Builder
	fmt.Fprintln(&b, resp.Status)
	for _, name := range shownHeaders {
		for _, v := range resp.Header.Values(name) {
			if name == headerSession {
				p.known = append(p.known, v)
				v = fmt.Sprintf("SESSION%d", len(p.known))
			}
			fmt.Fprintf(&b, "%s: %s\n", name, v)
		}
	}
	return b.String() + "\n"
}

func (x *heard) add(s string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fresh.WriteString(s)
}

func (x *heard) end(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	if err != nil && err != io.EOF && !errors.Is(err, context.Canceled) {
		x.fresh.WriteString("\n(cut: " + err.Error() + ")\n")
	}
}

// take returns what is new as a section, "" if there is nothing.
func (x *heard) take() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	text := x.fresh.String()
	x.fresh.Reset()
	if x.over && x.told || text == "" && x.over == x.told {
		return ""
	}
	text = strings.TrimRight(text, "\n") + "\n"
	switch {
	case !x.over:
		text += "(open)\n"
	case x.head:
		text = strings.TrimLeft(text, "\n") + "(end)\n"
	}
	x.head, x.told = true, x.over
	return text
}

func (p *player) collect(files []txtar.File) []txtar.File {
	for _, x := range slices.Clone(p.exchanges) {
		if text := x.take(); text != "" {
			if len(text) > 4096 {
				text = fmt.Sprintf("%s… (%d bytes)\n", text[:300], len(text))
			}
			files = append(files, txtar.File{Name: "server" + x.label, Data: []byte(text)})
		}
	}
	return files
}
