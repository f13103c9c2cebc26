package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
)

// fixtureExpectations are the same for every way to the fixture; prefix is what the merged face puts before names.
func fixtureExpectations(d dialect, prefix string, missingResource int) []expectation {
	withProgress := call(prefix+"test_tool_with_progress", nil)
	withProgress.Progress = true
	steps := []expectation{
		{"tools", awaitTools(prefix + "test_simple_text"), lists("tools", "name", prefix+"test_error_handling", prefix+"json_schema_2020_12_tool")},
		{"call", call(prefix+"test_simple_text", nil), saysText("This is a simple text response for testing.")},
		{"progress", withProgress, sawFirst(
			progress(100, func(p float64) string { return fmt.Sprintf("Completed step %.0f of 100", p) }, 0, 50, 100), mentions(""))},
		{"tool-error", call(prefix+"test_error_handling", nil), toolFails},
		{"unknown-tool", call(prefix+"no_such_tool", nil), fails(-32602)},
		{"resources", step{Op: "resources"}, lists("resources", "uri", "test://static-text", "test://static-binary")},
		{"read", read("test://static-text"), reads("test://static-text", "This is the content of the static text resource.")},
		{"template", read("test://template/7/data"), reads("test://template/7/data", "7")},
		{"unknown-resource", read("nobody://no-such-resource"), fails(missingResource)},
		{"prompts", step{Op: "prompts"}, lists("prompts", "name", prefix+"test_simple_prompt", prefix+"test_prompt_with_arguments")},
		{"prompt", prompt(prefix+"test_prompt_with_arguments", map[string]any{"arg1": "olive", "arg2": "laurel"}), prompts("arg1='olive', arg2='laurel'")},
		{"unknown-prompt", prompt(prefix+"no_such_prompt", nil), fails(-32602)},
	}
	return append(steps, fixtureQuestions(d, prefix)...)
}

// fixtureQuestions are the calls during which the fixture asks the client. Each era asks in its own way, so each has
// its own tools.
func fixtureQuestions(d dialect, prefix string) []expectation {
	asked := func(method, message string) []sighting {
		return []sighting{{Kind: "asked", Method: method, Message: message}}
	}
	if d.version == modern {
		return []expectation{
			{"elicitation", call(prefix+"test_input_required_result_elicitation", nil),
				saw(asked("elicitation/create", "What is your name?"), saysText("Hello, Ada!"))},
			{"sampling", call(prefix+"test_input_required_result_sampling", nil),
				saw(asked("sampling/createMessage", ""), saysText("Sampling response: forty-two"))},
			{"roots", call(prefix+"test_input_required_result_list_roots", nil),
				saw(asked("roots/list", ""), saysText("Client exposed 1 root(s): file:///colonnade"))},
		}
	}
	return []expectation{
		{"elicitation", call(prefix+"test_elicitation", map[string]any{"message": "Who is there?"}),
			saw(asked("elicitation/create", "Who is there?"),
				saysText("Elicitation result: action=accept, content=map[name:Ada username:ada]"))},
		{"sampling", call(prefix+"test_sampling", map[string]any{"prompt": "What do you get?"}),
			saw(asked("sampling/createMessage", ""), saysText("LLM response: forty-two"))},
	}
}

