package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/fault"
)

const (
	jsonAnswer = "application/json"
	sseAnswer  = "text/event-stream"
)

// scripted answers every POST of a call in one way.
type scripted struct {
	status  int
	typ     string
	body    string
	cut     bool // the connection ends without the end of the answer
	header  http.Header
	elsewhe func() // called when a redirect was followed
	lost    bool   // the session is not known any more
}

func (s scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.URL.Path != "/mcp" {
		s.elsewhe()
	}
	if bytes.Contains(body, []byte(`"initialize"`)) {
		w.Header().Set("Content-Type", jsonAnswer)
		w.Header().Set("Mcp-Session-Id", "s1")
		io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}`)
		return
	}
	if !bytes.Contains(body, []byte(`"id"`)) || r.Method != http.MethodPost {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if bytes.Contains(body, []byte(`"id":"ping"`)) && !s.lost {
		io.WriteString(w, `{"jsonrpc":"2.0","id":"ping","result":{}}`)
		return
	}
	for k, v := range s.header {
		w.Header()[k] = v
	}
	if s.typ != "" {
		w.Header().Set("Content-Type", s.typ)
	}
	w.WriteHeader(s.status)
	io.WriteString(w, s.body)
	if s.cut {
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// serve returns the address of h and both transports that may carry a call to it.
func serve(t *testing.T, h http.Handler) (*url.URL, map[string]Transport) {
	t.Helper()
	srv := httptest.NewServer(h)
	u, err := url.Parse(srv.URL + "/mcp")
	if err != nil {
		t.Fatal(err)
	}
	standard := newStandard(&net.Dialer{})
	standard.Proxy = nil
	rts := map[string]Transport{"net/http": standard, "lean": newLean(u, &net.Dialer{})}
	t.Cleanup(func() {
		for _, rt := range rts {
			rt.CloseIdleConnections()
		}
		srv.Close()
	})
	return u, rts
}

func isStatus(code int) func(error) bool {
	return func(err error) bool {
		st, ok := errors.AsType[*StatusError](err)
		return ok && st.Status == code && err.Error() != ""
	}
}

// The id of the call under test is 2 in a legacy session, after initialize.
func TestHTTPConnAnswers(t *testing.T) {
	ok := `{"jsonrpc":"2.0","id":2,"result":{"ok":true}}`
	progress := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":%d}}`
	event := func(s string) string { return "data: " + s + "\n\n" }
	for name, tc := range map[string]struct {
		answer scripted
		result string
		failed string // the error object
		err    func(error) bool
		notes  []string
	}{
		"json":                    {answer: scripted{status: 200, typ: jsonAnswer, body: ok}, result: `{"ok":true}`},
		"json, bytes kept":        {answer: scripted{status: 200, typ: jsonAnswer, body: `{"jsonrpc":"2.0","id":2,"result":{ "n":12345678901234567890, "d":1,"d":2 }}`}, result: `{ "n":12345678901234567890, "d":1,"d":2 }`},
		"json, id as a string":    {answer: scripted{status: 200, typ: jsonAnswer, body: `{"jsonrpc":"2.0","id":"2","result":{}}`}, result: `{}`},
		"json, wrong id":          {answer: scripted{status: 200, typ: jsonAnswer, body: `{"jsonrpc":"2.0","id":3,"result":{}}`}, err: isLost},
		"json, no id":             {answer: scripted{status: 200, typ: jsonAnswer, body: `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}`}, err: isLost},
		"json, error with status": {answer: scripted{status: 400, typ: jsonAnswer, body: `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"?"}}`}, failed: `{"code":-32602,"message":"?"}`},
		"json, over the limit":    {answer: scripted{status: 200, typ: jsonAnswer, body: `{"jsonrpc":"2.0","id":2,"result":"` + strings.Repeat("x", 3000) + `"}`}, err: ofKind(fault.Limit)},
		"json, cut":               {answer: scripted{status: 200, typ: jsonAnswer, body: `{"jsonrpc":"2.0","id":2,`, cut: true}, err: isLost},
		"json, half":              {answer: scripted{status: 200, typ: jsonAnswer, body: `{"jsonrpc":"2.0","id":2,`}, err: isStatus(200)},
		"json, a notification":    {answer: scripted{status: 200, typ: jsonAnswer, body: fmt.Sprintf(progress, 1)}, err: isStatus(200)},
		"no content":              {answer: scripted{status: 202}, err: isStatus(202)},
		"html":                    {answer: scripted{status: 200, typ: "text/html", body: "<html>"}, err: isStatus(200)},
		"401":                     {answer: scripted{status: 401, typ: "text/plain", body: "who?"}, err: isStatus(401)},
		"403":                     {answer: scripted{status: 403}, err: isStatus(403)},
		"500":                     {answer: scripted{status: 500, typ: jsonAnswer, body: `{"oops":1}`}, err: isStatus(500)},
		"502":                     {answer: scripted{status: 502, typ: "text/html", body: "<html>bad gateway"}, err: isStatus(502)},
		"redirect":                {answer: scripted{status: 307, header: http.Header{"Location": {"/elsewhere"}}}, err: isStatus(307)},
		"404, session known":      {answer: scripted{status: 404}, err: isStatus(404)},
		"400 of a session": {answer: scripted{status: 400, lost: true, typ: jsonAnswer, body: `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}`}, err: func(err error) bool {
			return errors.Is(err, ErrSessionLost) && strings.Contains(err.Error(), "no session")
		}},
		"404 of a session":            {answer: scripted{status: 404, lost: true}, err: func(err error) bool { return errors.Is(err, ErrSessionLost) && isNotSent(err) }},
		"events":                      {answer: scripted{status: 200, typ: sseAnswer, body: event(ok)}, result: `{"ok":true}`},
		"events, with a charset":      {answer: scripted{status: 200, typ: "text/event-stream; charset=utf-8", body: event(ok)}, result: `{"ok":true}`},
		"events, in order":            {answer: scripted{status: 200, typ: sseAnswer, body: event(fmt.Sprintf(progress, 1)) + event(fmt.Sprintf(progress, 2)) + event(ok) + event(fmt.Sprintf(progress, 3))}, result: `{"ok":true}`, notes: []string{`notifications/progress {"progressToken":"mine","progress":1}`, `notifications/progress {"progressToken":"mine","progress":2}`}},
		"events, other answers":       {answer: scripted{status: 200, typ: sseAnswer, body: event("nonsense") + event(`{"jsonrpc":"2.0","id":7,"result":{}}`) + ": comment\n\n" + event("") + event(ok)}, result: `{"ok":true}`},
		"events, on several lines":    {answer: scripted{status: 200, typ: sseAnswer, body: "data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":2,\ndata: \"result\":{\"a\":\ndata: 1}}\n\n"}, result: "{\"a\":\n1}"},
		"events, ended early":         {answer: scripted{status: 200, typ: sseAnswer, body: event(fmt.Sprintf(progress, 1))}, err: isLost, notes: []string{`notifications/progress {"progressToken":"mine","progress":1}`}},
		"events, cut":                 {answer: scripted{status: 200, typ: sseAnswer, body: event(fmt.Sprintf(progress, 1)) + "data: {\"jsonrpc\"", cut: true}, err: isLost, notes: []string{`notifications/progress {"progressToken":"mine","progress":1}`}},
		"events, over the limit":      {answer: scripted{status: 200, typ: sseAnswer, body: event(`"` + strings.Repeat("x", 3000) + `"`)}, err: ofKind(fault.Limit)},
		"events, a long one before":   {answer: scripted{status: 200, typ: sseAnswer, body: event(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"`+strings.Repeat("x", 3000)+`"}}`) + event(ok)}, result: `{"ok":true}`},
		"events, with a wrong status": {answer: scripted{status: 503, typ: sseAnswer, body: event(ok)}, err: isStatus(503)},
	} {
		t.Run(name, func(t *testing.T) {
			tc.answer.elsewhe = func() { t.Error("a redirect was followed") }
			u, rts := serve(t, tc.answer)
			for via, rt := range rts {
				c := HTTPTo(u, nil, rt, ConnOptions{MessageBytes: 2000})
				if _, err := Initialize(t.Context(), c, []byte("{}"), nil); err != nil {
					t.Fatalf("%s: %v", via, err)
				}
				rec := &recorder{}
				resp, err := c.Call(t.Context(), &Outgoing{Method: "tools/call", Token: []byte(`"mine"`), Stream: rec})
				switch {
				case tc.err != nil:
					if err == nil || !tc.err(err) {
						t.Errorf("%s: error %v is not the one that was to come", via, err)
					}
				case err != nil || string(resp.Result) != tc.result || string(resp.Error) != tc.failed:
					t.Errorf("%s: result %s, error %s, %v", via, resp.Result, resp.Error, err)
				}
				if diff := cmp.Diff(tc.notes, rec.heard()); diff != "" {
					t.Errorf("%s: notifications: %s", via, diff)
				}
				resp.Release()
				c.Close()
				<-c.Done()
			}
		})
	}
}

func TestHTTPConnUnreachable(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	u, _ := url.Parse(srv.URL)
	srv.Close()
	for _, rt := range []Transport{newStandard(&net.Dialer{}), newLean(u, &net.Dialer{})} {
		c := HTTPTo(u, nil, rt, ConnOptions{})
		if _, err := c.Call(t.Context(), request("tools/list", "")); !isNotSent(err) {
			t.Errorf("%T: %v", rt, err)
		}
		c.Close()
		rt.CloseIdleConnections()
	}
}

// posts records what a server gets.
type posts struct {
	mu  sync.Mutex
	all []string
	ch  chan string
}

func (p *posts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	line := r.Method
	for _, h := range []string{"Accept", "Content-Type", "Mcp-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name", "Mcp-Param-Region", "X-Key", "Authorization"} {
		if v := r.Header.Get(h); v != "" {
			line += "|" + h + "=" + v
		}
	}
	line += "|" + string(body)
	p.mu.Lock()
	p.all = append(p.all, line)
	p.mu.Unlock()
	if p.ch != nil {
		p.ch <- line
	}
	switch {
	case bytes.Contains(body, []byte(`"slow"`)):
		<-r.Context().Done()
	case bytes.Contains(body, []byte(`"initialize"`)):
		w.Header().Set("Mcp-Session-Id", "s1")
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}`)
	case bytes.Contains(body, []byte(`server/discover`)):
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}`)
	case bytes.Contains(body, []byte(`"id"`)):
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":2,"result":{}}`)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func TestHTTPConnSaysWhoAndWhat(t *testing.T) {
	p := &posts{}
	u, rts := serve(t, p)
	common := "POST|Accept=application/json, text/event-stream|Content-Type=application/json"
	own := `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":` + string(ownInfo) + `,"io.modelcontextprotocol/clientCapabilities":{}`
	for via, rt := range rts {
		p.all = nil
		header := http.Header{"X-Key": {"k"}}
		legacy := HTTPTo(u, header, rt, ConnOptions{})
		if _, err := Initialize(t.Context(), legacy, []byte(`{"sampling":{}}`), []byte(`{"name":"n"}`)); err != nil {
			t.Fatal(err)
		}
		o := request("tools/call", `{"name":"grüß"}`)
		o.Name, o.Headers = "grüß", [][2]string{{"mcp-param-region", "eu"}}
		legacy.Call(t.Context(), o)
		legacy.Close()
		modern := HTTPTo(u, header, rt, ConnOptions{})
		if _, err := Discover(t.Context(), modern); err != nil {
			t.Fatal(err)
		}
		modern.Call(t.Context(), o)
		if err := modern.Notify(t.Context(), "notifications/x", nil); err != nil {
			t.Error(err)
		}
		modern.Close()
		if diff := cmp.Diff([]string{
			common + `|X-Key=k|{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"sampling":{}},"clientInfo":{"name":"n"}}}`,
			common + `|Mcp-Protocol-Version=2025-06-18|Mcp-Session-Id=s1|X-Key=k|{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			common + `|Mcp-Protocol-Version=2025-06-18|Mcp-Session-Id=s1|X-Key=k|{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"grüß"}}`,
			"DELETE|Accept=application/json, text/event-stream|Content-Type=application/json|Mcp-Protocol-Version=2025-06-18|Mcp-Session-Id=s1|X-Key=k|",
			common + `|Mcp-Protocol-Version=2026-07-28|Mcp-Method=server/discover|X-Key=k|{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{` + own + `}}}`,
			common + `|Mcp-Protocol-Version=2026-07-28|Mcp-Method=tools/call|Mcp-Name==?base64?Z3LDvMOf?=|Mcp-Param-Region=eu|X-Key=k|{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"grüß","_meta":{` + own + `}}}`,
		}, p.all); diff != "" {
			t.Errorf("%s: %s", via, diff)
		}
		if diff := cmp.Diff(http.Header{"X-Key": {"k"}}, header); diff != "" {
			t.Errorf("the caller's headers were changed: %s", diff)
		}
	}
}

// A call that is cancelled is taken back: by a notification in the legacy
// era, by leaving in the modern one.
func TestHTTPConnCancels(t *testing.T) {
	for _, era := range []Era{Legacy, Modern} {
		p := &posts{ch: make(chan string, 10)}
		u, rts := serve(t, p)
		for via, rt := range rts {
			c := HTTPTo(u, nil, rt, ConnOptions{})
			c.agree(era, map[Era]string{Legacy: "2025-06-18", Modern: ModernVersion}[era])
			ctx, cancel := context.WithCancelCause(t.Context())
			call := start(ctx, c, request("tools/call", `{"name":"slow"}`))
			<-p.ch
			cancel(errors.New("enough"))
			call.wantErr(t, func(err error) bool { return err.Error() == "enough" })
			if era == Legacy {
				if got := <-p.ch; !strings.HasSuffix(got, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`) {
					t.Errorf("%s: the server got %s", via, got)
				}
			}
			c.Close()
			select {
			case got := <-p.ch:
				t.Errorf("%s, %s: the server got %s", era, via, got)
			default:
			}
		}
	}
}

// A server that accepts and reads nothing keeps a caller only as long as the
// caller wants to wait.
func TestHTTPConnServerThatDoesNotRead(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	u := &url.URL{Scheme: "http", Host: ln.Addr().String(), Path: "/mcp"}
	standard := newStandard(&net.Dialer{})
	standard.Proxy = nil
	for _, rt := range []Transport{standard, newLean(u, &net.Dialer{})} {
		c := HTTPTo(u, nil, rt, ConnOptions{MessageBytes: 64 << 20})
		c.agree(Modern, ModernVersion)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("enough"))
		big := start(ctx, c, request("tools/call", `{"pad":"`+strings.Repeat("x", 12<<20)+`"}`))
		small := start(ctx, c, request("tools/call", `{}`))
		for _, call := range []*outcome{big, small} {
			call.wantErr(t, func(err error) bool { return err.Error() == "enough" })
		}
		cancel()
		c.Close()
		rt.CloseIdleConnections()
	}
}
