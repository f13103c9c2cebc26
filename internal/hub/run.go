package hub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/obs"
)

// drainTime is how long running calls may take to end after the hub was told
// to stop.
const drainTime = 10 * time.Second

// Run serves on the configured addresses until ctx ends, then drains.
func (h *Hub) Run(ctx context.Context) error {
	servers, listeners, err := h.listen()
	if err != nil {
		return err
	}
	if err := h.joinCluster(); err != nil {
		h.unbind()
		return err
	}
	// Not before: who opens a hub to look at what it keeps must change nothing.
	h.tasks.Resume()
	h.chat.resume()
	h.plans.runs.Resume()
	failed := make(chan error, len(servers))
	for i, s := range servers {
		h.wg.Go(func() {
			if err := serve(s, listeners[i]); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}
	h.joinPeers()
	if h.data != nil {
		err = h.data.announce(h.Addresses(), h.config().Hash())
	}
	if err == nil {
		h.log.Info("hub is ready", obs.KeyAction, "listen", "address", h.Addresses(), "upstreams", len(h.Upstreams()), "model", h.Model())
		if h.listens != nil {
			h.listens(h.Addresses())
		}
		select {
		case <-ctx.Done():
		case err = <-failed:
		}
	}
	h.drain(servers)
	return err
}

// listen opens all addresses, or none.
func (h *Hub) listen() ([]*http.Server, []net.Listener, error) {
	var servers []*http.Server
	var listeners []net.Listener
	if err := h.bind(); err != nil {
		return nil, nil, err
	}
	for _, ln := range h.bound {
		s, err := h.server(ln)
		if err != nil {
			h.unbind()
			return nil, nil, fmt.Errorf("listen on %s: %w", ln.Addr(), err)
		}
		servers, listeners = append(servers, s), append(listeners, h.lobby.Listener(ln))
		h.mu.Lock()
		h.addresses = append(h.addresses, ln.Addr().String())
		h.mu.Unlock()
	}
	return servers, listeners, nil
}

// bind takes all addresses, or none. Who comes before the hub is ready waits.
func (h *Hub) bind() error {
	if h.bound != nil {
		return nil
	}
	for _, addr := range h.cfg.Listen {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			h.unbind()
			return fmt.Errorf("listen on %s: %w", addr, err)
		}
		h.bound = append(h.bound, ln)
	}
	return nil
}

func (h *Hub) unbind() {
	for _, ln := range h.bound {
		ln.Close()
	}
	h.bound = nil
}

// drain lets running requests end, then closes what is left.
func (h *Hub) drain(servers []*http.Server) {
	h.cluster.shut()     // others take up what this hub has
	h.plans.runs.Quiet() // before calls are cancelled, which would stop their runs
	h.endpoint.Close()
	h.desk.Close() // nobody is waited for
	h.chat.leave()
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(h.viewers.Close)
	wg.Go(func() { h.cluster.shutdown(ctx) })
	wg.Go(func() { h.chat.drain(ctx) })
	wg.Go(func() { h.plans.runs.Drain(ctx) })
	wg.Go(func() { h.web.shutdown(ctx) })
	for _, s := range servers {
		wg.Go(func() {
			if s.Shutdown(ctx) != nil {
				s.Close()
			}
		})
	}
	wg.Wait()
	h.endpoint.Wait(ctx)
	h.tasks.Kept().Drain(ctx)
}

func serve(s *http.Server, ln net.Listener) error {
	if s.TLSConfig != nil {
		return s.ServeTLS(ln, "", "") // it has its own way to the files
	}
	return s.Serve(ln)
}

// Close ends everything that Open began. It may be called more than once.
func (h *Hub) Close() {
	if h.agents.book != nil {
		h.agents.book.Close() // it waits for what is being reloaded, which must not wait for it
	}
	h.reloading.Lock()
	defer h.reloading.Unlock()
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return
	}
	h.closed = true
	h.mu.Unlock()
	for _, close := range slices.Backward(h.closers) {
		close()
	}
}
