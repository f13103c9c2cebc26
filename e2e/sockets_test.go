package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stoahub/stoa/internal/hubtest"
)

func (h hub) socket() string { return "ws://" + h.address + "/mcp/ws" }

// dialSocket opens a WebSocket to the hub that is closed when the test ends.
func dialSocket(t *testing.T, h hub) *websocket.Conn {
	t.Helper()
	c, _, err := websocket.Dial(t.Context(), h.socket(), &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, Subprotocols: []string{"mcp"},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.SetReadLimit(16 << 20)
	t.Cleanup(func() { _ = c.CloseNow() }) // it may be closed already
	return c
}

// rawSocket carries messages by text frames, one request at a time.
func rawSocket(t *testing.T, h hub) wire {
	t.Helper()
	c := dialSocket(t, h)
	return func(t *testing.T, m message) outcome {
		t.Helper()
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Write(t.Context(), websocket.MessageText, text); err != nil {
			t.Fatalf("write %v: %v", m["method"], err)
		}
		for m["id"] != nil {
			_, frame, err := c.Read(t.Context())
			if err != nil {
				t.Fatalf("read the answer to %v: %v", m["method"], err)
			}
			var head struct{ Method string }
			if err := json.Unmarshal(frame, &head); err != nil {
				t.Fatalf("a frame that is no message: %q", frame)
			}
			if head.Method == "" { // else it is a notification
				return answerTo(t, m, frame)
			}
		}
		return outcome{}
	}
}

// socketTransport lets go-sdk's client, which has none of its own, speak over a WebSocket.
type socketTransport struct{ *websocket.Conn }

func (s socketTransport) Connect(context.Context) (mcp.Connection, error) {
	return socketConnection(s), nil
}

type socketConnection struct{ *websocket.Conn }

func (s socketConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	_, frame, err := s.Conn.Read(ctx)
	if websocket.CloseStatus(err) == websocket.StatusNormalClosure {
		return nil, io.EOF
	}
	if err != nil {
		return nil, err
	}
	return jsonrpc.DecodeMessage(frame)
}

func (s socketConnection) Write(ctx context.Context, m jsonrpc.Message) error {
	frame, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	return s.Conn.Write(ctx, websocket.MessageText, frame)
}

func (s socketConnection) Close() error { return s.Conn.CloseNow() }

func (s socketConnection) SessionID() string { return "" }

// TestVersionsByOfficialClients has clients of SDKs, each pinned to a version, speak all of them over all transports.
func TestVersionsByOfficialClients(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	h := startHub(t, set, map[string]server{"fixture": {Command: fixtureBinary(t)}})
	transports := map[string]func(t *testing.T) mcp.Transport{
		"http": func(t *testing.T) mcp.Transport {
			rt := &http.Transport{}
			t.Cleanup(rt.CloseIdleConnections)
			return &mcp.StreamableClientTransport{Endpoint: h.merged(), HTTPClient: &http.Client{Transport: rt}}
		},
		"stdio": func(t *testing.T) mcp.Transport {
			to := stdioHub(t, h)
			cmd := exec.Command(to.Command, to.Args...)
			cmd.Env = environment(t, set)
			for name, value := range to.Env {
				cmd.Env = append(cmd.Env, name+"="+value)
			}
			return &mcp.CommandTransport{Command: cmd}
		},
		"ws": func(t *testing.T) mcp.Transport { return socketTransport{dialSocket(t, h)} },
	}
	d := startDriver(t, set)
	for _, version := range versions {
		for name, transport := range transports {
			t.Run("go-sdk/"+version+"/"+name, func(t *testing.T) { useOfficially(t, transport(t), version) })
		}
		if version == modern {
			continue // the TypeScript SDK that has a WebSocket transport is v1, which does not speak it
		}
		t.Run("v1/"+version+"/ws", func(t *testing.T) {
			as := dialect{name: "v1", sdk: "v1", mode: "legacy", version: version, pinned: version}
			c := d.connect(t, as, target{URL: h.socket()})
			if names := c.Tools(t); !slices.Contains(names, simpleTool) {
				t.Errorf("listed: %q", names)
			}
			if o := c.Call(t, simpleTool, "{}"); o.Text != simpleText {
				t.Errorf("the tool says %+v", o)
			}
			if o := c.Call(t, "fixture__no_such_tool", "{}"); o.Code != -32602 {
				t.Errorf("a tool that is not there: %+v", o)
			}
		})
	}
}

// useOfficially connects go-sdk's client at a version, waits for the tool and calls it.
func useOfficially(t *testing.T, transport mcp.Transport, version string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), listDeadline)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "pinned", Version: "1"}, nil)
	session, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer session.Close()
	if got := session.InitializeResult().ProtocolVersion; got != version {
		t.Errorf("agreed on %s, want %s", got, version)
	}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for listed := false; !listed; <-tick.C { // a hub starts its servers in the background
		for tool, err := range session.Tools(ctx, nil) {
			if err != nil {
				t.Fatalf("list: %v", err)
			}
			listed = listed || tool.Name == simpleTool
		}
	}
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: simpleTool})
	if err != nil || len(result.Content) != 1 {
		t.Fatalf("call: %+v, %v", result, err)
	}
	if text, ok := result.Content[0].(*mcp.TextContent); !ok || text.Text != simpleText {
		t.Errorf("the tool says %+v", result.Content[0])
	}
	if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "fixture__no_such_tool"}); err == nil {
		t.Error("a tool that is not there was called")
	}
}
