package llmtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/secret"
)

// Whole is an answer of a provider: what its server says before it is asked
// for one, then the piece that gives the first delta, then the rest; and the
// rules that every request is held to.
type Whole struct {
	Check       func([]byte) error
	Before      string
	First, Rest string
}

// bench is a server under the test's control, and a model that asks it.
type bench struct {
	t     *testing.T
	whole Whole
	gone  chan struct{} // gets one for each answer that the model gave up
	logs  *bytes.Buffer
	mu    sync.Mutex
	asked int
}

// Rules holds a provider to what every model promises: it ends when told to,
// waits no longer than it may, and keeps the key to itself.
func Rules(t *testing.T, open func(llm.Options) (llm.Model, error), whole Whole) {
	for name, f := range map[string]func(*bench, func(llm.Options) (llm.Model, error)){
		"abort within an answer":   (*bench).abort,
		"abort within a pause":     (*bench).abortPause,
		"listener leaves":          (*bench).leave,
		"silence within an answer": (*bench).silence,
		"silence from the start":   (*bench).deaf,
		"drip without end":         (*bench).drip,
		"slow listener":            (*bench).slow,
		"nobody there":             (*bench).nobody,
		"shared pause":             (*bench).shared,
		"pause of one's own":       (*bench).own,
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{t: t, whole: whole, gone: make(chan struct{}, 16), logs: &bytes.Buffer{}}
			f(b, open)
			if strings.Contains(b.logs.String(), Key) {
				t.Errorf("the key is in the log: %s", b.logs)
			}
		})
	}
}

// serve answers questions by handle, once the server has said what comes before.
func (b *bench) serve(open func(llm.Options) (llm.Model, error), o llm.Options, handle http.HandlerFunc) llm.Model {
	b.t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		b.mu.Lock()
		first := b.asked == 0 && b.whole.Before != ""
		b.asked++
		b.mu.Unlock()
		if first {
			_, _ = io.WriteString(w, b.whole.Before)
			return
		}
		if err := b.whole.Check(body); err != nil {
			b.t.Errorf("the provider would refuse this: %v\n%s", err, body)
		}
		handle(w, r)
	}))
	transport := &http.Transport{}
	b.t.Cleanup(func() { transport.CloseIdleConnections(); srv.Close() })
	o.BaseURL, o.APIKey, o.HTTP = srv.URL, secret.New(Key), &http.Client{Transport: transport}
	o.Logger = slog.New(slog.NewTextHandler(b.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	m, err := open(o)
	if err != nil {
		b.t.Fatal(err)
	}
	return m
}

func (b *bench) say(w http.ResponseWriter, s string) {
	_, _ = io.WriteString(w, s)
	_ = http.NewResponseController(w).Flush()
}

// hang waits until the model has given up.
func (b *bench) hang(r *http.Request) {
	<-r.Context().Done()
	b.gone <- struct{}{}
}

// leftAlone fails unless the server notices that nobody listens.
func (b *bench) leftAlone() {
	b.t.Helper()
	select {
	case <-b.gone:
	case <-time.After(10 * time.Second):
		b.t.Error("the request goes on")
	}
}

var greeting = llm.Request{Messages: []llm.Message{llm.Say(llm.User, "hello")}}

const atOnce = 2 * time.Second // on a machine that has much else to do

func (b *bench) want(err error, cause llm.Cause, attempts int) {
	b.t.Helper()
	var e *llm.Error
	if !errors.As(err, &e) || e.Cause != cause || e.Attempts != attempts {
		b.t.Errorf("error %v, want cause %s after %d attempts", err, cause, attempts)
	}
}

func (b *bench) abort(open func(llm.Options) (llm.Model, error)) {
	m := b.serve(open, llm.Options{}, func(w http.ResponseWriter, r *http.Request) { b.say(w, b.whole.First); b.hang(r) })
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	var told time.Time
	for _, err := range m.Stream(ctx, greeting) {
		if err != nil {
			b.want(err, llm.Cancelled, 1)
			if !errors.Is(err, context.Canceled) || time.Since(told) > atOnce {
				b.t.Errorf("%v after %s", err, time.Since(told))
			}
			b.leftAlone()
			return
		}
		told = time.Now()
		cancel()
	}
	b.t.Error("the answer ended without an error")
}

func (b *bench) abortPause(open func(llm.Options) (llm.Model, error)) {
	m := b.serve(open, llm.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	start, retries := time.Now(), 0
	for d, err := range m.Stream(ctx, greeting) {
		if err != nil {
			b.want(err, llm.Cancelled, 1)
		} else if d.Kind == llm.Retrying && d.Wait == 30*time.Second {
			retries++
			cancel()
		}
	}
	if retries != 1 || time.Since(start) > 10*time.Second {
		b.t.Errorf("%d retries in %s", retries, time.Since(start))
	}
}

func (b *bench) leave(open func(llm.Options) (llm.Model, error)) {
	m := b.serve(open, llm.Options{}, func(w http.ResponseWriter, r *http.Request) { b.say(w, b.whole.First); b.hang(r) })
	for range m.Stream(b.t.Context(), greeting) {
		break
	}
	b.leftAlone()
}

func (b *bench) silence(open func(llm.Options) (llm.Model, error)) {
	m := b.serve(open, llm.Options{Timeout: 100 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) { b.say(w, b.whole.First); b.hang(r) })
	a, err := llm.Collect(m.Stream(b.t.Context(), greeting))
	b.want(err, llm.TimedOut, 1)
	if a.Message.Text() == "" || a.Stop != "" {
		b.t.Errorf("what was said is gone: %+v", a)
	}
	b.leftAlone()
}

func (b *bench) deaf(open func(llm.Options) (llm.Model, error)) {
	m := b.serve(open, llm.Options{Timeout: 100 * time.Millisecond, MaxRetries: 1, RetryDelay: time.Millisecond}, func(_ http.ResponseWriter, r *http.Request) { b.hang(r) })
	a, err := llm.Collect(m.Stream(b.t.Context(), greeting))
	b.want(err, llm.TimedOut, 2)
	if a.Retries != 1 {
		b.t.Errorf("%d retries", a.Retries)
	}
	b.leftAlone()
	b.leftAlone()
}

func (b *bench) drip(open func(llm.Options) (llm.Model, error)) {
	m := b.serve(open, llm.Options{MaxTime: 200 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		b.say(w, b.whole.First)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				b.say(w, "\n")
			case <-r.Context().Done():
				b.gone <- struct{}{}
				return
			}
		}
	})
	_, err := llm.Collect(m.Stream(b.t.Context(), greeting))
	b.want(err, llm.TimedOut, 1)
	b.leftAlone()
}

