package hub

import (
	"context"
	"io"
	"log"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/upstream"
)

// readiness remembers the last look, so that asking often costs little.
type readiness struct {
	mu   sync.Mutex
	at   time.Time
	last report
}

type report struct {
	Ready     bool       `json:"ready"`
	Gateway   probed     `json:"gateway"`
	Upstreams []agentRow `json:"upstreams"`
	Pool      any        `json:"pool,omitempty"`
	Store     string     `json:"store"` // ok, failing, or none while nothing is kept
	Model     string     `json:"model"` // that conversations are held with, and what it lacks

	Health []healthItem `json:"health,omitempty"`
}

type probed struct {
	OK     bool    `json:"ok"`
	TookMs float64 `json:"tookMs"`
	Error  string  `json:"error,omitempty"`
}

type agentRow struct {
	Name   string   `json:"name"`
	State  string   `json:"state"`
	Eras   []string `json:"eras"`
	Stale  bool     `json:"stale"`
	Tools  int      `json:"tools"`
	List   probed   `json:"list"`
	Reason string   `json:"reason,omitempty"`
}

const (
	readyFor     = time.Second     // how long a look is good
	readyTimeout = 2 * time.Second // of one list
)

// readyz lists through every face, as a client would. The status is that of
// the hub itself; how each upstream does is in the body.
func (h *Hub) readyz(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
	rep := h.seenBy(who, h.look(r.Context()))
	status := http.StatusOK
	if !rep.Ready {
		status = http.StatusServiceUnavailable
	}
	reply(w, status, rep)
}

// seenBy is the report as somebody may see it: of the servers that it may use,
// and of the hub itself if it is its owner's.
func (h *Hub) seenBy(who *auth.Principal, rep report) report {
	if who.Name == auth.LocalName {
		return rep
	}
	rows := []agentRow{}
	for _, row := range rep.Upstreams {
		if h.knowsOf(who, row.Name) {
			s := upstream.Status{Name: row.Name, Tools: row.Tools}
			h.countFor(who, &s)
			row.Tools = s.Tools
			rows = append(rows, row)
		}
	}
	rep.Upstreams, rep.Pool, rep.Health = rows, nil, nil
	return rep
}

func (h *Hub) look(ctx context.Context) report {
	h.ready.mu.Lock()
	defer h.ready.mu.Unlock()
	if time.Since(h.ready.at) < readyFor {
		return h.ready.last
	}
	client := &mcp.Client{Era: mcp.Legacy, Version: mcp.LegacyVersion, Actor: actor.New(actor.Hub, auth.Owner)}
	rep := report{Pool: h.pool.Stats(), Store: h.storeWord(), Model: h.Model(), Health: h.health(), Upstreams: []agentRow{}}
	states := h.listed(auth.Owner)
	rows := make([]agentRow, len(states))
	var wg sync.WaitGroup
	for i, s := range states {
		wg.Go(func() { rows[i] = h.lookAt(ctx, client, s) })
	}
	wg.Wait()
	rep.Upstreams = append(rep.Upstreams, rows...)
	rep.Gateway = list(ctx, func(_ context.Context, req *mcp.Request) (mcp.Response, error) { return h.gateway.Peek(req) }, client)
	rep.Ready = rep.Gateway.OK
	h.ready.at, h.ready.last = time.Now(), rep
	return rep
}

func (h *Hub) lookAt(ctx context.Context, client *mcp.Client, s upstream.Status) (row agentRow) {
	defer func() { // nobody else guards the goroutine
		if p := recover(); p != nil {
			_ = obs.Stumbled(h.log, p, "a look at an upstream stumbled", obs.KeyUpstream, s.Name)
			row.List.Error = "the look made the hub stumble"
		}
	}()
	row = agentRow{Name: s.Name, State: string(s.State), Eras: s.Eras, Stale: s.Stale, Tools: s.Tools, Reason: s.Error}
	if s.State != upstream.Connected {
		// A look must not start what is at rest, nor wait for what is broken.
		row.List.Error = "not connected"
		return row
	}
	a, err := h.router.Agent(s.Name, auth.Owner)
	if err != nil {
		row.List.Error = err.Error()
		return row
	}
	row.List = list(ctx, a.Handle, client)
	return row
}

func list(ctx context.Context, ask func(context.Context, *mcp.Request) (mcp.Response, error), client *mcp.Client) probed {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	began := time.Now()
	resp, err := ask(ctx, &mcp.Request{Method: "tools/list", Client: client, Stream: mcp.Discard})
	defer resp.Release()
	p := probed{OK: err == nil, TookMs: float64(time.Since(began).Microseconds()) / 1000}
	switch {
	case err != nil:
		p.Error = err.Error()
	case resp.Error != nil && !strings.Contains(string(resp.Error), "-32601"):
		p.OK, p.Error = false, string(resp.Error)
	}
	return p
}

// httpLog passes what net/http has to say to the log, as details: most of it
// is about clients that went away.
func httpLog(l *slog.Logger) *log.Logger {
	if l == nil {
		return log.New(io.Discard, "", 0)
	}
	return slog.NewLogLogger(l.Handler(), slog.LevelDebug)
}
