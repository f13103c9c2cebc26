package e2e

import (
	"encoding/json"
	"fmt"
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
// under eight clients of both eras that read its lists and call its tools through the hub. Whatever may be repeated
// succeeds: the hub does that, and a client has to repeat it at most once, if the server takes longer to start than the
// hub waits for it. What may not be repeated may be lost, but the server is given it once, and so is what succeeded at
// once. The long form, STOA_SOAK=1, restarts it 50 times.
func TestEverythingRestarted(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	address := port.Address(t)
	_, number, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	env := append(environment(t, set), "PORT="+number)
	between := newTally(t, address)
	run := func() *process {
		p := start(t, env, set.node, set.bin("mcp-server-everything"), "streamableHttp")
		p.await(t, "it listens", func() error {
			conn, err := net.DialTimeout("tcp", address, time.Second)
			if err != nil {
				return err
			}
			return conn.Close()
		})
		between.open(t)
		return p
	}
	server0 := run()
	h := startHub(t, set, map[string]server{"everything": {URL: "http://" + between.address + "/mcp", Breaker: map[string]any{"failures": 0}}})
	done := make(chan struct{})
	all := make([]caller, 8)
	var rounds atomic.Int64
	var wg sync.WaitGroup
	for i := range all {
		all[i] = caller{party: party{modern: i%2 == 1, path: "/mcps/everything/mcp", caps: "{}"}, hub: h, number: i, between: between}
		wg.Go(func() { all[i].work(t, done, &rounds) })
	}
	times := 2
	if os.Getenv("STOA_SOAK") != "" {
		times = 50
	}
	for i := 0; i < times && !t.Failed(); i++ {
		before := rounds.Load()
		await.Until(t, "the clients are at work", func() bool { return rounds.Load() > before+8 || t.Failed() })
		_ = syscall.Kill(server0.pid, syscall.SIGKILL) // under the calls that run
		between.close()
		server0.end(t, syscall.SIGKILL)
		server0 = run()
	}
	before := rounds.Load()
	await.Until(t, "the clients are at work after the last restart", func() bool { return rounds.Load() > before+8 || t.Failed() })
	close(done)
	wg.Wait()
	var sum caller
	for _, c := range all {
		sum.safe, sum.unsafe, sum.lost, sum.asked, sum.twice = sum.safe+c.safe, sum.unsafe+c.unsafe, sum.lost+c.lost, sum.asked+c.asked, sum.twice+c.twice
	}
	t.Logf("%d restarts: %d visits and repeatable calls succeeded, %d of them at the client's second attempt; the hub repeated %d calls; of %d others %d were lost, and none was made twice",
		times, sum.safe, sum.asked, sum.twice, sum.unsafe, sum.lost)
}

// caller is a client that visits the server, and calls a tool that may be repeated and one that may not.
type caller struct {
	party
	hub     hub
	number  int
	between *tally
	// What it has seen: what may be repeated, how often it asked again, and how often the server was given that twice;
	// what may not be, and how often that was lost.
	safe, asked, twice, unsafe, lost int
}

func (c *caller) work(t *testing.T, done <-chan struct{}, rounds *atomic.Int64) {
	for n := 0; ; n++ {
		select {
		case <-done:
			return
		default:
		}
		mark := fmt.Sprintf("%d.%d", c.number, n)
		err := c.again(func() error {
			listed, err := c.visit(c.hub)
			if err == nil && listed == 0 {
				err = fmt.Errorf("no tools are listed")
			}
			return err
		})
		if err == nil {
			asked := c.asked
			err = c.again(func() error { return c.call("echo", `{"message":"safe `+mark+`"}`, "Echo: safe "+mark) })
			if given := c.between.count("safe " + mark); err == nil && given > 1 && asked == c.asked {
				c.twice++
			}
		}
		if err != nil {
			t.Errorf("client %d: %v", c.number, err)
			return
		}
		c.unsafe++
		if err := c.call("toggle-subscriber-updates", `{"mark":"once `+mark+`"}`, "imulated"); err != nil {
			c.lost++
			if text := err.Error(); !strings.Contains(text, `"upstream_lost"`) && !strings.Contains(text, `"retryable":true`) ||
				strings.Contains(text, `"retryable":true`) && c.between.count("once "+mark) > 0 {
				t.Errorf("client %d: a call that may not be repeated, which the server was given %d times: %v", c.number, c.between.count("once "+mark), err)
			}
		}
		if given := c.between.count("once " + mark); given > 1 {
			t.Errorf("client %d: a call that may not be repeated was made %d times", c.number, given)
		}
		rounds.Add(1)
	}
}

// again does something once more if its error says that this does no harm.
func (c *caller) again(do func() error) error {
	c.safe++
	err := do()
	if err != nil && strings.Contains(err.Error(), `"retryable":true`) {
		c.asked++
		err = do()
	}
	return err
}

// call calls a tool without a session of the client's own, and wants its answer to say something.
func (c *caller) call(tool, args, want string) error {
	meta := ""
	if c.modern {
		meta = fmt.Sprintf(`,"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`, modernVersion)
	}
	answer, _, err := c.send(c.hub, "", fmt.Sprintf(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, tool, args, meta))
	if err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	var got struct {
		Result struct{ IsError bool }
		Error  json.RawMessage
	}
	if err := json.Unmarshal(answer, &got); err != nil || got.Error != nil || got.Result.IsError || !strings.Contains(string(answer), want) {
		return fmt.Errorf("%s: %v %s", tool, err, answer)
	}
	return nil
}
