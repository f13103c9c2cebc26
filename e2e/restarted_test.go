package e2e

import (
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/port"
)

// TestEverythingRestarted kills the unmodified server-everything, which answers unknown sessions by 400, again and again
// under eight clients of both eras that read its lists through the hub: all of them succeed. A server that takes longer
// to start than the hub waits for it is asked again, since the error says that this does no harm. The long form,
// STOA_SOAK=1, restarts it 50 times.
func TestEverythingRestarted(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	address := port.Address(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	env := append(environment(t, set), "PORT="+port)
	run := func() *process {
		p := start(t, env, set.node, set.bin("mcp-server-everything"), "streamableHttp")
		p.await(t, "it listens", func() error {
			conn, err := net.DialTimeout("tcp", address, time.Second)
			if err != nil {
				return err
			}
			return conn.Close()
		})
		return p
	}
	server0 := run()
	h := startHub(t, set, map[string]server{"everything": {URL: "http://" + address + "/mcp"}})
	done, visits := make(chan struct{}), atomic.Int64{}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			p := party{modern: i%2 == 1, path: "/mcps/everything/mcp", caps: "{}"}
			for {
				select {
				case <-done:
					return
				default:
				}
				n, err := p.visit(h)
				if err != nil && strings.Contains(err.Error(), `"retryable":true`) {
					continue
				}
				if err != nil || n == 0 {
					t.Errorf("client %d: %d tools, %v", i, n, err)
					return
				}
				visits.Add(1)
			}
		})
	}
	times := 2
	if os.Getenv("STOA_SOAK") != "" {
		times = 50
	}
	for range times {
		before := visits.Load()
		await.Until(t, "the clients read lists", func() bool { return visits.Load() > before+8 || t.Failed() })
		server0.end(t, syscall.SIGKILL)
		server0 = run()
	}
	before := visits.Load()
	await.Until(t, "the clients read lists after the last restart", func() bool { return visits.Load() > before+8 || t.Failed() })
	close(done)
	wg.Wait()
	t.Logf("%d visits over %d restarts", visits.Load(), times)
}
