package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/port"
)

const (
	// readyDeadline bounds waiting for a process to serve; it is generous because a loaded machine starts Node slowly.
	readyDeadline = 90 * time.Second
	pollInterval  = 25 * time.Millisecond
)

// server is an entry of the hub's configuration.
type server struct {
	Command  string            `json:"command,omitempty"`
	Args     []string          `json:"args,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	URL      string            `json:"url,omitempty"`
	Protocol string            `json:"protocol,omitempty"` // auto when empty
	Sharing  string            `json:"sharing,omitempty"`  // all clients when empty
	Task     string            `json:"task,omitempty"`     // no tasks when empty
	Tools    map[string]any    `json:"tools,omitempty"`
	Queue    map[string]any    `json:"queue,omitempty"`
	Breaker  map[string]any    `json:"breaker,omitempty"`
	Timeout  int64             `json:"timeoutMs,omitempty"` // of a call; the hub's own when 0
}

// client has no idle connections, so that nothing outlives its test.
var client = &http.Client{
	Transport: &http.Transport{DisableKeepAlives: true},
	Timeout:   await.Patience,
}

// hub is a running `stoa serve`.
type hub struct {
	address string // host:port
	config  string // the configuration file, good for `stoa stdio` as well
	data    string // the data folder
}

func (h hub) merged() string             { return "http://" + h.address + "/mcp" }
func (h hub) agent(server string) string { return "http://" + h.address + "/mcps/" + server + "/mcp" }

// startHub runs the hub over the servers until the test ends, and waits until each of them lists its tools. Settings are
// further top-level keys of the configuration.
func startHub(t *testing.T, set toolset, servers map[string]server, settings ...map[string]any) hub {
	t.Helper()
	h, p := launch(t, environment(t, set), hub{config: writeConfig(t, servers, settings...), data: filepath.Join(t.TempDir(), "data"), address: port.Address(t)})
	for name := range servers {
		p.await(t, "server "+name+" lists its tools", func() error { return listsTools(h.agent(name)) })
	}
	return h
}

// launch runs the hub that h describes, at its address, until the test ends. After it has been ended it can be launched
// again, over what it left.
func launch(t *testing.T, env []string, h hub) (hub, *process) {
	t.Helper()
	p := start(t, env, stoaBinary(t), "serve", "--config", h.config, "--listen", h.address, "--data", h.data)
	p.await(t, "hub.json names the address", func() error {
		n, err := readNote(h.data)
		if err == nil && (n.Address == "" || n.Pid != p.pid) {
			err = errors.New("hub.json has no address")
		}
		if err == nil {
			h.address = n.Address
		}
		return err
	})
	for _, path := range []string{"/healthz", "/readyz"} {
		p.await(t, path+" answers 200", func() error { return get("http://" + h.address + path) })
	}
	return h, p
}

// note is what a hub says of itself in its data folder.
type note struct {
	Address string
	Pid     int
}

func readNote(data string) (n note, err error) {
	text, err := os.ReadFile(filepath.Join(data, "hub.json"))
	if err == nil {
		err = json.Unmarshal(text, &n)
	}
	return n, err
}

// pid is the hub's process.
func (h hub) pid(t *testing.T) int {
	t.Helper()
	n, err := readNote(h.data)
	if err != nil || n.Pid <= 1 {
		t.Fatalf("hub.json: %v: %+v", err, n)
	}
	return n.Pid
}

func writeConfig(t *testing.T, servers map[string]server, settings ...map[string]any) string {
	t.Helper()
	all := map[string]any{"stoa": 1, "servers": servers}
	for _, s := range settings {
		maps.Copy(all, s)
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "stoa.jsonc")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// resolvedFolder is a temporary folder for the filesystem server, which compares resolved paths: one may lie behind a
// link.
func resolvedFolder(t *testing.T) string {
	t.Helper()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

func get(url string) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return nil
}

func listsTools(url string) error {
	request := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`)
	response, err := client.Post(url, "application/json", request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var answer struct {
		Result struct {
			Tools []json.RawMessage `json:"tools"`
		} `json:"result"`
	}
	if err := json.Unmarshal(text, &answer); err != nil || len(answer.Result.Tools) == 0 {
		return fmt.Errorf("POST %s: tools/list: %s: %.300s", url, response.Status, text)
	}
	return nil
}

// process is a child that ends with its test and whose output is shown when the test fails.
type process struct {
	name   string
	pid    int
	output string // file of stdout and stderr
	done   chan struct{}
}

// start runs a program until the test ends. Then it is asked to end with SIGTERM, and has to.
func start(t *testing.T, env []string, program string, args ...string) *process {
	t.Helper()
	p := &process{name: filepath.Base(program), done: make(chan struct{})}
	output, err := os.Create(filepath.Join(t.TempDir(), p.name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	p.output = output.Name()
	cmd := exec.Command(program, args...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		output.Close()
		t.Fatalf("start %s: %v", p.name, err)
	}
	p.pid = cmd.Process.Pid
	go func() {
		defer close(p.done)
		defer output.Close()
		// How it ended is in the output; that it ended is what stop looks at.
		_ = cmd.Wait()
	}()
	t.Cleanup(func() { p.stop(t, cmd.Process) })
	return p
}

// end sends the process a signal that it does not survive, and waits until it is gone.
func (p *process) end(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(p.pid, signal); err != nil {
		t.Fatalf("end %s: %v", p.name, err)
	}
	select {
	case <-p.done:
	case <-time.After(readyDeadline):
		t.Fatalf("%s did not end", p.name)
	}
}

func (p *process) stop(t *testing.T, child *os.Process) {
	_ = child.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(readyDeadline):
		t.Errorf("%s did not end after SIGTERM", p.name)
		_ = child.Kill()
		<-p.done
	}
	text := p.text()
	if strings.Contains(text, "WARNING: DATA RACE") {
		t.Errorf("%s: the race detector found a data race", p.name)
	}
	if t.Failed() {
		t.Logf("output of %s:\n%s", p.name, text)
	}
}

// text is the end of what the process printed.
func (p *process) text() string {
	const most = 64 << 10
	text, err := os.ReadFile(p.output)
	if err != nil {
		return err.Error()
	}
	if len(text) > most {
		text = append([]byte("…"), text[bytes.IndexByte(text[len(text)-most:], '\n')+len(text)-most:]...)
	}
	return string(text)
}

// await polls until check passes, the process ends or readyDeadline is over.
func (p *process) await(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.NewTimer(readyDeadline)
	defer deadline.Stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-p.done:
			t.Fatalf("%s ended before %s:\n%s", p.name, what, p.text())
		case <-deadline.C:
			t.Fatalf("%s: waiting until %s: %v", p.name, what, err)
		case <-tick.C:
		}
	}
}
