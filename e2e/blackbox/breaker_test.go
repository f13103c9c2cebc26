package blackbox

import (
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// B17: who looks at the servers sees which calls are refused.
func TestOpenBreakersAreShown(t *testing.T) {
	t.Parallel()
	files, _ := withTools(t, `{"name":"break","inputSchema":{"type":"object"}}`)
	files["breaker"] = object{"failures": 2, "cooldown": "10m"}
	h := serve(t, object{"files": files})
	ask := func(args ...string) string {
		out, err := h.run(t, append(args, "--data", h.data, "--config", h.config)...)
		if err != nil { // `stoa doctor` fails where something needs a person
			out = err.Error()
		}
		return out
	}
	lacks(t, "`stoa servers` before", ask("servers"), "refused")
	await.Until(t, "calls of break are refused", func() bool {
		return strings.Contains(h.tool(t, "/mcp", h.owner, "files__break", object{}).text, "breaker_open")
	})
	for _, command := range []string{"servers", "doctor"} {
		said := ask(command)
		mentions(t, "`stoa "+command+"`", said, "calls of break")
		mentions(t, "`stoa "+command+"`", said, "refused")
	}
	mentions(t, "another tool of the server", h.tool(t, "/mcp", h.owner, "files__read", object{"path": "x"}).text, "some text")
}
