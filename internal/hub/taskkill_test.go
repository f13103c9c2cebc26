package hub_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// errNoAnswer means that nobody knows what came of a request.
var errNoAnswer = errors.New("no answer came")

// modern makes a request of a client that knows tasks.
func (d *durable) modern(c *http.Client, method, name, params string) (hubtest.Message, error) {
	const prefix = `"io.modelcontextprotocol/`
	body := `{"jsonrpc":"2.0","id":1,"method":` + hubtest.Quote(method) + `,"params":` + strings.TrimSuffix(params, "}") +
		`,"_meta":{` + prefix + `protocolVersion":"2026-07-28",` + prefix + `clientCapabilities":` + tasksCapability + `}}}`
	ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.address()+"/mcp", strings.NewReader(body))
	if err != nil {
		return hubtest.Message{}, err
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name} {
		req.Header.Set(k, v)
	}
	resp, err := c.Do(req)
	if err != nil {
		return hubtest.Message{}, fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || len(b) == 0 {
		return hubtest.Message{}, fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	if _, event, ok := bytes.Cut(b, []byte("data: ")); ok {
		b, _, _ = bytes.Cut(event, []byte("\n"))
	}
	m, err := hubtest.ParseMessage(b)
	if err != nil {
		return m, fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	return m, nil
}

// unstored reports whether the hub refused since its store did not answer.
func unstored(m hubtest.Message) bool { return strings.Contains(string(m.Raw), `"storage"`) }

// starter starts tasks and cancels some.
type starter struct {
	d     *durable
	http  *http.Client
	rnd   *rand.Rand
	acked *atomic.Int64
	most  float64 // seconds that a task takes
	tasks []startedTask
}

type startedTask struct {
	id, tool, name string
	cancelled      bool // somebody asked for it
}

var nextName atomic.Int64

func (s *starter) step() error {
	t := startedTask{tool: []string{"once", "again"}[s.rnd.IntN(2)], name: fmt.Sprintf("n%d.", nextName.Add(1))}
	m, err := s.d.modern(s.http, "tools/call", "up__"+t.tool, fmt.Sprintf(`{"name":"up__%s","arguments":{"name":%q,"seconds":%.3f}}`, t.tool, t.name, s.rnd.Float64()*s.most))
	switch {
	case errors.Is(err, errNoAnswer), err == nil && (strings.Contains(string(m.Raw), "has not been reached yet") || unstored(m)):
		return nil
	case err != nil:
		return err
	}
	if t.id = hubtest.Decode[aTask](m.Result).TaskID; t.id == "" {
		return fmt.Errorf("no task came: %s", m.Raw)
	}
	if s.rnd.IntN(5) == 0 {
		t.cancelled = true
		if m, err := s.d.modern(s.http, "tasks/cancel", t.id, `{"taskId":"`+t.id+`"}`); err == nil && m.Error != nil && !unstored(m) {
			return fmt.Errorf("cancel %s: %s", t.id, m.Raw)
		}
	}
	s.tasks = append(s.tasks, t)
	s.acked.Add(1)
	return nil
}

// check looks at what became of what was acknowledged.
func (s *starter) check(t *testing.T, web *peer.HTTPServer) (unknown int) {
	t.Helper()
	for _, one := range s.tasks {
		var got aTask
		await.Until(t, "task "+one.id+" ends", func() bool {
			m, err := s.d.modern(s.http, "tasks/get", one.id, `{"taskId":"`+one.id+`"}`)
			if err == nil && m.Error != nil {
				t.Fatalf("task %s is lost: %s", one.id, m.Raw)
			}
			got = hubtest.Decode[aTask](m.Result)
			return got.Status == "completed" || got.Status == "failed" || got.Status == "cancelled"
		})
		keys := sent(web, one.name)
		for _, k := range keys {
			if k == "" || k != keys[0] {
				t.Errorf("%s %s was sent under %q", one.tool, one.name, keys)
			}
		}
		switch {
		case one.tool == "once" && len(keys) > 1:
			t.Errorf("%s bears no repetition and was sent %d times", one.name, len(keys))
		case got.Status == "cancelled" && one.cancelled:
		case got.Status == "completed" && len(keys) > 0 && strings.Contains(string(got.Result), "computed"):
		case got.Status == "failed" && strings.Contains(string(got.Error), `"storage"`) && len(keys) == 0:
			unknown++ // its hub lived, and could not ask the store for what was to be sent
		case got.Status == "failed" && strings.Contains(string(got.Error), `"outcome_unknown"`) && (one.tool == "once" || strings.Contains(string(got.Error), "5 times")):
			unknown++ // what was to be sent need not have been; what takes the hub down again and again is given up
		default:
			t.Errorf("%s %s, sent %d times, is %s: %s %s", one.tool, one.name, len(keys), got.Status, got.Result, got.Error)
		}
	}
	return unknown
}

// sent are the keys under which the upstream was sent a call, by its name.
func sent(web *peer.HTTPServer, name string) (keys []string) {
	for _, r := range web.Requests() {
		if r.Method != "tools/call" || !bytes.Contains(r.Body, []byte(hubtest.Quote(name))) {
			continue
		}
		_, key, _ := bytes.Cut(r.Body, []byte(`"stoa/idempotencyKey":"`))
		key, _, _ = bytes.Cut(key, []byte(`"`))
		keys = append(keys, string(key))
	}
	return keys
}

// TestKilledHubWithTasks kills the hub at random moments under clients that
// start tasks. None that was acknowledged is lost; each has one end; what bears
// no repetition is sent once, and what is sent again is so under one key.
func TestKilledHubWithTasks(t *testing.T) {
	hubtest.Parallel(t)
	killedWithTasks(t, storetest.Folder(), soak(3, 60), soak(70, 3000))
}

func killedWithTasks(t *testing.T, f storetest.Form, kills, count int) {
	wanted, web := int64(count), taskPeer(t)
	d := newDurableIn(t, web.URL, f)
	var acked atomic.Int64
	starters, wait := startTasks(t, wanted, 0.05, &acked, d)
	d.killOften(t, f, "task", kills, wanted, &acked, rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 99)))
	wait()
	d.kill(t)
	d.start(t)
	unknown := 0
	for _, s := range starters {
		unknown += s.check(t, web)
	}
	t.Logf("%d tasks, of which %d of unknown outcome, %d kills", acked.Load(), unknown, kills+1)
}

