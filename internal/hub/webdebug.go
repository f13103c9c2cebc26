package hub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/stoahub/stoa/internal/console"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/modules"
	"github.com/stoahub/stoa/internal/obs"
)

// webDebug is a further address of the console, on this machine only, that a
// client has asked for.
type webDebug struct {
	mu     sync.Mutex
	server *http.Server // nil: there is none
	port   int
	since  time.Time
	closed bool
}

// startWeb opens the console on a port of this machine; 0 means any. Who comes
// there needs a token as everywhere: a tool's answer is no place for one.
func (h *Hub) startWeb(ctx context.Context, port int, open bool) (modules.WebStatus, error) {
	h.web.mu.Lock()
	already := h.web.server != nil
	err := h.listenWeb(port)
	h.web.mu.Unlock()
	if err != nil {
		return modules.WebStatus{}, err
	}
	s := h.webStatus()
	s.Already = already
	if open {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if err := console.Open(ctx, s.URL); err != nil {
			s.Note = fmt.Sprintf("no browser could be opened: %v", err)
		}
	}
	return s, nil
}

// listenWeb is called with web.mu held.
func (h *Hub) listenWeb(port int) error {
	switch {
	case h.web.closed:
		return fault.New(fault.Cancelled, "web_debug_start", "the hub is being stopped")
	case h.web.server != nil && (port == 0 || port == h.web.port):
		return nil
	case h.web.server != nil:
		return &fault.Error{Kind: fault.InvalidArguments, Subject: "port", Msg: fmt.Sprintf("the console was opened on port %d already", h.web.port), Hint: "Use that one, or leave port out."}
	}
	ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		f := fault.New(fault.InvalidArguments, "port", "cannot listen on port %d: %v", port, err)
		if errors.Is(err, syscall.EADDRINUSE) {
			f.Msg = fmt.Sprintf("port %d is in use", port)
		}
		f.Hint = "Use another port, or leave it out for any that is free."
		return f
	}
	s, err := h.server(ln)
	if err != nil {
		ln.Close()
		return err
	}
	h.web.server, h.web.port, h.web.since = s, ln.Addr().(*net.TCPAddr).Port, time.Now()
	h.wg.Go(func() {
		if err := serve(s, h.lobby.Listener(ln)); !errors.Is(err, http.ErrServerClosed) {
			h.log.Error("the further address of the console is closed", obs.KeyErr, err)
		}
	})
	h.log.Info("the console has a further address", obs.KeyAction, "listen", "address", ln.Addr().String())
	return nil
}

// webStatus tells where the console is and who looks at it.
func (h *Hub) webStatus() modules.WebStatus {
	h.web.mu.Lock()
	defer h.web.mu.Unlock()
	s := modules.WebStatus{Viewers: h.viewers.Len()}
	if h.web.server == nil {
		s.Console = h.consoleAddress()
		return s
	}
	s.Running, s.Port, s.UptimeMs = true, h.web.port, time.Since(h.web.since).Milliseconds()
	s.URL = h.consoleAt(net.JoinHostPort("127.0.0.1", strconv.Itoa(h.web.port)))
	s.Console = s.URL
	return s
}

// consoleAddress is where the console is; "" if the hub has no listener.
func (h *Hub) consoleAddress() string {
	all := h.Addresses()
	if len(all) == 0 {
		return ""
	}
	host, port, err := net.SplitHostPort(all[0])
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return h.consoleAt(net.JoinHostPort("127.0.0.1", port)) // nobody can go to 0.0.0.0
	}
	return h.consoleAt(all[0])
}

func (h *Hub) consoleAt(address string) string {
	scheme := "http"
	if h.cfg.TLS.Cert != "" {
		scheme = "https"
	}
	return scheme + "://" + address + "/console/"
}

// shutdown ends the further address as drain ends the others.
func (w *webDebug) shutdown(ctx context.Context) {
	w.mu.Lock()
	s := w.server
	w.closed = true
	w.mu.Unlock()
	if s != nil && s.Shutdown(ctx) != nil {
		s.Close()
	}
}

func (w *webDebug) close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w.shutdown(ctx)
}