// slow has the rest of the answer come after a listener has taken longer than
// the provider may.
func (b *bench) slow(open func(llm.Options) (llm.Model, error)) {
	const timeout = 500 * time.Millisecond
	taken := make(chan struct{})
	m := b.serve(open, llm.Options{Timeout: timeout}, func(w http.ResponseWriter, _ *http.Request) {
		b.say(w, b.whole.First)
		<-taken
		b.say(w, b.whole.Rest)
	})
	n, stop := 0, llm.Stop("")
	for d, err := range m.Stream(b.t.Context(), greeting) {
		if err != nil {
			b.t.Fatal(err)
		}
		if n++; n == 1 {
			<-time.After(2 * timeout)
			close(taken)
		}
		stop = d.Stop
	}
	if stop != llm.Done {
		b.t.Errorf("stop %q", stop)
	}
}

func (b *bench) nobody(open func(llm.Options) (llm.Model, error)) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	m, err := open(llm.Options{APIKey: secret.New(Key), BaseURL: "http://user:open-sesame@" + address, MaxRetries: -1, HTTP: &http.Client{Transport: &http.Transport{}}})
	if err != nil {
		b.t.Fatal(err)
	}
	_, err = llm.Collect(m.Stream(b.t.Context(), greeting))
	b.want(err, llm.Network, 1)
	if s := err.Error(); strings.Contains(s, "sesame") || !strings.Contains(s, "check the network") {
		b.t.Errorf("error %q", s)
	}
}

// shared has one request told to wait, and another that begins thereafter wait
// as well.
func (b *bench) shared(open func(llm.Options) (llm.Model, error)) {
	const wait = 300 * time.Millisecond
	var told time.Time
	m := b.serve(open, llm.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if told.IsZero() {
			told = time.Now()
			w.Header().Set("Retry-After-Ms", "300")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		if d := time.Since(told); d < wait {
			b.t.Errorf("asked again after %s", d)
		}
		b.say(w, b.whole.First+b.whole.Rest)
	})
	for d, err := range m.Stream(b.t.Context(), greeting) {
		if err != nil {
			b.t.Fatal(err)
		}
		if d.Kind == llm.Retrying {
			if a, err := llm.Collect(m.Stream(b.t.Context(), greeting)); err != nil || a.Stop != llm.Done {
				b.t.Errorf("%+v, %v", a, err)
			}
		}
	}
}

// own has one connection break, which is no reason for others to wait.
func (b *bench) own(open func(llm.Options) (llm.Model, error)) {
	broke := false
	m := b.serve(open, llm.Options{RetryDelay: 30 * time.Second}, func(w http.ResponseWriter, _ *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !broke {
			broke = true
			panic(http.ErrAbortHandler)
		}
		b.say(w, b.whole.First+b.whole.Rest)
	})
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	start := time.Now()
	for d, err := range m.Stream(ctx, greeting) {
		if err != nil {
			b.want(err, llm.Cancelled, 1)
		} else if d.Kind == llm.Retrying {
			if a, err := llm.Collect(m.Stream(b.t.Context(), greeting)); err != nil || a.Stop != llm.Done {
				b.t.Errorf("%+v, %v", a, err)
			}
			cancel()
		}
	}
	if d := time.Since(start); d > 20*time.Second {
		b.t.Errorf("it took %s", d)
	}
}