// taskPeer is an upstream with a tool that bears no repetition and one that does.
func taskPeer(t *testing.T) *peer.HTTPServer {
	compute := peer.Behaviour{Kind: peer.Compute}
	return peer.Serve(t, peer.Spec{Era: peer.EraModern, Tools: []peer.Tool{
		{Name: "once", Behaviour: compute},
		{Name: "again", Behaviour: compute, RawDefinition: `{"name":"again","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}}`},
	}})
}

// startTasks has starters start tasks at the hubs, each at one of them, until so
// many were acknowledged. A task takes so many seconds at most.
func startTasks(t *testing.T, wanted int64, most float64, acked *atomic.Int64, hubs ...*durable) (starters []*starter, wait func()) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	var wg sync.WaitGroup
	starters = make([]*starter, 4)
	for i := range starters {
		s := &starter{d: hubs[i%len(hubs)], http: &http.Client{Transport: &http.Transport{}}, rnd: rand.New(rand.NewPCG(seed, uint64(i))), acked: acked, most: most}
		starters[i] = s
		t.Cleanup(s.http.CloseIdleConnections)
		wg.Go(func() {
			for acked.Load() < wanted {
				if err := s.step(); err != nil {
					t.Errorf("starter %d: %v", i, err)
					return
				}
			}
		})
	}
	return starters, wg.Wait
}

// TestTasksOfTwoHubs has two hubs on one store. One starts beside the other, whose
// tasks it leaves alone; one is killed for good, and the other takes its tasks up.
func TestTasksOfTwoHubs(t *testing.T) {
	hubtest.Parallel(t)
	if testing.Short() {
		t.Skip("a lease takes a while to end")
	}
	wanted := int64(soak(40, 1000))
	web, server := taskPeer(t), storetest.StartServer(t)
	a := newDurableOn(t, web.URL, "| "+server.URL)
	b := newDurableOn(t, web.URL, "| "+server.URL)
	var acked atomic.Int64
	starters, wait := startTasks(t, wanted, 2, &acked, a, b)
	for range 3 {
		b.stop(t)
		b.start(t) // beside the other, which is at work
	}
	await.Until(t, "half of them are begun", func() bool { return acked.Load() >= wanted/2 || t.Failed() })
	a.kill(t)
	wait()
	unknown := 0
	for _, s := range starters {
		s.d = b
		unknown += s.check(t, web)
	}
	t.Logf("%d tasks, of which %d of unknown outcome", acked.Load(), unknown)
}