// everythingExpectations hold for the published everything server, which is legacy: a modern client reaches it only
// because the hub translates.
func everythingExpectations(prefix string) []expectation {
	long := call(prefix+"trigger-long-running-operation", map[string]any{"duration": 0.2, "steps": 4})
	long.Progress = true
	return []expectation{
		{"tools", awaitTools(prefix + "echo"), lists("tools", "name", prefix+"get-sum", prefix+"get-structured-content")},
		{"call", call(prefix+"echo", map[string]any{"message": "ἀγορά 🏛 \u2028"}), saysText("Echo: ἀγορά 🏛 \u2028")},
		{"number", call(prefix+"get-sum", map[string]any{"a": 2, "b": 40}), saysText("The sum of 2 and 40 is 42.")},
		{"bad-arguments", call(prefix+"get-sum", map[string]any{"a": "two"}), toolFails},
		{"structured", call(prefix+"get-structured-content", map[string]any{"location": "Chicago"}), func(t *testing.T, o outcome) {
			var r toolResult
			decode(t, o, &r)
			if !strings.Contains(string(r.StructuredContent), `"temperature"`) {
				t.Errorf("structuredContent %s has no temperature", r.StructuredContent)
			}
		}},
		{"progress", long, sawFirst(progress(4, func(float64) string { return "" }, 1, 2, 3, 4),
			saysText("Long running operation completed. Duration: 0.2 seconds, Steps: 4."))},
		{"read", read("demo://resource/static/document/features.md"), reads("demo://resource/static/document/features.md", "#")},
		{"prompt", prompt(prefix+"args-prompt", map[string]any{"city": "Athens"}), prompts("Athens")},
	}
}

// everythingQuestions are the calls during which that server asks the client, in the way of its own era.
func everythingQuestions(prefix string) []expectation {
	ask := prefix + "trigger-elicitation-request"
	sample := prefix + "trigger-sampling-request"
	return []expectation{
		{"asking-tools", awaitTools(ask, sample), lists("tools", "name", ask, sample)},
		{"elicitation", call(ask, nil), saw(
			[]sighting{{Kind: "asked", Method: "elicitation/create", Message: "Please provide inputs for the following fields:"}},
			mentions("Ada"))},
		{"sampling", call(sample, map[string]any{"prompt": "What do you get?"}), saw(
			[]sighting{{Kind: "asked", Method: "sampling/createMessage"}}, mentions("forty-two"))},
	}
}

// TestTypeScriptSDKs has both generations of the TypeScript SDK use the same servers by every face of the hub.
func TestTypeScriptSDKs(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	servers := map[string]server{
		"fixture":    {Command: fixtureBinary(t)},
		"everything": published(set, t.TempDir(), filepath.Join(t.TempDir(), "graph.jsonl"))["everything"],
	}
	h := startHub(t, set, servers)
	faces := []struct {
		name   string
		merged bool
		to     func(t *testing.T, server string) target
	}{
		{"control", false, func(_ *testing.T, server string) target {
			return target{Command: servers[server].Command, Args: servers[server].Args}
		}},
		{"agent", false, func(_ *testing.T, server string) target { return target{URL: h.agent(server)} }},
		{"merged", true, func(*testing.T, string) target { return target{URL: h.merged()} }},
		{"stdio", true, func(t *testing.T, _ string) target { return stdioHub(t, h) }},
	}
	for _, d := range dialects {
		for _, face := range faces {
			t.Run(d.name+"/"+face.name+"/fixture", func(t *testing.T) {
				prefix, missing := "", -32602
				if face.merged {
					prefix = "fixture__"
				}
				if face.merged && d.name == "v1" {
					missing = -32002 // here the hub answers, in the words of the client's era; v2 says it in its own
				}
				perform(t, set, d, face.to(t, "fixture"), fixtureExpectations(d, prefix, missing))
			})
			t.Run(d.name+"/"+face.name+"/everything", func(t *testing.T) {
				prefix, d := "", d
				if face.merged {
					prefix = "everything__"
				}
				if face.name == "control" {
					d.version = legacy // nobody translates
				}
				expected := everythingExpectations(prefix)
				if d.version == legacy {
					expected = append(expected, everythingQuestions(prefix)...)
				}
				perform(t, set, d, face.to(t, "everything"), expected)
			})
		}
	}
}

// stdioHub is a second hub over the same servers, which the client starts as a child and which is one process.
func stdioHub(t testing.TB, h hub) target {
	return target{
		Command: stoaBinary(t),
		Args:    []string{"stdio", "--local", "--config", h.config},
		Env:     map[string]string{"STOA_DATA": filepath.Join(t.TempDir(), "data")},
	}
}
