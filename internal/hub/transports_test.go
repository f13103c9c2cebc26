//lint:file-ignore SA1019 old transports are what is tested

package hub_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/hubtest/port"
	"github.com/stoahub/stoa/internal/upstream"
)

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
	t.Cleanup(cancel)
	return ctx
}

func carrySpec() peer.Spec {
	return peer.Spec{Tools: []peer.Tool{{Name: "echo"}, {Name: "count", Behaviour: peer.Do(peer.Count)}, {Name: "ask", Behaviour: peer.Do(peer.Elicit)}}}
}

func withSSE(c *config.Config) { c.SSE = true }

// say sends a request on a socket and returns the response. Lists may change
// meanwhile, of which the socket is told too.
func say(t *testing.T, c *websocket.Conn, text string) string {
	t.Helper()
	if err := c.Write(within(t), websocket.MessageText, []byte(text)); err != nil {
		t.Fatal(err)
	}
	for {
		_, b, err := c.Read(within(t))
		if err != nil {
			t.Fatal(err)
		}
		if m, err := hubtest.ParseMessage(b); err != nil || m.IsResponse() {
			return string(b)
		}
	}
}

const (
	hello    = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	callEcho = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"up__echo","arguments":{"n":12345678901234567890}}}`
)

func TestSocketFace(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Stdio("up", carrySpec()))
	url := strings.Replace(h.URL, "http", "ws", 1) + "/mcp/ws"
	dial := func(header http.Header) (*websocket.Conn, *http.Response, error) {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		return websocket.Dial(within(t), url, &websocket.DialOptions{HTTPClient: client, HTTPHeader: header, Subprotocols: []string{"mcp"}})
	}
	var both []*websocket.Conn
	for range 2 {
		c, _, err := dial(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := say(t, c, hello); !strings.Contains(got, `"protocolVersion":"2025-06-18"`) {
			t.Errorf("initialize: %s", got)
		}
		both = append(both, c)
	}
	for _, c := range both {
		if got := say(t, c, callEcho); !strings.Contains(got, "12345678901234567890") {
			t.Errorf("call: %s", got)
		}
	}
	for name, header := range map[string]http.Header{
		"a foreign origin": {"Origin": {"https://evil.example"}}, "a bad token": {"Authorization": {"Bearer wrong"}},
	} {
		if _, resp, err := dial(header); err == nil || resp == nil || resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %v, %v", name, resp, err)
		}
	}
	// The hub stops: sockets are told so.
	h.End()
	for _, c := range both {
		var err error
		for err == nil {
			_, _, err = c.Read(within(t))
		}
		if websocket.CloseStatus(err) != websocket.StatusGoingAway {
			t.Errorf("at the end: %v", err)
		}
	}
}

func TestOldTransportIsOffUnlessAskedFor(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t)
	if status, _ := h.Get("/sse"); status != http.StatusNotFound {
		t.Errorf("GET /sse: %d", status)
	}
}

// The official client works over HTTP+SSE, questions and changes included.
func TestOfficialClientOverSSE(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Config(withSSE), hubtest.Stdio("up", carrySpec()))
	ht := &http.Transport{}
	defer ht.CloseIdleConnections()
	c := sdk.NewClient(&sdk.Implementation{Name: "oracle", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		},
	})
	s, err := c.Connect(within(t), &sdk.SSEClientTransport{Endpoint: h.URL + "/sse", HTTPClient: &http.Client{Transport: ht}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := s.ListTools(within(t), nil)
	if err != nil || len(tools.Tools) != 3 {
		t.Fatalf("list: %v, %v", tools, err)
	}
	res, err := s.CallTool(within(t), &sdk.CallToolParams{Name: "up__echo", Arguments: map[string]any{"a": "b"}})
	if err != nil || res.IsError {
		t.Errorf("call: %v, %v", res, err)
	}
	res, err = s.CallTool(within(t), &sdk.CallToolParams{Name: "up__ask"})
	if err != nil || !strings.Contains(res.Content[0].(*sdk.TextContent).Text, "Ada") {
		t.Errorf("ask: %+v, %v", res, err)
	}
	s.Close()
}

// The official server over HTTP+SSE is found to be one, or named as one.
func TestOfficialServerOverSSE(t *testing.T) {
	hubtest.Parallel(t)
	for _, transport := range []config.Transport{config.Auto, config.SSE} {
		t.Run(string(transport), func(t *testing.T) {
			server := sdk.NewServer(&sdk.Implementation{Name: "old", Version: "1"}, nil)
			sdk.AddTool(server, &sdk.Tool{Name: "greet"}, func(context.Context, *sdk.CallToolRequest, struct{ Name string }) (*sdk.CallToolResult, any, error) {
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "hello"}}}, nil, nil
			})
			srv := httptest.NewServer(sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return server }, nil))
			h := hubtest.New(t, hubtest.HTTP("up", srv.URL+"/sse", func(s *config.Server) { s.Transport = transport }))
			t.Cleanup(func() {
				h.Stop()
				srv.Close()
			})
			c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy})
			if m := c.Tool("up__greet", `{"Name":"x"}`); m.Text() != "hello" {
				t.Fatalf("call: %s", m.Raw)
			}
			srv.CloseClientConnections()
			await.Until(t, "the upstream is used again", func() bool {
				return c.Tool("up__greet", `{"Name":"x"}`).Text() == "hello"
			})
		})
	}
}

// far is a hub behind a socket, as an upstream that can be killed.
type far struct {
	t    *testing.T
	addr string
	tls  *tls.Config
	hub  *hub.Hub
	srv  *http.Server

	mu    sync.Mutex
	conns []net.Conn
	wg    sync.WaitGroup
}

func (f *far) start() {
	f.t.Helper()
	if f.addr == "" {
		f.addr = port.Address(f.t)
	}
	ln := port.Listen(f.t, f.addr)
	cfg := hubtest.Default().Config
	s := &hubtest.Setup{Config: cfg}
	hubtest.Stdio("in", carrySpec())(s)
	var err error
	if f.hub, err = hub.Open(hub.Options{Config: &s.Config, Temporary: true}); err != nil {
		f.t.Fatal(err)
	}
	handler, err := f.hub.Handler(true)
	if err != nil {
		f.t.Fatal(err)
	}
	f.srv = &http.Server{Handler: handler, TLSConfig: f.tls, ErrorLog: log.New(io.Discard, "", 0), ConnState: func(c net.Conn, st http.ConnState) {
		if st == http.StateHijacked {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.conns = append(f.conns, c)
		}
	}}
	f.wg.Go(func() {
		if f.tls != nil {
			_ = f.srv.ServeTLS(ln, "", "")
			return
		}
		_ = f.srv.Serve(ln)
	})
}

// kill ends everything without a word.
func (f *far) kill() {
	f.srv.Close()
	f.mu.Lock()
	for _, c := range f.conns {
		c.Close()
	}
	f.conns = nil
	f.mu.Unlock()
	f.hub.Close()
	f.wg.Wait()
}

func TestSocketUpstreamIsRecovered(t *testing.T) {
	hubtest.Parallel(t)
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		t.Run(string(era), func(t *testing.T) {
			f := &far{t: t}
			f.start()
			h := hubtest.New(t, hubtest.HTTP("up", "ws://"+f.addr+"/mcp/ws", func(s *config.Server) { s.Transport = config.WS }))
			t.Cleanup(func() {
				h.Stop()
				f.kill()
			})
			c := h.Client(t, hubtest.ClientOptions{Era: era})
			for round := range 3 {
				await.Until(t, "the upstream answers", func() bool { return c.Tool("up__in__count", "").Error == nil })
				await.Until(t, fmt.Sprintf("it is connected, round %d", round), func() bool { return status(t, h, "up").State == upstream.Connected })
				f.kill()
				await.Until(t, "the state says that it is away", func() bool { return status(t, h, "up").State != upstream.Connected })
				if round == 0 { // it waits for a while, in case that the upstream comes back
					if m := c.Tool("up__in__count", ""); m.Fault().Data.Kind != "unreachable" {
						t.Errorf("a call while away: %s", m.Raw)
					}
				}
				f.start()
			}
			await.Until(t, "the upstream answers", func() bool { return c.Tool("up__in__count", "").Error == nil })
		})
	}
}

// Upstreams over TLS: an authority of one's own and a certificate to show.
func TestUpstreamsOverTLS(t *testing.T) {
	hubtest.Parallel(t)
	a, dir := hubtest.NewAuthority(t), t.TempDir()
	certFile, keyFile := filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	a.Issue(certFile, keyFile, "127.0.0.1")
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	f := &far{t: t, tls: &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: trusted(t, a), ClientAuth: tls.RequireAndVerifyClientCert}}
	f.start()
	full := config.Trust{CA: a.File, Cert: certFile, Key: keyFile}
	up := func(name, url string, way config.Transport, trust config.Trust) hubtest.Edit {
		return hubtest.HTTP(name, url, func(s *config.Server) { s.Transport, s.TLS = way, trust })
	}
	h := hubtest.New(t,
		up("wss", "wss://"+f.addr+"/mcp/ws", config.WS, full),
		up("https", "https://"+f.addr+"/mcp", config.HTTP, full),
		up("unsure", "https://"+f.addr+"/mcp", config.HTTP, config.Trust{Cert: certFile, Key: keyFile}),
		up("nobody", "wss://"+f.addr+"/mcp/ws", config.WS, config.Trust{CA: a.File}),
		up("any", "https://"+f.addr+"/mcp", config.HTTP, config.Trust{Insecure: true, Cert: certFile, Key: keyFile}),
	)
	t.Cleanup(func() {
		h.Stop()
		f.kill()
	})
	c := h.Client(t, hubtest.ClientOptions{})
	for _, name := range []string{"wss", "https", "any"} {
		await.Until(t, name+" answers", func() bool { return c.Tool(name+"__in__count", "").Error == nil })
	}
	for _, name := range []string{"unsure", "nobody"} {
		await.Until(t, name+" is refused", func() bool {
			s := status(t, h, name)
			return s.State == upstream.Failed && strings.Contains(s.Error, "certificate")
		})
	}
}

func trusted(t *testing.T, a *hubtest.Authority) *x509.CertPool {
	t.Helper()
	b, err := os.ReadFile(a.File)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(b)
	return pool
}

// The hub itself over TLS: in HTTP/1.1 and 2, on sockets, and with a new
// certificate while it runs.
func TestHubOverTLS(t *testing.T) {
	hubtest.Parallel(t)
	a, dir := hubtest.NewAuthority(t), t.TempDir()
	certFile, keyFile := filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	a.Issue(certFile, keyFile, "127.0.0.1")
	h := hubtest.New(t, hubtest.Stdio("up", carrySpec()), hubtest.Config(func(c *config.Config) { c.TLS = config.TLS{Cert: certFile, Key: keyFile} }))
	base := strings.TrimPrefix(h.URL, "http")
	for _, two := range []bool{false, true} {
		rt := &http.Transport{ForceAttemptHTTP2: two, TLSClientConfig: &tls.Config{RootCAs: trusted(t, a)}}
		req, err := http.NewRequestWithContext(within(t), http.MethodPost, "https"+base+"/mcp", strings.NewReader(callEcho))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || (resp.ProtoMajor == 2) != two {
			t.Errorf("%s %s", resp.Proto, resp.Status)
		}
		rt.CloseIdleConnections()
	}
	dial := func(pool *x509.CertPool) (*websocket.Conn, error) {
		rt := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}
		c, _, err := websocket.Dial(within(t), "wss"+base+"/mcp/ws", &websocket.DialOptions{HTTPClient: &http.Client{Transport: rt}})
		return c, err
	}
	c, err := dial(trusted(t, a))
	if err != nil {
		t.Fatal(err)
	}
	if got := say(t, c, callEcho); !strings.Contains(got, "12345678901234567890") {
		t.Errorf("over a socket: %s", got)
	}
	c.CloseNow()
	b := hubtest.NewAuthority(t)
	b.Issue(certFile, keyFile, "127.0.0.1")
	await.Until(t, "the new certificate is shown", func() bool {
		c, err := dial(trusted(t, b))
		if err == nil {
			c.CloseNow()
		}
		return err == nil
	})
}
