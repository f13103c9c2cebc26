package llmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Said is an answer as a test writes it, whatever the protocol it goes by.
// Slices hold pieces: each is a frame of its own.
type Said struct {
	Reasoning []string
	Text      []string
	Calls     []Called
	Input     int // tokens
	Output    int
	CutOff    bool
}

// Called is a call of an answer. Where a protocol has calls in one piece, the
// pieces of Args are joined.
type Called struct {
	ID   string
	Name string
	Args []string
}

// Reply is what a Fake answers to one request: frames with a pause before each
// of them, or a body.
type Reply struct {
	Status int // 0: 200
	Header map[string]string
	Frames []string
	Pace   time.Duration
	Cut    bool // the connection breaks after the last frame
	Hang   bool // nothing follows the last frame, and the connection stays
}

// Asked is a request that a Fake got.
type Asked struct {
	Path   string
	Header http.Header
	Body   []byte
	Time   time.Time
}

// Fake is the server of a provider, on the wire: its framing is the provider's,
// and every request is held to what the provider publishes, before it is
// answered. One that breaks a rule fails the test and is refused as it would be
// there.
type Fake struct {
	API
	t     testing.TB
	reply func(n int, a Asked) Reply

	mu    sync.Mutex
	asked []Asked
}

// NewFake makes a server that answers its nth request, counted from 0, by
// reply. Questions about the model are not counted.
func NewFake(t testing.TB, api API, reply func(n int, a Asked) Reply) *Fake {
	return &Fake{API: api, t: t, reply: reply}
}

// InTurn answers with one reply after the other, and with the last thereafter.
func InTurn(replies ...Reply) func(int, Asked) Reply {
	return func(n int, _ Asked) Reply { return replies[min(n, len(replies)-1)] }
}

// Asked returns the requests so far.
func (f *Fake) Asked() []Asked {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Asked(nil), f.asked...)
}

// ServeHTTP implements http.Handler.
func (f *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // it went away
	}
	if f.About != nil && r.URL.Path == f.About.Path {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = io.WriteString(w, f.About.Body)
		return
	}
	if err := f.check(r, body); err != nil {
		f.t.Errorf("%s would refuse this request: %v\n%s %s\n%s", f.Name, err, r.Method, r.URL, body)
		f.send(w, r, f.Refusal(http.StatusBadRequest, err.Error()))
		return
	}
	a := Asked{Path: r.URL.RequestURI(), Header: r.Header.Clone(), Body: body, Time: time.Now()}
	f.mu.Lock()
	n := len(f.asked)
	f.asked = append(f.asked, a)
	f.mu.Unlock()
	f.send(w, r, f.reply(n, a))
}

func (f *Fake) check(r *http.Request, body []byte) error {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.RequestURI(), f.Path) {
		return fmt.Errorf("no such method: %s %s", r.Method, r.URL)
	}
	if t := r.Header.Get("Content-Type"); t != "application/json" {
		return fmt.Errorf("content type %q", t)
	}
	for name, want := range f.Header {
		if got := r.Header.Get(name); !strings.HasPrefix(got, want) || got == "" {
			return fmt.Errorf("header %s is %q", name, got)
		}
	}
	if !json.Valid(body) {
		return fmt.Errorf("the body is no JSON")
	}
	return f.Check(body)
}

func (f *Fake) send(w http.ResponseWriter, r *http.Request, reply Reply) {
	status := reply.Status
	if status == 0 {
		status = http.StatusOK
	}
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusOK {
		w.Header().Set("Content-Type", f.ContentType)
	}
	for k, v := range reply.Header {
		w.Header().Set(k, v)
	}
	w.WriteHeader(status)
	flush := http.NewResponseController(w).Flush
	_ = flush()
	for _, frame := range reply.Frames {
		if reply.Pace > 0 && !pause(r.Context(), reply.Pace) {
			return
		}
		if _, err := io.WriteString(w, frame); err != nil {
			return
		}
		_ = flush()
	}
	if reply.Hang {
		<-r.Context().Done()
	}
	if reply.Cut {
		panic(http.ErrAbortHandler)
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// InMemory serves f without a network and returns the client that reaches it at
// any address. It can be used where time is the test's own (testing/synctest),
// and has to be ended there.
func (f *Fake) InMemory() (client *http.Client, end func()) {
	l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	srv := &http.Server{Handler: f, ReadHeaderTimeout: time.Hour}
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(l) }()
	transport := &http.Transport{DialContext: l.dial}
	return &http.Client{Transport: transport}, func() {
		transport.CloseIdleConnections()
		_ = srv.Close()
		<-served
	}
}

// pipes is a listener whose connections are pipes.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

var _ net.Listener = (*pipes)(nil)
