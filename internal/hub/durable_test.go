package hub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/proc"
	"github.com/stoahub/stoa/internal/secret"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// durableEnv names the data folder of a hub; its presence makes the test binary
// that hub.
const durableEnv = "STOA_DURABLE_HUB"

// durableUp names the address of its upstream, calls of which become tasks.
const durableUp = "STOA_DURABLE_UPSTREAM"

// durableStore names the number of copies and the address of a store that it
// shares with others.
const durableStore = "STOA_DURABLE_STORE"

// durableKey is the key of the cluster; empty for none.
const durableKey = "STOA_DURABLE_KEY"

// durableTraces names the receiver of its traces and how it calls itself there.
const durableTraces = "STOA_DURABLE_TRACES"

// durableMain runs a hub until it is killed, if the process was started for
// that. It ends with its stdin too, so that none outlives the test.
func durableMain() {
	data := os.Getenv(durableEnv)
	if data == "" {
		return
	}
	cfg := config.Default()
	cfg.Listen, cfg.Data = []string{"127.0.0.1:0"}, data
	if up := os.Getenv(durableUp); up != "" {
		s := config.DefaultServer()
		s.Name, s.Title, s.URL, s.Task = "up", "up", up, config.TaskAlways
		cfg.Servers = append(cfg.Servers, s)
	}
	if n, url, ok := strings.Cut(os.Getenv(durableStore), " "); ok {
		cfg.Store.URL, cfg.Store.Replicas = url, len(n)
		cfg.Store.Key = secret.New(os.Getenv(durableKey))
	}
	if url, service, ok := strings.Cut(os.Getenv(durableTraces), " "); ok {
		cfg.Telemetry.Endpoint, cfg.Telemetry.Service = url, service
	}
	h, err := hub.Open(hub.Options{Config: &cfg, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Ready: func(addresses []string) { fmt.Println("http://" + addresses[0]) }})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	err = h.Run(ctx)
	h.Close()
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// durable is a hub in a process of its own that can be killed.
type durable struct {
	data string
	log  string // of all its lives
	up   string // the address of its upstream; empty for none
	on   string // durableStore; empty for a store of its own
	key  string // durableKey

	mu  sync.Mutex
	url string
	cmd *exec.Cmd
	in  io.Closer
}

func newDurable(t *testing.T) *durable { return newDurableOver(t, "") }

func newDurableOver(t *testing.T, up string) *durable { return newDurableOn(t, up, "") }

func newDurableOn(t *testing.T, up, on string) *durable {
	t.Helper()
	dir := t.TempDir()
	d := &durable{data: filepath.Join(dir, "data"), log: filepath.Join(dir, "log"), up: up, on: on}
	d.start(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the hubs say:\n%.8000s", d.said(t))
		}
	})
	return d
}

func (d *durable) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), durableEnv+"="+d.data, durableUp+"="+d.up, durableStore+"="+d.on, durableKey+"="+d.key)
	cmd.Stderr = log
	in, out, err := proc.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // most have been already
		_ = cmd.Wait()
	})
	line, err := out.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "http://") {
		t.Fatalf("the hub does not start: %q, %v\n%s", line, err, d.said(t))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.url, d.cmd, d.in = strings.TrimSpace(line), cmd, in
}

// newDurableIn is newDurableOver with the records in a form of store.
func newDurableIn(t *testing.T, up string, f storetest.Form) *durable {
	t.Helper()
	if f.Options.URL == "" {
		return newDurableOver(t, up)
	}
	return newDurableOn(t, up, strings.Repeat("|", max(f.Options.Replicas, 1))+" "+f.Options.URL)
}

// killOften kills so many times at random moments, while acked goes up to what is
// wanted: the hub, and where there is one every other time what leads a log, or
// both. What was killed is started anew.
func (d *durable) killOften(t *testing.T, f storetest.Form, log string, kills int, wanted int64, acked *atomic.Int64, rnd *rand.Rand) {
	t.Helper()
	for i := range kills {
		at := (int64(i)*wanted + rnd.Int64N(wanted)) / int64(kills)
		await.Until(t, fmt.Sprintf("%d are acknowledged", at), func() bool { return acked.Load() >= at || t.Failed() })
		leader, hub := f.Kill != nil && i%2 == 0, f.Kill == nil || i%4 != 0
		mend := func() {}
		if leader {
			mend = f.Kill(t, log)
		}
		if hub {
			d.kill(t)
		} else if f.GoesOn {
			now := min(acked.Load(), wanted-1)
			await.Until(t, "it goes on without the leader", func() bool { return acked.Load() > now || t.Failed() })
		}
		mend() // before the hub: it does not start without its store
		if hub {
			d.start(t)
		}
	}
}

