package mcp

import (
	"bufio"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stoahub/stoa/internal/fault"
)

// recorder is the Stream of a call under test. What it is asked it answers by
// ask, if that is set; then it can be asked.
type recorder struct {
	ask func(ctx context.Context, method string) (Response, error)

	mu    sync.Mutex
	notes []string
}

func (r *recorder) Notify(method string, params []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, method+" "+string(params))
}

func (r *recorder) Flush()       {}
func (r *recorder) CanAsk() bool { return r.ask != nil }

func (r *recorder) Ask(ctx context.Context, method string, _ []byte) (Response, error) {
	if r.ask == nil {
		return Response{}, errCannotAsk
	}
	return r.ask(ctx, method)
}

func (r *recorder) heard() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.notes...)
}

// outcome is what became of a call that runs on its own.
type outcome struct {
	resp Response
	err  error
	done chan struct{}
}

func start(ctx context.Context, c Conn, o *Outgoing) *outcome {
	out := &outcome{done: make(chan struct{})}
	go func() {
		defer close(out.done)
		out.resp, out.err = c.Call(ctx, o)
	}()
	return out
}

func (o *outcome) want(t *testing.T, result string) {
	t.Helper()
	<-o.done
	if o.err != nil || string(o.resp.Result) != result {
		t.Errorf("the call got result %s, error %s, %v; want result %s", o.resp.Result, o.resp.Error, o.err, result)
	}
}

func (o *outcome) wantErr(t *testing.T, check func(error) bool) {
	t.Helper()
	<-o.done
	if o.err == nil || !check(o.err) {
		t.Errorf("the call got result %s, error %v, which is not the one that was to come", o.resp.Result, o.err)
	}
}

// far is the other end of a PipeConn, played by the test.
type far struct {
	t  *testing.T
	in *bufio.Reader
	r  *io.PipeReader
	w  *io.PipeWriter
}

func pipeTo(t *testing.T, opts ConnOptions, garbage func([]byte)) (*PipeConn, *far) {
	nearIn, farOut := io.Pipe()
	farIn, nearOut := io.Pipe()
	c := PipeOver(nearIn, nearOut, opts, garbage)
	c.agree(Legacy, LegacyVersion)
	return c, &far{t: t, in: bufio.NewReader(farIn), r: farIn, w: farOut}
}

// got checks the next line that the connection wrote.
func (f *far) got(want string) {
	f.t.Helper()
	line, err := f.in.ReadString('\n')
	if line = strings.TrimSuffix(line, "\n"); err != nil || line != want {
		f.t.Errorf("the server got %s, %v; want %s", line, err, want)
	}
}

func (f *far) say(lines ...string) {
	f.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(f.w, l+"\n"); err != nil {
			f.t.Errorf("say %s: %v", l, err)
		}
	}
	synctest.Wait()
}

func (f *far) hangUp() {
	f.w.Close()
	f.r.Close()
}

func ofKind(k fault.Kind) func(error) bool {
	return func(err error) bool { return fault.Is(err, k) }
}

func request(method, params string) *Outgoing {
	o := &Outgoing{Method: method}
	if params != "" {
		o.Raw = []byte(params)
		o.Fields = members(params)
	}
	return o
}
