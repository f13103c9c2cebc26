package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/proc"
)

// versions are all that the protocol ever had. They are written out, so that no library decides what is tested.
var versions = []string{"2024-11-05", "2025-03-26", "2025-06-18", legacy, modern}

const (
	simpleTool = "fixture__test_simple_text"
	simpleText = "This is a simple text response for testing."
)

// message is a JSON-RPC message as a client without an SDK writes it.
type message map[string]any

func request(id any, method string, params message) message {
	return message{"jsonrpc": "2.0", "id": id, "method": method, "params": params}
}

func initialize(version string) message {
	return request("hello", "initialize", message{
		"protocolVersion": version, "capabilities": message{}, "clientInfo": message{"name": "raw", "version": "1"},
	})
}

var initialized = message{"jsonrpc": "2.0", "method": "notifications/initialized"}

// modernly adds what each request of the modern era says of its client.
func modernly(m message) message {
	m["params"].(message)["_meta"] = message{
		"io.modelcontextprotocol/protocolVersion":    modern,
		"io.modelcontextprotocol/clientInfo":         message{"name": "raw", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": message{},
	}
	return m
}

// wire carries one client's messages. The outcome of a notification is empty.
type wire func(t *testing.T, m message) outcome

// TestVersions has a client without an SDK speak each version of the protocol over all transports of the hub.
func TestVersions(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	h := startHub(t, set, map[string]server{"fixture": {Command: fixtureBinary(t)}})
	for _, version := range versions {
		t.Run(version+"/http", func(t *testing.T) { converse(t, (&rawHTTP{url: h.merged(), version: version}).send, version) })
		t.Run(version+"/stdio", func(t *testing.T) { converse(t, rawStdio(t, set, h), version) })
		t.Run(version+"/ws", func(t *testing.T) { converse(t, rawSocket(t, h), version) })
	}
}

// converse greets as the version does, finds the tool and calls it.
func converse(t *testing.T, send wire, version string) {
	t.Helper()
	dress := modernly
	if version == modern {
		discovers(t, send(t, modernly(request("hello", "server/discover", message{}))))
	} else {
		dress = func(m message) message { return m }
		agrees(version)(t, send(t, initialize(version)))
		send(t, initialized)
	}
	awaitRaw(t, send, dress)
	saysText(simpleText)(t, send(t, dress(request(7, "tools/call", message{"name": simpleTool, "arguments": message{}}))))
	fails(-32602)(t, send(t, dress(request("eight", "tools/call", message{"name": "fixture__no_such_tool", "arguments": message{}}))))
}

// awaitRaw lists tools until the one that is called later is there: a hub starts its servers in the background.
func awaitRaw(t *testing.T, send wire, dress func(message) message) {
	t.Helper()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for deadline := time.Now().Add(listDeadline); ; <-tick.C {
		listing := send(t, dress(request(1, "tools/list", message{})))
		for _, name := range listed(t, listing, "tools", "name") {
			if name == simpleTool {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not listed in time: %.500s", simpleTool, listing.Result)
		}
	}
}

// agrees wants the answer to initialize to accept the version.
func agrees(version string) func(*testing.T, outcome) {
	return func(t *testing.T, o outcome) {
		t.Helper()
		var r struct{ ProtocolVersion string }
		decode(t, o, &r)
		if r.ProtocolVersion != version {
			t.Errorf("initialize agrees on %q, want %q", r.ProtocolVersion, version)
		}
	}
}

// discovers wants the answer to server/discover to offer the modern version.
func discovers(t *testing.T, o outcome) {
	t.Helper()
	if decode(t, o, &struct{}{}); !strings.Contains(string(o.Result), `"`+modern+`"`) {
		t.Errorf("server/discover does not offer %s: %s", modern, o.Result)
	}
}

// rawHTTP posts each message by itself. With forgetful set it sends back no session id.
type rawHTTP struct {
	url, version, session string
	forgetful             bool
}

func (c *rawHTTP) send(t *testing.T, m message) outcome {
	t.Helper()
	body, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	post, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	c.dress(post, m)
	response, err := client.Do(post)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if id := response.Header.Get("Mcp-Session-Id"); id != "" && !c.forgetful {
		c.session = id
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if m["id"] == nil {
		if response.StatusCode != http.StatusAccepted || len(text) != 0 {
			t.Errorf("%v: %s %q, want 202 without a body", m["method"], response.Status, text)
		}
		return outcome{}
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		text = lastEvent(text)
	}
	return answerTo(t, m, text)
}

// dress sets the headers that a client of the version sends: 2024-11-05 and 2025-03-26 know none of the protocol's but the session.
func (c *rawHTTP) dress(post *http.Request, m message) {
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Accept", "application/json, text/event-stream")
	if c.version >= "2025-06-18" && m["method"] != "initialize" {
		post.Header.Set("MCP-Protocol-Version", c.version)
	}
	if c.session != "" {
		post.Header.Set("Mcp-Session-Id", c.session)
	}
	if c.version == modern {
		post.Header.Set("Mcp-Method", m["method"].(string))
		if name, named := m["params"].(message)["name"].(string); named {
			post.Header.Set("Mcp-Name", name)
		}
	}
}

// lastEvent is the data of the last event of a stream, which is where the answer is.
func lastEvent(stream []byte) []byte {
	var last string
	for line := range strings.Lines(string(stream)) {
		if data, found := strings.CutPrefix(line, "data:"); found && strings.TrimSpace(data) != "" {
			last = data
		}
	}
	return []byte(last)
}

// rawStdio starts a hub of its own as a child and talks to it by pipes until the test ends.
func rawStdio(t *testing.T, set toolset, h hub) wire {
	t.Helper()
	to := stdioHub(t, h)
	// Not the test's own context, which ends before the clean-up that closes the pipe.
	ctx, cancel := context.WithTimeout(context.Background(), peerDeadline)
	cmd := exec.CommandContext(ctx, to.Command, to.Args...)
	cmd.Env = environment(t, set)
	for name, value := range to.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var said strings.Builder
	cmd.Stderr = &said
	in, out, err := proc.Start(cmd)
	if err != nil {
		cancel()
		t.Fatalf("start %s: %v", filepath.Base(to.Command), err)
	}
	t.Cleanup(func() {
		defer cancel()
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("stoa stdio: %v at the end of its input", err)
		}
		if t.Failed() {
			t.Logf("stoa stdio says:\n%s", said.String())
		}
	})
	return pipe(in, out)
}

// pipe carries messages by lines, one request at a time.
func pipe(in io.Writer, out *bufio.Reader) wire {
	return func(t *testing.T, m message) outcome {
		t.Helper()
		if err := json.NewEncoder(in).Encode(m); err != nil {
			t.Fatalf("write %v: %v", m["method"], err)
		}
		for m["id"] != nil {
			line, err := out.ReadBytes('\n')
			if err != nil {
				t.Fatalf("read the answer to %v: %v", m["method"], err)
			}
			var head struct{ Method string }
			if err := json.Unmarshal(line, &head); err != nil {
				t.Fatalf("a line that is no message: %q", line)
			}
			if head.Method == "" { // else it is a notification
				return answerTo(t, m, line)
			}
		}
		return outcome{}
	}
}

// answerTo reads the answer to a request, which has to have its id.
func answerTo(t *testing.T, m message, text []byte) outcome {
	t.Helper()
	var answer struct {
		ID any
		outcome
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("answer to %v: %v: %q", m["method"], err, text)
	}
	if fmt.Sprint(answer.ID) != fmt.Sprint(m["id"]) {
		t.Errorf("answer to %v has id %v, want %v", m["method"], answer.ID, m["id"])
	}
	return answer.outcome
}