// kill ends the hub as a crash would; stop asks it to end.
func (d *durable) kill(t *testing.T) {
	t.Helper()
	if err := d.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = d.cmd.Wait()
}

func (d *durable) stop(t *testing.T) {
	t.Helper()
	_ = d.in.Close()
	if err := d.cmd.Wait(); err != nil {
		t.Fatalf("the hub ended with %v", err)
	}
}

func (d *durable) address() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.url
}

func (d *durable) said(t *testing.T) string {
	b, err := os.ReadFile(d.log)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

// reply is what a built-in tool said.
type reply struct {
	Success bool
	Data    json.RawMessage
	Error   string
	Code    string
}

var (
	errRefused = errors.New("the tool said no")
	// errUnstored means that the hub could not ask its store, or got no answer.
	errUnstored = errors.New("the store does not answer")
)

// tool calls a built-in tool in a Session. An error that is not errRefused means
// that nobody knows what came of it.
func (d *durable) tool(c *http.Client, session, name, args string) (reply, error) {
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + hubtest.ToolParams(name, args) + `}`
	ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.address()+"/mcp", strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Stoa-Session", session)
	resp, err := c.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{}, err
	}
	if resp.StatusCode != http.StatusOK {
		return reply{}, fmt.Errorf("status %d: %.200s", resp.StatusCode, b)
	}
	if _, event, ok := bytes.Cut(b, []byte("data: ")); ok { // the only event of a stream
		b, _, _ = bytes.Cut(event, []byte("\n"))
	}
	m, err := hubtest.ParseMessage(b)
	if err != nil {
		return reply{}, err
	}
	var a reply
	if err := json.Unmarshal([]byte(m.Text()), &a); err != nil {
		return reply{}, fmt.Errorf("%s: %w: %.300s", name, err, m.Raw)
	}
	if a.Code == "STORAGE" {
		return a, fmt.Errorf("%w: %s", errUnstored, a.Error)
	}
	if !a.Success {
		return a, fmt.Errorf("%w: %s", errRefused, a.Error)
	}
	return a, nil
}

// value reads one value whole.
func (d *durable) value(c *http.Client, session, name string) (string, error) {
	a, err := d.tool(c, session, "context_get", `{"whole":true,"name":`+hubtest.Quote(name)+`}`)
	return string(a.Data), err
}

// A legacy client whose hub was killed goes on with its connection, and its
// values are there; so does one whose hub was stopped.
func TestConnectionOutlivesHub(t *testing.T) {
	hubtest.Parallel(t)
	d := newDurable(t)
	c := hubtest.Dial(t, d.address(), hubtest.ClientOptions{Era: hubtest.Legacy})
	if m := c.Tool("context_add", `{"name":"v","data":{"n":12345678901234567890}}`); !strings.Contains(m.Text(), `"success":true`) {
		t.Fatalf("%s", m.Raw)
	}
	for i, end := range []func(*testing.T){d.kill, d.stop, d.kill} {
		end(t)
		d.start(t)
		again := hubtest.Dial(t, d.address(), hubtest.ClientOptions{Era: hubtest.Legacy, Sessionless: true})
		again.Session = c.Session
		if m := again.Tool("context_get", `{"name":"v"}`); !strings.Contains(m.Text(), `"n":12345678901234567890`) {
			t.Fatalf("life %d: %s", i+2, m.Raw)
		}
	}
}

