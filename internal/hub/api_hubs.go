package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/relay"
	"github.com/stoahub/stoa/internal/roster"
)

// hubInfo is what the API tells of a hub.
type hubInfo struct {
	ID          string    `json:"id"`
	Self        bool      `json:"self"` // the one that answers
	Host        string    `json:"host"`
	Pid         int       `json:"pid"`
	Version     string    `json:"version"`
	Started     time.Time `json:"started"`
	Addresses   []string  `json:"addresses,omitempty"`
	State       string    `json:"state"` // ok, silent, or apart: it shares the store and cannot be asked
	Connections int       `json:"connections"`
	Calls       int       `json:"calls"` // that run now
	Runs        int       `json:"runs"`  // of plans, that it drives
	Turns       int       `json:"turns"` // of conversations, that it answers
	// StoreMs is how long the store takes to answer it.
	StoreMs float64  `json:"storeMs,omitempty"`
	Store   string   `json:"store,omitempty"`   // why it cannot write, if it cannot
	Differs []string `json:"differs,omitempty"` // the parts of the config that are other than here
}

// The states of hubs.
const (
	hubOK     = "ok"
	hubSilent = "silent"
	hubApart  = "apart"
)

// askTime bounds how long another hub may take to say what it has.
const askTime = 3 * time.Second

// ofOthers asks the other hubs on the store for the same as somebody asked this
// one, and hands their answers over as they come, one at a time. One that was
// itself asked by another hub asks nobody. query begins with ? or is empty.
func (h *Hub) ofOthers(r *http.Request, who *auth.Principal, query string, answered func(other roster.Hub, status int, body []byte, err error)) {
	list := h.peers.roster.Load()
	if list == nil || h.cluster.pass == nil || relay.Came(r) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, other := range list.Others() {
		wg.Go(func() {
			status, body, err := h.askHub(ctx, r, who, query, other.Process)
			mu.Lock()
			defer mu.Unlock()
			answered(other, status, body, err)
		})
	}
	wg.Wait()
}

// errApart means that a hub has no cluster key, so that nobody can ask it.
var errApart = errors.New("it has no cluster key")

func (h *Hub) askHub(ctx context.Context, r *http.Request, who *auth.Principal, query, process string) (int, []byte, error) {
	if process == "" {
		return 0, nil, errApart
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, "http://hub"+r.URL.EscapedPath()+query, nil)
	if err != nil {
		return 0, nil, fmt.Errorf("ask another hub: %w", err)
	}
	resp, err := h.cluster.pass.Client(process, who).Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(h.cfg.Limits.MessageBytes)))
	return resp.StatusCode, body, err
}

// mostMerged is how much of a list another hub is asked for.
const mostMerged = 1000

// merged adds what the other hubs have of the same list to what this one has, and
// says in the log which could not be asked.
func merged[T any](h *Hub, r *http.Request, who *auth.Principal, own []T, list func(body []byte) ([]T, error)) []T {
	h.ofOthers(r, who, "?limit="+strconv.Itoa(mostMerged), func(other roster.Hub, status int, body []byte, err error) {
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("it answered with status %d", status)
		}
		var theirs []T
		if err == nil {
			theirs, err = list(body)
		}
		if err != nil && !errors.Is(err, errApart) {
			h.log.Warn("another hub does not say what it has", obs.KeyAction, "ask", "host", other.Host, obs.KeyErr, err)
		}
		own = append(own, theirs...)
	})
	return own
}

// self is what this hub says of itself.
func (h *Hub) self() hubInfo {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	out := hubInfo{ID: h.id, Self: true, Host: host, Pid: os.Getpid(), Version: h.version, Started: h.started, Addresses: h.Addresses(), State: hubOK,
		Connections: h.connections.Len(), Calls: len(h.door.Running(func(string) bool { return true })), Runs: h.plans.runs.Driven()}
	if h.chat.engine != nil {
		out.Turns = h.chat.engine.Answering()
	}
	if st := h.state.store; st != nil {
		ctx, cancel := context.WithTimeout(context.Background(), askTime)
		defer cancel()
		if took, err := st.Round(ctx); err == nil {
			out.StoreMs = float64(took.Microseconds()) / 1000
		}
		if err := st.State(); err != nil {
			out.Store = err.Error()
		}
	}
	return out
}

// listHubs tells of the hubs on the store.
func (h *Hub) listHubs(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if _, err := query(r); err != nil {
		return err
	}
	if !who.Has(auth.RightSettings) {
		return &fault.Error{Kind: fault.Denied, Subject: "hubs", Msg: "only the owner of the hub may see the hubs", Hint: "Use the token of the data folder."}
	}
	out := []hubInfo{h.self()}
	h.ofOthers(r, who, "", func(other roster.Hub, status int, body []byte, err error) {
		info := hubInfo{ID: other.ID, Host: other.Host, Pid: other.Pid, Version: other.Version, Started: other.Started, Addresses: other.Addresses, State: hubSilent}
		var said struct{ Hubs []hubInfo }
		switch {
		case errors.Is(err, errApart):
			info.State = hubApart
		case err == nil && status == http.StatusOK && json.Unmarshal(body, &said) == nil && len(said.Hubs) == 1:
			info = said.Hubs[0]
			info.Self = false
		}
		self := h.peers.roster.Load().Self()
		info.Differs = self.Differs(&other)
		out = append(out, info)
	})
	slices.SortFunc(out, func(a, b hubInfo) int { return cmp.Or(strings.Compare(a.Host, b.Host), a.Started.Compare(b.Started)) })
	reply(w, http.StatusOK, map[string]any{"hubs": out})
	return nil
}
