package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/connection"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/relay"
)

// cluster is what lets any hub on a store answer any request: those that are about
// what another hub has are passed on. There is none without a cluster key.
type cluster struct {
	links  *connection.Book
	relay  *relay.Relay
	pass   *relay.Passer
	server *http.Server
}

// process is the name by which other hubs reach this one; empty if they cannot.
func (c *cluster) process() string {
	if c.relay == nil {
		return ""
	}
	return c.relay.Process()
}

// openCluster opens what hubs know of each other's connections.
func (h *Hub) openCluster() (err error) {
	if h.shared == nil {
		return nil
	}
	h.cluster.links, err = connection.Open(context.Background(), h.state.store, h.shared.key, h.process,
		connection.Options{Life: 2 * h.cfg.Limits.SessionIdle, Logger: h.logger("store"), Moved: func(id string) { h.connections.Leave(id) }})
	if err != nil {
		return err
	}
	h.opened(h.cluster.links.Close)
	return nil
}

// joinCluster lets the other hubs pass requests on to this one.
func (h *Hub) joinCluster() (err error) {
	if h.shared == nil {
		return nil
	}
	c := &h.cluster
	if c.relay, err = relay.Open(h.state.store, h.shared.key, h.process, relay.Options{Logger: h.logger("hubs")}); err != nil {
		return err
	}
	c.pass = relay.NewPasser(c.relay)
	handler, err := h.handler(auth.Options{Sender: relay.Sender, Verifier: h.tokens, Tickets: &h.tickets, Logger: h.logger("auth")})
	if err != nil {
		return fmt.Errorf("serve other hubs: %w", err)
	}
	h.desk.Join(h.board)
	c.server = &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, ErrorLog: httpLog(h.logger("http"))}
	h.opened(func() {
		_ = c.server.Close()
		_ = c.relay.Close()
	})
	h.wg.Go(func() {
		if err := c.server.Serve(c.relay); !errors.Is(err, http.ErrServerClosed) {
			h.log.Error("other hubs cannot pass requests on to this one", obs.KeyAction, "listen", obs.KeyErr, err)
		}
	})
	return nil
}

// shut lets no other hub pass anything on to this one any more.
func (c *cluster) shut() {
	if c.relay != nil {
		c.relay.Shut()
	}
}

// shutdown lets what was passed on end.
func (c *cluster) shutdown(ctx context.Context) {
	if c.server != nil && c.server.Shutdown(ctx) != nil {
		_ = c.server.Close()
	}
}

// storeTime bounds a write of what hubs know of connections.
const storeTime = 5 * time.Second

// keep is what the endpoint needs to share connections with other hubs.
func (h *Hub) keep() mcp.Keep {
	if h.shared == nil {
		return mcp.Keep{}
	}
	put := func(ctx context.Context, k mcp.Kept) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
		defer cancel()
		if err := h.cluster.links.Put(ctx, k.ID, h.record(k)); err != nil {
			h.log.Warn("a connection cannot be used at other hubs", obs.KeyAction, "connect", obs.KeyErr, err)
		}
	}
	return mcp.Keep{
		Opened: put, Changed: put, Elsewhere: h.elsewhere, Continue: h.continueElsewhere, Take: h.takeConnection,
		Ended: func(id string) { h.wg.Go(func() { h.forgetConnection(id) }) },
	}
}

// record is what is kept of a connection.
func (h *Hub) record(k mcp.Kept) connection.Record {
	who := k.Client.Actor.Principal()
	return connection.Record{Hub: h.id, Scope: k.Scope, Session: k.Session, Principal: who.Name, Via: string(who.Via), Token: who.Token,
		Version: k.Client.Version, Info: k.Client.Info, Capabilities: k.Client.Capabilities, Level: k.Client.LogLevel(), URIs: k.URIs}
}

