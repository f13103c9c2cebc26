package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
)

// TestConformanceAsClient has the suite's servers judge the hub as their client. The suite runs a command for each
// scenario; that command is this test binary, which starts a hub over the scenario's server and has go-sdk's client do
// through the hub what the scenario asks of a client. Authorization is left out: it has no face in a hub's answers.
func TestConformanceAsClient(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	t.Run("control", func(t *testing.T) {
		for version, passed := range map[string]int{legacy: 20, modern: 62} {
			t.Run(version, func(t *testing.T) {
				got := judge(t, set, nil, "client", "--command", clientBinary(t), "--requirements", version)
				baseline{passed: passed}.hold(t, got.without("auth/"))
			})
		}
	})
	for cell, baseline := range asClient {
		t.Run(cell.version+"/"+cell.protocol, func(t *testing.T) {
			text, err := json.Marshal(relay{stoaBinary(t), clientBinary(t), cell.protocol})
			if err != nil {
				t.Fatal(err)
			}
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			limit := fmt.Sprint((relayDeadline + readyDeadline).Milliseconds())
			got := judge(t, set, []string{relayVariable + "=" + string(text)},
				"client", "--command", self, "--requirements", cell.version, "--timeout", limit)
			baseline.hold(t, got.without("auth/"))
		})
	}
}

const (
	// relayVariable makes the test binary a client of the conformance suite; it holds the JSON of a relay.
	relayVariable = "STOA_E2E_RELAY"
	// relayDeadline is below what the suite is told to wait, so that the relay can end its children.
	relayDeadline = 60 * time.Second
)

// relay is what the command that the suite runs needs to know.
type relay struct{ Stoa, Client, Protocol string }

// relayed runs one scenario and returns the exit code. It is no test: it runs in a process of the suite's.
func relayed(config string, args []string) int {
	if strings.HasPrefix(os.Getenv("MCP_CONFORMANCE_SCENARIO"), "auth/") {
		return 1
	}
	var r relay
	err := json.Unmarshal([]byte(config), &r)
	if err == nil {
		err = r.run(args[len(args)-1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		return 1
	}
	return 0
}

// run starts a hub over the scenario's server, has the client use it, and ends the hub.
func (r relay) run(url string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), relayDeadline)
	defer cancel()
	dir, err := os.MkdirTemp("", "stoa-relay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	text, err := json.Marshal(map[string]any{"stoa": 1, "servers": map[string]server{"x": {URL: url, Protocol: r.Protocol}}})
	if err != nil {
		return err
	}
	config, data := filepath.Join(dir, "stoa.json"), filepath.Join(dir, "data")
	if err := os.WriteFile(config, text, 0o600); err != nil {
		return err
	}
	hub := exec.CommandContext(ctx, r.Stoa, "serve", "--config", config, "--listen", "127.0.0.1:0", "--data", data)
	hub.Stdout, hub.Stderr = os.Stderr, os.Stderr
	if err := hub.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- hub.Wait() }()
	address, err := ready(data, ended)
	if err != nil {
		return err
	}
	client := exec.CommandContext(ctx, r.Client, "http://"+address+"/mcps/x/mcp")
	client.Stdout, client.Stderr = os.Stderr, os.Stderr
	err = client.Run()
	return errors.Join(err, hub.Process.Signal(syscall.SIGTERM), <-ended)
}

// ready waits until the hub answers, or has ended.
func ready(data string, ended <-chan error) (string, error) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return "", fmt.Errorf("the hub ended before it was ready: %w", err)
		case <-tick.C:
		}
		if n, err := readNote(data); err == nil && get("http://"+n.Address+"/readyz") == nil {
			return n.Address, nil
		}
	}
}
