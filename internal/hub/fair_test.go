package hub_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
)

// Clients share the agents' queues fairly, however many calls each has under
// way, nothing fails, and nothing is kept of what is over.
func TestAgentsAreShared(t *testing.T) {
	clients, agents, rounds := soak(16, 64), soak(2, 8), soak(3, 4)
	round := int64(soak(25, 90)) // calls of each client with each agent, in the mean
	// The log of a test is kept whole.
	edits := []hubtest.Edit{func(s *hubtest.Setup) { s.Options.Logger = slog.New(slog.DiscardHandler) }}
	for i := range agents {
		edits = append(edits, hubtest.HTTP(fmt.Sprintf("agent%d", i), worker(t), func(s *config.Server) {
			s.Queue = &config.Queue{Concurrency: 2, Capacity: 10 * clients, Timeout: time.Minute}
		}))
	}
	h := hubtest.New(t, edits...)
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4 * clients}}
	defer web.CloseIdleConnections()
	var over atomic.Bool
	var wg sync.WaitGroup
	done := make([][]atomic.Int64, clients)
	for i := range clients {
		done[i] = make([]atomic.Int64, agents)
		for a := range agents {
			url := fmt.Sprintf("%s/mcps/agent%d/mcp", h.URL, a)
			for range 1 + i%4 { // some want more at once than others
				wg.Go(func() {
					for !over.Load() {
						if answer := work(web, url, fmt.Sprintf("client%d", i)); !strings.Contains(answer, `"result"`) {
							t.Errorf("client %d, agent %d: %s", i, a, answer)
							return
						}
						done[i][a].Add(1)
					}
				})
			}
		}
	}
	var heaps []uint64
	for n := range int64(rounds) {
		for served := n * round; served < (n+1)*round; served++ {
			await.Until(t, "all agents serve", func() bool {
				for a := range agents {
					var sum int64
					for i := range clients {
						sum += done[i][a].Load()
					}
					if sum <= served*int64(clients) {
						return false
					}
				}
				return true
			})
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		heaps = append(heaps, m.HeapAlloc)
	}
	over.Store(true)
	wg.Wait()
	for a := range agents {
		var least, most, sum int64 = 1 << 62, 0, 0
		for i := range clients {
			n := done[i][a].Load()
			least, most, sum = min(least, n), max(most, n), sum+n
		}
		mean := float64(sum) / float64(clients)
		t.Logf("agent %d: %d calls, per client %d to %d, mean %.0f", a, sum, least, most, mean)
		slack := max(0.2*mean, 12) // of few calls, some are under way when it is over
		if float64(least) < mean-slack || float64(most) > mean+slack {
			t.Errorf("agent %d served its clients %d to %d times, mean %.0f", a, least, most, mean)
		}
	}
	t.Logf("heap after each round: %v", heaps)
	if first, last := heaps[0], heaps[len(heaps)-1]; last > first+first/2+8<<20 {
		t.Errorf("the heap grew: %v", heaps)
	}
}

// work makes one call on behalf of a Session, and keeps nothing of it.
func work(web *http.Client, url, session string) string {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work","arguments":{}}}`))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Stoa-Session", session)
	resp, err := web.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// worker is an agent that takes 2 ms for a call and remembers nothing, which
// test peers do.
func worker(t *testing.T) string {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.NewDecoder(r.Body).Decode(&m) != nil || m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result := `{"error":{"code":-32601,"message":"unknown"}`
		switch m.Method {
		case "initialize":
			result = `{"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"worker","version":"1"}}`
		case "tools/list":
			result = `{"result":{"tools":[{"name":"work","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			<-time.After(2 * time.Millisecond)
			result = `{"result":{"content":[]}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `%s,"jsonrpc":"2.0","id":%s}`, result, m.ID)
	}))
	t.Cleanup(web.Close)
	return web.URL
}
