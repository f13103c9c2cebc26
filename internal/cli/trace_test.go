package cli

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/collector"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// program runs stoa until the test ends.
func program(t *testing.T, dir string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command("stoa", args...)
	cmd.Env = append(append(os.Environ(), "HOME="+dir, "GORACE=atexit_sleep_ms=0"), env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // it was told to end
		if t.Failed() {
			said, _ := os.ReadFile(log.Name())
			t.Logf("stoa %s says:\n%.4000s", args[0], said)
		}
	})
	return cmd
}

// traceHub runs a hub whose spans go to a receiver, and returns its address.
func traceHub(t *testing.T, r *collector.Receiver, name string, servers map[string]any) string {
	t.Helper()
	dir := t.TempDir()
	conf, data := filepath.Join(dir, "stoa.jsonc"), filepath.Join(dir, "data")
	text, err := json.Marshal(map[string]any{"stoa": 1, "servers": servers, "telemetry": map[string]any{"endpoint": r.URL, "service": name}})
	if err == nil {
		err = os.WriteFile(conf, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := program(t, dir, nil, "serve", "--config", conf, "--data", data, "--listen", "127.0.0.1:0")
	address := ""
	await.NoError(t, "the hub starts", func() error {
		note := noted(data)
		if note == nil || note.Pid != cmd.Process.Pid {
			return fmt.Errorf("it is not there")
		}
		address = note.Address
		return nil
	})
	return address
}

// One trace goes from a client through a hub, an agent's command, a second hub
// and a server, each a process of its own, and what the client says of it is
// carried all the way.
func TestOneTraceOfFiveProcesses(t *testing.T) {
	r := collector.New(t)
	command, args, env := peer.Command(peer.Spec{Tools: []peer.Tool{{Name: "params", Behaviour: peer.Do(peer.Params)}}})
	inner := traceHub(t, r, "inner", map[string]any{"up": map[string]any{"command": command, "args": args, "env": env}})
	host, port, err := net.SplitHostPort(inner)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	manifest := filepath.Join(dir, "agent.yaml")
	if err := os.WriteFile(manifest, []byte("agent: 1\nname: asker\ntools:\n  ask:\n    description: Asks the server behind the other hub.\n    command: [stoa, call, --agent, up, params]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	program(t, dir, []string{"ROUTER_HOST=" + host, "ROUTER_PORT=" + port, "OTEL_EXPORTER_OTLP_ENDPOINT=" + r.URL}, "agent", manifest, "--listen", address)
	await.NoError(t, "the agent listens", func() error {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err
	})
	outer := traceHub(t, r, "outer", map[string]any{"asker": map[string]any{"url": "http://" + address + "/mcp"}})
	c := hubtest.Dial(t, "http://"+outer, hubtest.ClientOptions{})
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	await.NoError(t, "the agent's tool is offered", func() error {
		if m := c.Call("tools/list", "{}"); !strings.Contains(string(m.Result), "asker__ask") {
			return fmt.Errorf("%s", m.Raw)
		}
		return nil
	})
	m := c.Tool("asker__ask", `{}`, hubtest.Meta(`"traceparent":"00-`+trace+`-`+parent+`-01","tracestate":"vendor=a1","baggage":"tenant=blue"`))
	of := func(service, name string) collector.Span {
		return r.Await(t, service+" tells of "+name, func(s collector.Span) bool {
			return s.Service == service && s.Name == name && s.Trace == trace && !s.Failed
		})
	}
	first, second, third := of("outer", "tools/call ask"), of("asker", "tools/call ask"), of("inner", "tools/call params")
	if first.Parent != parent || second.Parent != first.ID || third.Parent != second.ID {
		t.Errorf("outer %+v\nagent %+v\ninner %+v", first, second, third)
	}
	for _, s := range []collector.Span{first, second, third} {
		if s.State != "vendor=a1" {
			t.Errorf("the state of the trace at %s is %q", s.Service, s.State)
		}
	}
	for _, want := range []string{"00-" + trace + "-" + third.ID + "-01", "vendor=a1", "tenant=blue"} {
		if !strings.Contains(m.Text(), want) {
			t.Errorf("the server was not told %s: %s", want, m.Text())
		}
	}
	if others := r.Spans(func(s collector.Span) bool {
		return s.Trace == trace && s.ID != first.ID && s.ID != second.ID && s.ID != third.ID
	}); len(others) != 0 {
		t.Errorf("more is told of the call: %+v", others)
	}
}
