package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/obs"
)

// settleTime is how long the servers of a temporary hub may take to answer
// for the first time. Those that are fetched before they run need most of it.
const settleTime = 60 * time.Second

// temporary says what hub is opened for one command.
type temporary struct {
	only    string // the one server to start, if there is one of that name
	verbose bool
	keeps   bool   // it uses the data folder
	token   string // then: whose sessions are meant; the folder's own if empty
}

// openTemporary opens a hub in this process and returns a client of it. It is
// asked over HTTP like any other, but nobody else can reach it.
func openTemporary(ctx context.Context, s std, cfg *config.Config, notes []config.Note, o temporary) (*client, error) {
	own := *cfg
	own.Log.File.Enabled = false // they are for hubs that stay
	if one := cfg.Server(o.only); one != nil {
		own.Servers = []config.Server{*one}
	}
	cfg = &own
	log := slog.New(slog.DiscardHandler)
	if o.verbose {
		tell(s, notes)
		var err error
		if log, err = obs.Logger(s.err, cfg.Log.Level, "text"); err != nil {
			return nil, err
		}
	}
	h, err := hub.Open(hub.Options{Config: cfg, Logger: log, Version: version(), Temporary: !o.keeps})
	if errors.Is(err, hub.ErrLocked) {
		return nil, &failure{err: err, hint: "A hub is just starting or ending there, or another command uses the folder: try again. `stoa serve` serves many at once.", code: exitUnreachable}
	}
	if err != nil {
		return nil, err
	}
	token := rand.Text()
	if !o.keeps {
		h.Admit(token)
	} else if token = o.token; token == "" {
		if token, err = hub.LocalToken(cfg.Data); err != nil { // without one the hub says what is missing
			h.Close()
			return nil, err
		}
	}
	c := newClient(&url.URL{Scheme: "http", Host: "127.0.0.1"}, token)
	c.after = append(c.after, h.Close)
	if err := c.serveInside(h); err != nil {
		c.close()
		return nil, err
	}
	if len(cfg.Servers) > 0 && isTerminal(s.err) {
		s.note("no hub is running, so %s started for this command", started(cfg))
	}
	wait, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	h.Settle(wait)
	if ctx.Err() != nil {
		c.close()
		return nil, ctx.Err()
	}
	return c, nil
}

func started(cfg *config.Config) string {
	n := 0
	for i := range cfg.Servers {
		if cfg.Servers[i].Enabled {
			n++
		}
	}
	if n == 1 {
		return "1 server is"
	}
	return fmt.Sprintf("%d servers are", n)
}

// serveInside serves the hub over connections within this process.
func (c *client) serveInside(h *hub.Hub) error {
	handler, err := h.Handler(true)
	if err != nil {
		return err
	}
	inside := &insideListener{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(inside) }) // it ends with Close, and says only that
	c.http = &http.Transport{DialContext: inside.dial, DisableCompression: true}
	c.after = append(c.after, func() {
		server.Close()
		wg.Wait()
	})
	return nil
}

// insideListener accepts what dial opens.
type insideListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *insideListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *insideListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *insideListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *insideListener) Addr() net.Addr { return insideAddr{} }

type insideAddr struct{}

func (insideAddr) Network() string { return "inside" }
func (insideAddr) String() string  { return "inside" }

var _ net.Listener = (*insideListener)(nil)
