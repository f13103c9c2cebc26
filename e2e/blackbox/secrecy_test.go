package blackbox

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// A8: a token for some servers learns nothing of the others, and a secret of
// the config is told to nobody.

const secretKey = "s3cr3t-0f-the-c0nfig"

// loud is a hub with two servers that print their environment to stderr when
// they start, with a configured secret in it.
func loud(t testing.TB, settings ...object) *hub {
	t.Helper()
	files, _ := upstream(t, loudVariable, "1", "API_KEY", secretKey)
	other, _ := upstream(t, loudVariable, "1", "API_KEY", secretKey)
	h := serve(t, object{"files": files, "other": other}, settings...)
	await.NoError(t, "the servers' stderr is there", func() error {
		if text := h.get(t, "/api/v1/servers/files", h.owner).text; !strings.Contains(text, "environment:") {
			return fmt.Errorf("%s", clip(text))
		}
		return nil
	})
	return h
}

func TestServersTellNoSecret(t *testing.T) {
	t.Parallel()
	h := loud(t)
	scoped, all := h.token(t, "scoped", "--scope", "files"), h.token(t, "all")
	for who, token := range map[string]string{"scoped": scoped, "all": all, "owner": h.owner} {
		for _, path := range []string{"/api/v1/servers", "/api/v1/servers/files", "/api/v1/servers/other", "/readyz", "/mcps", "/mcps/files", "/api/v1/tools", "/api/v1/logs", "/api/v1/errors", "/api/v1/config", "/api/v1/events?wait=1ms", "/metrics"} {
			text := h.get(t, path, token).text
			lacks(t, who+" "+path, text, secretKey)
			if who == "scoped" {
				lacks(t, who+" "+path, text, "environment:")
			}
			if who == "scoped" && path != "/api/v1/servers/other" { // that answer names what was asked for
				lacks(t, who+" "+path, text, `"other"`)
			}
		}
	}
	if got := h.get(t, "/api/v1/servers/other", scoped); got.status != http.StatusNotFound {
		t.Errorf("a server out of scope: %d %s", got.status, got.text)
	}
	none := strings.ReplaceAll(h.get(t, "/api/v1/servers/nonesuch", scoped).text, "nonesuch", "other")
	if got := h.get(t, "/api/v1/servers/other", scoped).text; got != none {
		t.Errorf("a server out of scope is told from one that is not there: %s, %s", got, none)
	}
	for _, args := range [][]string{{"servers"}, {"servers", "--json"}, {"logs"}, {"errors"}} {
		out, err := h.run(t, append(args, "--data", h.data)...)
		if err != nil {
			out += err.Error()
		}
		lacks(t, "stoa "+strings.Join(args, " "), out, secretKey)
	}
}

func TestReadyzAndMetricsKeepToScopes(t *testing.T) {
	t.Parallel()
	h := loud(t)
	scoped, two, all := h.token(t, "scoped", "--scope", "files"), h.token(t, "two", "--scope", "files", "--scope", "ot*"), h.token(t, "all")
	ready := h.get(t, "/readyz", scoped).text
	mentions(t, "readyz", ready, `"files"`)
	lacks(t, "readyz for a scoped token", ready, "other")
	mentions(t, "readyz for the owner", h.get(t, "/readyz", h.owner).text, `"other"`)
	for who, token := range map[string]string{"scoped": scoped, "two": two} {
		if got := h.get(t, "/metrics", token); got.status != http.StatusForbidden {
			t.Errorf("%s: metrics: %d %s", who, got.status, clip(got.text))
		}
	}
	for who, token := range map[string]string{"all": all, "the owner": h.owner, "tokenless": ""} {
		if got := h.get(t, "/metrics", token); got.status != http.StatusOK {
			t.Errorf("%s: metrics: %d %s", who, got.status, clip(got.text))
		}
	}
	// None of these is about the servers of a token alone.
	for _, path := range []string{"/api/v1/logs", "/api/v1/events?wait=1ms", "/api/v1/errors", "/api/v1/config", "/api/v1/pulse", "/api/v1/exchanges/export", "/api/v1/errors/export"} {
		for who, token := range map[string]string{"scoped": scoped, "all": all} {
			if got := h.get(t, path, token); got.status != http.StatusForbidden {
				t.Errorf("%s: %s: %d %s", who, path, got.status, clip(got.text))
			}
		}
	}
}

func TestLogsAreTheOwners(t *testing.T) {
	t.Parallel()
	files, _ := upstream(t)
	h := serve(t, object{"files": files}, object{"log": object{"level": "trace"}})
	bob, debug := h.token(t, "bob"), h.token(t, "debugger", "--scope", "debug")
	h.leaveTraces(t, bob)
	for who, token := range map[string]string{"bob": bob, "debugger": debug} {
		lacks(t, who+"'s tools", strings.Join(h.names(t, "/mcp", token), " "), "read_logs")
		for _, path := range []string{"/mcp", "/s/x/mcp"} {
			got := h.tool(t, path, token, "read_logs", object{})
			mentions(t, who+" reads logs at "+path, got.text, "unknown_tool")
		}
		refused(t, who+" reads logs by a batch", onlyResult(h.tool(t, "/mcp", token, "tools_batch", object{"calls": list{object{"tool": "read_logs", "arguments": object{}}}})))
		refused(t, who+" reads logs by a plan", h.tool(t, "/mcp", token, "plan_execute", object{"plan": planOf(object{"id": "a", "tool": "read_logs"})}))
		refused(t, who+" reads logs of the module", h.tool(t, "/mcps/debug/mcp", token, "read_logs", object{}))
		if got := h.post(t, "/api/tools/read_logs", token, object{}); got.status != http.StatusNotFound {
			t.Errorf("%s reads logs by the API: %d %s", who, got.status, clip(got.text))
		}
	}
	for _, path := range []string{"/mcp", "/mcps/debug/mcp", "/s/x/mcp"} {
		lacks(t, "logs without a token at "+path, h.tool(t, path, "", "read_logs", object{"level": "trace", "limit": 1000}).text, "bob")
	}
}

// onlyResult makes the one failed call of a batch look like a call by itself.
func onlyResult(got reply) reply {
	if strings.Contains(got.text, `"failed":1`) || strings.Contains(got.text, `"error":{`) {
		got.text = `{"error":{}}`
	}
	return got
}

// leaveTraces lets somebody do all kinds of things in the session bobs-work,
// and waits until the log tells of it.
func (h *hub) leaveTraces(t testing.TB, token string) {
	t.Helper()
	const face = "/s/bobs-work/mcp"
	h.tool(t, face, token, "context_add", object{"name": "bobs", "data": "1"})
	h.tool(t, face, token, "files__read", object{"path": "x"})
	h.tool(t, face, token, "bobs__nonesuch", object{})
	h.tool(t, face, token, "files__write", object{"path": "/nonesuch/bobs"})
	h.tool(t, face, token, "plan_execute", object{"plan": planOf(object{"id": "bobs", "tool": "files__read"})})
	h.tool(t, face, token, "task_start", object{"tool": "files__read"})
	h.say(t, token, callOf("files__write", object{"path": "bobs"}), object{"sessionId": "bobs-work"})
	await.Until(t, "the log tells of what bob did", func() bool {
		return strings.Contains(h.get(t, "/api/v1/logs?limit=1000", h.owner).text, "bob")
	})
}