// forgetConnection forgets one that has ended for good.
func (h *Hub) forgetConnection(id string) {
	if h.cluster.links == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	if err := h.cluster.links.Remove(ctx, id); err != nil {
		h.log.Warn("a connection that has ended stays known to other hubs for a while", obs.KeyAction, "connect", obs.KeyErr, err)
	}
}

// prolong keeps the connections that are open here.
func (h *Hub) prolong(ctx context.Context) {
	if h.cluster.links != nil {
		h.cluster.links.Prolong(ctx, h.connections.IDs())
	}
}

// of reports whether a connection is that of who asks: see mcp.Sessions.
func ofCaller(r *connection.Record, who *auth.Principal) bool {
	return r.Principal == who.Name && r.Via == string(who.Via) && r.Token == who.Token
}

// takeConnection returns a connection that this hub has and does not know any
// more, or has just taken from one that is gone.
func (h *Hub) takeConnection(id string, who *auth.Principal) *mcp.Kept {
	r, ok := h.cluster.links.Known(id)
	if !ok || !h.cluster.links.Mine(&r) || !ofCaller(&r, who) || mcp.EraOf(r.Version) != mcp.Legacy {
		return nil
	}
	c := &mcp.Client{Era: mcp.Legacy, Version: r.Version, Info: r.Info, Capabilities: r.Capabilities, Connection: id, Actor: actor.New(actor.HTTP, who)}
	c.WantLogs(r.Level)
	return &mcp.Kept{ID: id, Scope: r.Scope, Session: r.Session, Client: c, URIs: slices.Clone(r.URIs)}
}

// moves is how often a connection may be found to have moved while a request for
// it is passed on.
const moves = 4

// elsewhere has the hub that has a connection answer a request for it. Where that
// hub is gone this one takes the connection, and answers itself.
func (h *Hub) elsewhere(w http.ResponseWriter, r *http.Request, who *auth.Principal, id string, body []byte) bool {
	for range moves {
		rec, rev, ok, err := h.cluster.links.Find(r.Context(), id)
		switch {
		case err != nil:
			h.endpoint.RefuseRead(w, body, fault.Of(err))
			return true
		case !ok || !ofCaller(&rec, who):
			return false // the endpoint says that there is none
		case h.cluster.links.Mine(&rec):
			return false
		}
		if !relay.Came(r) {
			lost := error(nil)
			err = h.cluster.pass.Pass(w, r, who, rec.Process, body, func(_ http.ResponseWriter, err error) { lost = err })
			if err == nil && lost == nil {
				return true
			}
			if lost != nil && !mcp.BearsRepeating(body) {
				h.endpoint.RefuseRead(w, body, fault.New(fault.UpstreamLost, "", "the hub that had this connection went away during the request").Because(lost))
				return true
			}
		}
		if err := h.cluster.links.Take(r.Context(), id, rec, rev); err == nil {
			h.log.Info("a connection of a hub that is gone is taken up", obs.KeyAction, "connect", "hub", rec.Hub)
			return false
		} else if _, moved := errors.AsType[*journal.Conflict](err); !moved {
			h.endpoint.RefuseRead(w, body, fault.Of(err))
			return true
		}
	}
	h.endpoint.RefuseRead(w, body, fault.New(fault.Storage, "connections", "several hubs take up this connection at once"))
	return true
}

// continueElsewhere has the hub answer at which a call waits for the input that a
// client brings. If that hub is gone, the call is.
func (h *Hub) continueElsewhere(w http.ResponseWriter, r *http.Request, who *auth.Principal, state string, body []byte) bool {
	process := h.door.Holder(state, h.pool.Holder)
	if process == "" || process == h.process || relay.Came(r) {
		return false
	}
	err := h.cluster.pass.Pass(w, r, who, process, body, func(w http.ResponseWriter, err error) {
		h.endpoint.RefuseRead(w, body, fault.New(fault.UpstreamLost, "", "the hub at which the call waited went away").Because(err))
	})
	return err == nil
}
