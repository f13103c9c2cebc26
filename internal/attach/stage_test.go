package attach

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

const patience = await.Patience

// oracle is what the hubs of a test serve. It outlives them, so that it can
// tell how often something was done.
type oracle struct {
	audience mcp.Audience

	mu      sync.Mutex
	seen    []string       // methods with their params, in order
	done    map[string]int // calls by tool and arguments
	waiting int            // calls of wait_*
	gate    chan struct{}  // which they wait for
}

const oracleTools = `{"tools":[{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},` +
	`{"name":"wait_look","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}},` +
	`{"name":"act","inputSchema":{"type":"object"}},{"name":"wait_act","inputSchema":{"type":"object"}},{"name":"ask","inputSchema":{"type":"object"}}]}`

func (o *oracle) Handle(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	o.mu.Lock()
	o.seen = append(o.seen, req.Method+" "+string(req.Params))
	o.mu.Unlock()
	switch req.Method {
	case "initialize":
		return mcp.Introduce(req.Client, []byte(`{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}}`), nil, "")
	case "tools/list":
		return result(req, oracleTools)
	case "tools/call":
		return o.call(ctx, req)
	}
	if req.IsNote {
		return mcp.Response{}, nil
	}
	return mcp.Response{}, fault.New(fault.UnknownMethod, "", "method %q is not offered here", req.Method)
}

func result(req *mcp.Request, result string) (mcp.Response, error) {
	if req.Client.Era == mcp.Modern {
		return mcp.Response{Result: mcp.Complete(req.Method, []byte(result))}, nil
	}
	return mcp.Response{Result: []byte(result)}, nil
}

func (o *oracle) call(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	name, _ := req.Text("name")
	o.mu.Lock()
	if o.done == nil {
		o.done = map[string]int{}
	}
	o.done[name+" "+string(req.Param("arguments"))]++
	gate := o.gate
	if strings.HasPrefix(name, "wait_") {
		o.waiting++
	} else {
		gate = nil
	}
	o.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return mcp.Response{}, ctx.Err()
		}
	}
	if name == "ask" {
		resp, err := req.Stream.Ask(ctx, "elicitation/create", []byte(`{"message":"Who?","requestedSchema":{"type":"object","properties":{}}}`))
		if err != nil {
			return mcp.Response{}, err
		}
		return result(req, `{"content":[{"type":"text","text":`+string(wire.Quote(string(resp.Result)))+`}]}`)
	}
	return result(req, `{"content":[],  "args":`+string(req.Param("arguments"))+`}`)
}

func (o *oracle) Attach(l *mcp.Listener) func() {
	o.audience.Add(l)
	return func() { o.audience.Remove(l) }
}

func (o *oracle) Subscribe(_ context.Context, l *mcp.Listener, uri string) error {
	o.mu.Lock()
	o.seen = append(o.seen, "subscribe "+uri)
	o.mu.Unlock()
	o.audience.Subscribe(l, uri, uri)
	return nil
}

func (o *oracle) Unsubscribe(_ context.Context, l *mcp.Listener, uri string) error {
	o.audience.Unsubscribe(l, uri)
	return nil
}

func (o *oracle) look(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
}

func (o *oracle) count(what string) (n int) {
	o.look(func() {
		for _, s := range o.seen {
			if strings.HasPrefix(s, what) {
				n++
			}
		}
	})
	return n
}

// post is an address behind which hubs come and go.
type post struct {
	t      *testing.T
	oracle *oracle
	ln     net.Listener
	wg     sync.WaitGroup

	mu       sync.Mutex
	server   *httptest.Server // nil while there is no hub
	endpoint *mcp.Endpoint
	conns    map[net.Conn]bool
	budget   int // bytes until the connections are cut; 0: any number
}

func newPost(t *testing.T) *post {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &post{t: t, oracle: &oracle{}, ln: ln, conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		ln.Close()
		p.kill()
		p.wg.Wait()
	})
	p.open()
	return p
}

// open lets a hub begin.
func (p *post) open() {
	sessions := mcp.NewSessions(100, time.Minute)
	e := mcp.NewEndpoint(mcp.EndpointOptions{Sessions: sessions})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { e.ServeSocket(w, r, auth.Local, p.oracle) }))
	p.mu.Lock()
	p.server, p.endpoint = s, e
	p.mu.Unlock()
}

// cut breaks all connections, as a network does.
func (p *post) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

// kill lets the hub end without a word.
func (p *post) kill() {
	p.mu.Lock()
	s, e := p.server, p.endpoint
	p.server = nil
	p.mu.Unlock()
	p.cut()
	// What still runs does not know yet that its client is gone.
	p.wg.Go(func() { p.end(s, e) })
}

// stop lets the hub end in order.
func (p *post) stop() {
	p.mu.Lock()
	s, e := p.server, p.endpoint
	p.server = nil
	p.mu.Unlock()
	p.end(s, e)
}

func (p *post) end(s *httptest.Server, e *mcp.Endpoint) {
	if s == nil {
		return
	}
	e.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e.Wait(ctx)
	s.Close()
}

func (p *post) accept() {
	for {
		front, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		server := p.server
		p.mu.Unlock()
		if server == nil {
			front.Close()
			continue
		}
		back, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			front.Close()
			continue
		}
		p.mu.Lock()
		p.conns[front], p.conns[back] = true, true
		p.mu.Unlock()
		p.wg.Go(func() { p.carry(front, back) })
		p.wg.Go(func() { p.carry(back, front) })
	}
}

// carry copies until one end goes, or until the bytes that are allowed have
// been carried: then everything is cut, in the middle of a frame.
func (p *post) carry(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	b := make([]byte, 512)
	for {
		n, err := from.Read(b)
		p.mu.Lock()
		over := p.budget > 0 && p.budget <= n
		if over {
			n = p.budget
			p.budget = 0
		} else if p.budget > 0 {
			p.budget -= n
		}
		p.mu.Unlock()
		if _, werr := to.Write(b[:n]); err != nil || werr != nil {
			return
		}
		if over {
			p.cut()
		}
	}
}

func (p *post) find(context.Context) (*Target, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		return nil, nil
	}
	return &Target{URL: &url.URL{Scheme: "ws", Host: p.ln.Addr().String(), Path: "/mcp/ws"}}, nil
}

var _ mcp.Handler = (*oracle)(nil)