// A store that is damaged while the hub is away: the hub starts, says so, has
// what is intact and can be used.
func TestHubWithDamagedStore(t *testing.T) {
	hubtest.Parallel(t)
	d := newDurable(t)
	c := &http.Client{}
	defer c.CloseIdleConnections()
	const values = 60
	data := func(i int) string {
		return fmt.Sprintf(`{"n":%d,"pad":"%s"}`, i, strings.Repeat(string(rune('a'+i%26)), 2000))
	}
	for i := range values {
		if _, err := d.tool(c, "s", "context_add", fmt.Sprintf(`{"name":"v%d","data":%s}`, i, data(i))); err != nil {
			t.Fatal(err)
		}
	}
	d.stop(t)
	var blocks []string
	err := filepath.WalkDir(filepath.Join(d.data, "js"), func(path string, _ os.DirEntry, err error) error {
		if strings.Contains(path, filepath.Join("streams", "session", "msgs")) && strings.HasSuffix(path, ".blk") {
			blocks = append(blocks, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(blocks) == 0 {
		t.Fatal("the log of the sessions has no file")
	}
	b, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, []byte(strings.Repeat("h", 100))) // within v7 or one like it
	if at < 0 {
		t.Fatal("the values are not in the file")
	}
	b[at+10] ^= 0xFF
	if err := os.WriteFile(blocks[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	d.start(t)
	if !strings.Contains(d.said(t), "the store is damaged") {
		t.Error("nobody was told of the damage")
	}
	lost := 0
	for i := range values {
		got, err := d.value(c, "s", fmt.Sprint("v", i))
		switch {
		case err == nil && got == data(i):
		case errors.Is(err, errRefused):
			lost++
			t.Logf("v%d: %v", i, err)
		default:
			t.Errorf("v%d is %.100s, %v", i, got, err)
		}
	}
	if lost != 1 {
		t.Errorf("%d values are lost, one was damaged", lost)
	}
	for i := range values {
		if _, err := d.tool(c, "s", "context_add", fmt.Sprintf(`{"name":"v%d","data":%d}`, i, i)); err != nil {
			t.Fatalf("after the damage: %v", err)
		}
	}
	d.kill(t)
	d.start(t)
	for i := range values {
		if got, err := d.value(c, "s", fmt.Sprint("v", i)); err != nil || got != fmt.Sprint(i) {
			t.Errorf("v%d is %s, %v", i, got, err)
		}
	}
}

// An engine elsewhere goes away and comes back: a clear error that may be
// retried, what was stored can be referred to as far as it is in memory, and
// all works again by itself.
func TestHubWithoutItsStore(t *testing.T) {
	hubtest.Parallel(t)
	srv := storetest.StartServer(t)
	h := hubtest.New(t, hubtest.Modules(), hubtest.Config(func(c *config.Config) { c.Store.URL = srv.URL }))
	c := h.Client(t, hubtest.ClientOptions{Header: http.Header{"Stoa-Session": {"s"}}})
	add := func(name, data string) hubtest.Message {
		return c.Tool("context_add", `{"name":"`+name+`","data":`+data+`}`)
	}
	if m := add("v", `"before"`); !strings.Contains(m.Text(), `"success":true`) {
		t.Fatalf("%s", m.Raw)
	}
	srv.Kill()
	start := time.Now()
	m := add("w", `"lost"`)
	t.Logf("without its store, after %v: %s", time.Since(start), m.Raw)
	if !strings.Contains(m.Text(), `"code":"STORAGE"`) || !strings.Contains(m.Text(), "call again") || strings.Contains(m.Text(), `"success":true`) {
		t.Errorf("%s", m.Raw)
	}
	if m := c.Tool("context_get", `{"name":"v"}`); !strings.Contains(m.Text(), `before`) {
		t.Errorf("what is in memory: %s", m.Raw)
	}
	f := &figures{t: t, h: h}
	f.becomes("stoa_store_up", 0)
	if m := c.Tool("context_list", `{}`); strings.Contains(m.Text(), `"lost"`) || !strings.Contains(m.Text(), `"count":1`) {
		t.Errorf("half stored: %s", m.Raw)
	}
	srv.Restart(t)
	await.Until(t, "it works again", func() bool { return strings.Contains(add("w", `"after"`).Text(), `"success":true`) })
	f.becomes("stoa_store_up", 1)
	for name, want := range map[string]string{"v": "before", "w": "after"} {
		if m := c.Tool("context_get", `{"name":"`+name+`"}`); !strings.Contains(m.Text(), want) {
			t.Errorf("%s: %s", name, m.Raw)
		}
	}
}
