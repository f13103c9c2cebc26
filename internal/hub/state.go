package hub

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/store"
)

// state is what the hub keeps: the store and the Sessions in it.
type state struct {
	sessions *session.Registry

	mu    sync.Mutex
	store *store.Store // nil in a temporary hub until it has a task
	temp  string       // the folder of a temporary hub's store
}

// openState opens the store and reads the Sessions. A temporary hub has its
// Sessions in memory, and opens a store, in a folder that goes with it, when
// something else is to be stored.
func (h *Hub) openState() error {
	o := sessionOptions(h.cfg)
	o.Logger = h.logger("session")
	ctx := context.Background()
	if h.data != nil {
		so, err := storeOptions(h.cfg.Store)
		if err != nil {
			return err
		}
		so.Logger, so.OnState = h.logger("store"), h.storeState
		if so.URL == "" {
			so.Dir = StoreDir(h.data.path)
		}
		if h.state.store, err = store.Open(ctx, so); err != nil {
			return fmt.Errorf("open the store: %w", err)
		}
		for _, d := range h.state.store.Damage() {
			h.log.Error("the store is damaged", "err", d)
		}
		if h.shared, err = openShared(ctx, h.state.store, h.cfg.Store); err != nil {
			return err
		}
		for _, item := range h.sharedHealth() {
			h.log.Warn(item.Text, obs.KeyAction, "open", "do", item.Hint)
		}
	}
	var err error
	h.state.sessions, err = session.Open(ctx, h.state.store, o)
	return err
}

// isStoreShared reports whether other hubs can use the store.
func (h *Hub) isStoreShared() bool { return h.data != nil && !h.state.store.Alone() }

// StoreDir is the folder of the store inside a data folder.
func StoreDir(data string) string { return filepath.Join(data, "js") }

func sessionOptions(cfg *config.Config) session.Options {
	s := cfg.Session
	return session.Options{Timeout: s.Timeout, MaxAge: s.MaxAge, MaxValues: s.MaxValues, MaxBytes: s.MaxBytes, History: s.History, Max: s.Max}
}

func storeOptions(c config.Store) (store.Options, error) {
	o := store.Options{URL: c.URL, Credentials: c.Credentials, Replicas: c.Replicas}
	if c.TLS == (config.StoreTLS{}) {
		return o, nil
	}
	o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLS.CA != "" {
		pem, err := os.ReadFile(c.TLS.CA)
		if err != nil {
			return o, fmt.Errorf("store.tls.ca: %w", err)
		}
		o.TLS.RootCAs = x509.NewCertPool()
		if !o.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return o, fmt.Errorf("store.tls.ca: %s holds no certificate in PEM form", c.TLS.CA)
		}
	}
	if c.TLS.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.TLS.Cert, c.TLS.Key)
		if err != nil {
			return o, fmt.Errorf("store.tls.cert: %w", err)
		}
		o.TLS.Certificates = []tls.Certificate{pair}
	}
	return o, nil
}

// temporary opens the store of a temporary hub.
func (s *state) temporary(ctx context.Context) (*store.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store != nil {
		return s.store, nil
	}
	dir, err := os.MkdirTemp("", "stoa-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for what this session keeps: %w", err)
	}
	st, err := store.Open(ctx, store.Options{Dir: dir})
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	s.store, s.temp = st, dir
	return st, nil
}

// storeState takes note of whether the store can be written to.
func (h *Hub) storeState(err error) {
	log := h.logger("store")
	switch {
	case errors.Is(err, store.ErrClosed): // by us
	case err != nil:
		log.Error("the store cannot be written to", obs.KeyErr, err)
		h.events.Emit(event.Record{Type: event.Health, Level: "error", Kind: healthStore, Data: err.Error()})
	default:
		log.Info("the store can be written to again")
		h.events.Emit(event.Record{Type: event.Health, Level: "info", Kind: healthStore})
	}
}

// recall returns the client of a connection that was there before the hub was
// started, so that it need not notice.
func (h *Hub) recall(id string, who *auth.Principal) *mcp.Client {
	return call.Recall(h.state.sessions, who, id)
}

// deleted forgets the Session of a connection that its client has ended: nobody
// can name it again.
func (h *Hub) deleted(c *mcp.Client) {
	h.forgetConnection(c.Connection)
	s := h.state.sessions.Find(c.Actor.Name(), c.Connection)
	if s == nil {
		return
	}
	if err := h.state.sessions.Remove(context.Background(), s); err != nil {
		h.log.Warn("the session of a connection that has ended could not be removed", "err", err)
	}
}

func (h *Hub) closeState() {
	if h.state.sessions != nil {
		h.state.sessions.Close()
	}
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	if h.state.store == nil {
		return
	}
	if err := h.state.store.Close(); err != nil {
		h.log.Warn("close the store", "err", err)
	}
	if h.state.temp != "" {
		os.RemoveAll(h.state.temp)
	}
}
