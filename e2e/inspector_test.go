package e2e

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
)

// TestInspector runs the Inspector's command line against both faces, in each way that it can negotiate.
func TestInspector(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	peers := published(set, t.TempDir(), filepath.Join(t.TempDir(), "graph.jsonl"))
	h := startHub(t, set, map[string]server{
		"fixture":    {Command: fixtureBinary(t)},
		"everything": peers["everything"],
	})
	for _, era := range []string{"legacy", "modern", "auto"} {
		t.Run(era, func(t *testing.T) {
			control := legacy
			if era != "legacy" {
				control = modern
			}
			t.Run("control", func(t *testing.T) { inspectFixture(t, set, era, fixtureHTTP(t, set, control), "") })
			t.Run("agent", func(t *testing.T) { inspectFixture(t, set, era, h.agent("fixture"), "") })
			t.Run("merged", func(t *testing.T) {
				inspectFixture(t, set, era, h.merged(), "fixture__")
				echoed := inspect(t, set, era, h.merged(),
					"--method", "tools/call", "--tool-name", "everything__echo", "--tool-args-json", `{"message":"chaire"}`)
				saysText("Echo: chaire")(t, echoed)
			})
		})
	}
}

func inspectFixture(t *testing.T, set toolset, era, url, prefix string) {
	t.Helper()
	tools := inspect(t, set, era, url, "--method", "tools/list")
	lists("tools", "name", prefix+"test_simple_text", prefix+"test_tool_with_progress")(t, tools)
	called := inspect(t, set, era, url, "--method", "tools/call", "--tool-name", prefix+"test_simple_text")
	saysText("This is a simple text response for testing.")(t, called)
	contents := inspect(t, set, era, url, "--method", "resources/read", "--uri", "test://static-text")
	reads("test://static-text", "This is the content")(t, contents)
	message := inspect(t, set, era, url,
		"--method", "prompts/get", "--prompt-name", prefix+"test_prompt_with_arguments", "--prompt-args", "arg1=olive", "arg2=laurel")
	prompts("arg1='olive', arg2='laurel'")(t, message)
}

// inspect runs one method and returns what the Inspector printed for it.
func inspect(t *testing.T, set toolset, era, url string, args ...string) outcome {
	t.Helper()
	flags := []string{"--cli", url, "--transport", "http", "--protocol-era", era, "--format", "json", "--quiet", "--stored-auth-only"}
	result := set.run(t, nil, set.bin("mcp-inspector"), append(flags, args...)...)
	if result.code != 0 {
		t.Fatalf("inspector %q: %v", args, result)
	}
	var o outcome
	if err := json.Unmarshal([]byte(result.stdout), &o); err != nil {
		t.Fatalf("inspector %q: decode its output: %v\n%v", args, err, result)
	}
	return o
}
