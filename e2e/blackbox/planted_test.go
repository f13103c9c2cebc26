package blackbox

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// listener is a receiver of traces that keeps every byte.
type listener struct {
	*httptest.Server
	mu   sync.Mutex
	text strings.Builder
	n    int
}

func newListener(t *testing.T) *listener {
	l := &listener{}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("traces: %v", err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.text.Write(b)
		l.n++
	}))
	t.Cleanup(l.Close)
	return l
}

func (l *listener) said() (string, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String(), l.n
}

// indiscreet answers every request with all that came with it, and fails.
func indiscreet(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":{"message":"bad credentials: %s %s","type":"x"}}`, r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A secret in each place that can hold one is seen in no log, event, error,
// answer, metric, trace or page by anybody who may not see it.
func TestPlantedSecretsAreSeenNowhere(t *testing.T) {
	t.Parallel()
	planted := map[string]string{}
	plant := func(where string) string {
		planted[where] = fmt.Sprintf("planted-%d-%s-Zq7", len(planted), strings.ReplaceAll(where, " ", "-"))
		return planted[where]
	}
	files, _ := upstream(t, loudVariable, "1", "API_KEY", plant("the environment of a server"))
	bad := indiscreet(t)
	traces := newListener(t)
	servers := object{"files": files}
	folder := t.TempDir()
	h := &hub{folder: folder, config: filepath.Join(folder, "hub.jsonc"), data: filepath.Join(folder, "data"),
		env: []string{"PLANTED=" + plant("the environment of the hub"), "UPSTREAM_KEY=" + plant("a variable that the config names")}}
	h.configure(t, object{"files": files,
		"remote": object{"url": bad + "/mcp?key=" + plant("the address of a server"), "headers": object{"Authorization": "Bearer " + plant("a header of a server"), "X-Api-Key": "${UPSTREAM_KEY}"}}},
		object{"log": object{"level": "trace"}, "telemetry": object{"endpoint": traces.URL},
			"models": object{"default": "dear", "dear": object{"provider": "openai", "model": "m", "apiKey": plant("the key of a model"), "baseUrl": bad}}})
	h.launch(t)
	h.awaitTools(t, servers)
	planted["the owner's token"] = h.owner
	ann, bob := h.token(t, "ann"), h.token(t, "bob")
	planted["ann's token"] = ann

	// Ann uses everything; what passes is hers.
	args := plant("the arguments of a call")
	for _, face := range []string{"/mcp", "/s/anns/mcp"} {
		h.tool(t, face, ann, "files__read", object{"path": args})
		h.tool(t, face, ann, "files__write", object{"path": filepath.Join(folder, "nonesuch", args)})
		h.tool(t, face, ann, "nonesuch__x", object{"path": args})
		h.tool(t, face, ann, "remote__x", object{"path": args})
		h.tool(t, face, ann, "plan_execute", object{"plan": planOf(object{"id": "a", "tool": "files__read", "args": object{"path": args}})})
		h.tool(t, face, ann, "task_start", object{"tool": "files__read", "arguments": object{"path": args}})
	}
	h.tool(t, "/s/anns/mcp", ann, "context_add", object{"name": "v", "data": plant("a value of a session")})
	h.post(t, "/api/chat", ann, message(plant("what is said in a chat")))
	h.send(t, http.MethodPost, "/mcp", ann, http.Header{"X-Api-Key": {plant("a header of a client")}, "Cookie": {"a=" + plant("a cookie of a client")}}, rpc("tools/list", object{}))
	h.get(t, "/mcp", plant("a token that is wrong"))
	await.NoError(t, "traces are sent", func() error {
		if _, n := traces.said(); n == 0 {
			return fmt.Errorf("none yet")
		}
		return nil
	})

	paths := []string{"/api/v1/servers", "/api/v1/servers/files", "/api/v1/servers/remote", "/readyz", "/metrics", "/mcps", "/mcps/files", "/mcps/remote", "/healthz", "/", "/console/",
		"/api/v1/tools", "/api/v1/tools/files__read", "/api/v1/definitions", "/api/v1/logs?limit=1000", "/api/v1/errors", "/api/v1/errors/export", "/api/v1/errors/kinds", "/api/v1/config", "/api/v1/events?wait=1ms&limit=1000",
		"/api/v1/pulse", "/api/v1/exchanges/export", "/api/v1/sessions", "/api/v1/sessions/anns", "/api/v1/sessions/anns/export", "/api/v1/tasks", "/api/v1/runs", "/api/v1/plans", "/api/v1/approvals", "/api/v1/approvals/remembered",
		"/api/v1/modules", "/api/v1/sign-ins", "/api/files"}
	for who, token := range map[string]string{"bob": bob, "tokenless": ""} {
		for _, path := range paths {
			text := h.get(t, path, token).text
			for where, secret := range planted {
				lacks(t, who+" is shown "+where+" at "+path, text, secret)
			}
		}
		for _, tool := range []string{"context_list", "read_logs", "task_list", "plan_status", "module_list"} {
			text := h.tool(t, "/s/anns/mcp", token, tool, object{}).text
			for where, secret := range planted {
				lacks(t, who+" is shown "+where+" by "+tool, text, secret)
			}
		}
	}
	// To the owner too nothing is shown that lets somebody in elsewhere.
	keys := []string{"the environment of a server", "the environment of the hub", "a variable that the config names", "a header of a server", "the key of a model", "the owner's token", "ann's token", "a token that is wrong", "a header of a client", "a cookie of a client"}
	for _, path := range paths {
		text := h.get(t, path, h.owner).text
		for _, where := range keys {
			lacks(t, "the owner is shown "+where+" at "+path, text, planted[where])
		}
	}
	told, _ := traces.said()
	for where, secret := range planted {
		lacks(t, "traces tell "+where, told, secret)
	}
	logs := h.process.stopped(t)
	err := filepath.WalkDir(filepath.Join(h.data, "logs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		logs += string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(logs, "files__read") && !strings.Contains(logs, `"read"`) {
		t.Errorf("the log tells of nothing: %s", clip(logs))
	}
	for where, secret := range planted {
		lacks(t, "the log tells "+where, logs, secret)
	}
}
