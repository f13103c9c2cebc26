package blackbox

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/port"
)

// everything runs the unmodified server-everything over HTTP, which answers by
// 400 who comes with a session that it does not know. Without it the test is
// skipped, or fails if it must not be.
func everything(t *testing.T, address string) *exec.Cmd {
	t.Helper()
	script, err := filepath.Abs(filepath.Join(repository, ".tools", "npm", "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js"))
	if err != nil {
		t.Fatal(err)
	}
	node, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(script)
	}
	switch {
	case err != nil && os.Getenv("STOA_E2E") == "require":
		t.Fatalf("server-everything is not installed; run `make tools`: %v", err)
	case err != nil:
		t.Skipf("server-everything is not installed: %v", err)
	}
	cmd := exec.Command(node, script, "streamableHttp")
	_, number, _ := strings.Cut(address, ":")
	cmd.Env = append(os.Environ(), "PORT="+number)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await.NoError(t, "server-everything listens", func() error {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return cmd
}

// B4: a server that was restarted is used again with the next call.
func TestServerIsUsedAfterItsRestart(t *testing.T) {
	t.Parallel()
	address := port.Address(t)
	server := everything(t, address)
	end := func() {
		_ = server.Process.Signal(syscall.SIGKILL)
		_ = server.Wait() // it was killed
	}
	t.Cleanup(func() { end() })
	h := prepare(t, object{"everything": object{"url": "http://" + address + "/mcp"}})
	h.launch(t)
	echo := func(text string) string {
		return h.tool(t, "/mcp", h.owner, "everything__echo", object{"message": text}).text
	}
	await.Until(t, "the server is called", func() bool { return strings.Contains(echo("first"), "first") })
	for i := range 3 {
		end()
		server = everything(t, address)
		text := fmt.Sprint("again ", i)
		if got := echo(text); !strings.Contains(got, "Echo: "+text) {
			t.Fatalf("the first call after restart %d: %s", i+1, clip(got))
		}
		await.NoError(t, "the server is said to be connected", func() error {
			got := h.get(t, "/api/v1/servers", h.owner)
			var all struct {
				Servers []struct{ Name, State string }
			}
			if err := json.Unmarshal([]byte(got.text), &all); err != nil {
				return err
			}
			for _, s := range all.Servers {
				if s.Name == "everything" && s.State == "connected" {
					return nil
				}
			}
			return fmt.Errorf("%s", clip(got.text))
		})
	}
}

// B7: a client that comes before the tools of a server were read, and never
// looks again, has those that the server had before.
func TestFirstListIsWhole(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	open := func() {
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Error(err)
		}
	}
	open()
	files, l := upstream(t, slowVariable, gate)
	h := serve(t, object{"files": files})
	await.Until(t, "the hub lists its tools", func() bool { return slices.Contains(h.names(t, "/mcp", h.owner), "files__read") })
	h.process.stopped(t)
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(open)
	before := l.count(t, "tools/list")
	h.begin(t)
	await.Until(t, "the server is connected, and asked for its tools", func() bool { return l.count(t, "tools/list") > before })
	for _, path := range []string{"/mcp", "/s/work/mcp"} {
		mentions(t, "the list of "+path, h.post(t, path, h.owner, rpc("tools/list", object{})).text, `"name":"files__read"`)
		mentions(t, "a call at "+path, h.tool(t, path, h.owner, "files__read", object{}).text, "some text")
	}
}
