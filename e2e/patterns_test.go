package e2e

import (
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
)

// TestPatterns has a raw client do what widely used hosts do though the protocol does not foresee it.
func TestPatterns(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	h := startHub(t, set, map[string]server{"fixture": {Command: fixtureBinary(t)}})
	use := request(2, "tools/call", message{"name": simpleTool, "arguments": message{}})

	// ChatGPT greets, and then calls as if it had not been given a session.
	for _, version := range []string{"2025-03-26", "2025-06-18", legacy} {
		t.Run("session-forgotten/"+version, func(t *testing.T) {
			c := &rawHTTP{url: h.merged(), version: version, forgetful: true}
			agrees(version)(t, c.send(t, initialize(version)))
			saysText(simpleText)(t, c.send(t, use))
		})
	}

	// Claude Code asks on a pipe what the server speaks, and then greets in the legacy way on the same pipe.
	for _, version := range []string{"2025-06-18", legacy} {
		t.Run("discover-then-initialize/"+version, func(t *testing.T) {
			send := rawStdio(t, set, h)
			discovers(t, send(t, modernly(request("probe", "server/discover", message{}))))
			agrees(version)(t, send(t, initialize(version)))
			send(t, initialized)
			awaitRaw(t, send, func(m message) message { return m })
			saysText(simpleText)(t, send(t, use))
		})
	}
}

// TestMCPRemote puts the published bridge from stdio to HTTP between a client and the hub.
func TestMCPRemote(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	h := startHub(t, set, map[string]server{"fixture": {Command: fixtureBinary(t)}})
	for _, face := range []struct{ name, url, prefix string }{
		{"control", fixtureHTTP(t, set, legacy), ""},
		{"agent", h.agent("fixture"), ""},
		{"merged", h.merged(), "fixture__"},
	} {
		for _, d := range dialects[:2] {
			t.Run(face.name+"/"+d.name, func(t *testing.T) {
				missing := -32602
				if face.prefix != "" && d.name == "v1" {
					missing = -32002 // here the hub answers, in the words of the client's era; v2 says it in its own
				}
				perform(t, set, d, target{
					Command: set.node,
					Args:    []string{set.bin("mcp-remote"), face.url, "--transport", "http-only"},
				}, fixtureExpectations(d, face.prefix, missing))
			})
		}
	}
}
