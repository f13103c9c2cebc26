package hub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/mcp"
)

// fuzzHub is a hub without listeners, over one upstream.
func fuzzHub(f *testing.F) *hub.Hub {
	web := peer.Serve(f, peer.Spec{Tools: echoTool(), Resources: []peer.Resource{{URI: "mem://a"}}, Prompts: []peer.Prompt{{Name: "p"}}})
	s := hubtest.Default()
	s.Config.Data = f.TempDir() + "/data"
	s.Config.Limits.MessageBytes = 1 << 16
	s.Config.Limits.Sessions = 100
	hubtest.HTTP("up", web.URL)(s)
	s.Options.Config = &s.Config
	h, err := hub.Open(s.Options)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(h.Close)
	ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
	defer cancel()
	h.Settle(ctx)
	return h
}

// FuzzHTTPFace holds that whatever a client sends, it is answered: by a
// JSON-RPC message, by events that are such, or by an empty 202.
func FuzzHTTPFace(f *testing.F) {
	h := fuzzHub(f)
	handler, err := h.Handler(true)
	if err != nil {
		f.Fatal(err)
	}
	modern := &hubtest.Client{ClientOptions: hubtest.ClientOptions{Era: hubtest.Modern, Version: hubtest.ModernVersion, Capabilities: "{}"}}
	legacy := &hubtest.Client{ClientOptions: hubtest.ClientOptions{Era: hubtest.Legacy, Version: hubtest.LegacyVersion, Capabilities: "{}"}}
	for _, c := range []*hubtest.Client{modern, legacy} {
		for method, params := range map[string]string{
			"tools/list": "{}", "tools/call": hubtest.ToolParams("up__echo", `{"a":1}`), "resources/read": `{"uri":"mem://a"}`,
			"prompts/get": `{"name":"up__p"}`, "server/discover": "{}", "subscriptions/listen": `{"notifications":{}}`,
			"completion/complete": `{"ref":{"type":"ref/prompt","name":"up__p"},"argument":{"name":"a","value":"b"}}`,
			"initialize":          `{"protocolVersion":"2025-06-18","capabilities":{}}`, "logging/setLevel": `{"level":"info"}`,
		} {
			s := c.Request("1", method, params, `"progressToken":"t"`)
			f.Add(false, uint8(0), c.Version, method, s.Header.Get("Mcp-Name"), "", "application/json, text/event-stream", []byte(s.Body))
			f.Add(true, uint8(0), c.Version, method, s.Header.Get("Mcp-Name"), "x", "application/json", []byte(s.Body))
		}
	}
	f.Add(false, uint8(1), "", "", "", "x", "text/event-stream", []byte(""))
	f.Add(false, uint8(2), "", "", "", "x", "", []byte(""))
	f.Add(false, uint8(0), "2025-03-26", "", "", "", "", []byte(`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`))
	f.Fuzz(func(t *testing.T, agent bool, how uint8, version, method, name, session, accept string, body []byte) {
		verb := []string{"POST", "GET", "DELETE", "PUT"}[how%4]
		path := "/mcp"
		if agent {
			path = "/mcps/up/mcp"
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, verb, "http://localhost"+path, bytes.NewReader(body))
		for k, v := range map[string]string{"Mcp-Protocol-Version": version, "Mcp-Method": method, "Mcp-Name": name, "Mcp-Session-Id": session, "Accept": accept} {
			if v != "" {
				r.Header.Set(k, v)
			}
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if ctx.Err() != nil {
			t.Skip("a stream that stays open")
		}
		wellFormed(t, w)
	})
}

func wellFormed(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	b := w.Body.Bytes()
	ct := w.Header().Get("Content-Type")
	switch {
	case w.Code == http.StatusInternalServerError:
		t.Errorf("the hub stumbled: %s", b)
	case len(b) == 0:
		if w.Code != http.StatusAccepted && w.Code != http.StatusNoContent && w.Code != http.StatusOK {
			t.Errorf("status %d without a body", w.Code)
		}
	case strings.HasPrefix(ct, "text/event-stream"):
		for _, event := range strings.Split(string(b), "\n\n") {
			for _, line := range strings.Split(event, "\n") {
				if data, ok := strings.CutPrefix(line, "data: "); ok && data != "" {
					jsonRPC(t, []byte(data))
				}
			}
		}
	default:
		jsonRPC(t, b)
	}
}

// jsonRPC checks a message, or a batch of them.
func jsonRPC(t *testing.T, b []byte) {
	t.Helper()
	var batch []json.RawMessage
	if json.Unmarshal(b, &batch) != nil {
		batch = []json.RawMessage{b}
	}
	for _, m := range batch {
		if _, err := hubtest.ParseMessage(m); err != nil {
			t.Error(err)
		}
	}
}

// FuzzPipeFace holds the same for a client on a pipe: what is written are
// messages, one per line, and every request that can be told to be one is
// answered once.
func FuzzPipeFace(f *testing.F) {
	h := fuzzHub(f)
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"tools/list"}` + "\n" + `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"up__echo"}}` + "\n"))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}` + "\n"))
	f.Add([]byte("\n\r\n[]\nnonsense\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		// The writer is called by one goroutine at a time and by none after
		// the pipe was served.
		err := mcp.ServePipe(t.Context(), io.MultiReader(bytes.NewReader(in)), &out, auth.Local, h.Gateway(), mcp.PipeOptions{MessageBytes: 1 << 16})
		if err != nil {
			t.Errorf("serve: %v", err)
		}
		for _, line := range bytes.Split(bytes.TrimSuffix(out.Bytes(), []byte("\n")), []byte("\n")) {
			if len(line) > 0 {
				jsonRPC(t, line)
			}
		}
	})
}
