package plan

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func create(t *testing.T, text string) (*Plan, error) {
	t.Helper()
	var a struct {
		Title, Description      string
		AllowableActions        []Action
		Inputs, RequiredOutputs []Fact
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatal(err)
	}
	return Create(Goal{Title: a.Title, Description: a.Description, Actions: a.AllowableActions, Inputs: a.Inputs, Outputs: a.RequiredOutputs})
}

// deployment is the example of the gateway that plans come from, as it is there.
const deployment = `{
  "title": "Deploy Application",
  "description": "Complete deployment workflow",
  "allowableActions": [
    {"type": "build", "inputs": ["source"], "outputs": ["artifact"]},
    {"type": "test", "inputs": ["artifact"], "outputs": ["test_results"]},
    {"type": "deploy", "inputs": ["artifact", "test_results"], "outputs": ["deployment"]}
  ],
  "inputs": ["source_code"],
  "requiredOutputs": ["deployment"]
}`

func TestCreateDeployment(t *testing.T) {
	got, err := create(t, deployment)
	if err != nil {
		t.Fatal(err)
	}
	want := &Plan{
		Title: "Deploy Application", Description: "Complete deployment workflow",
		Inputs: []Input{{Name: "source_code"}},
		Steps: []Step{
			{ID: "step_1", Action: "build", Args: []byte(`{"source":"@source_code"}`), Outputs: []string{"artifact"}},
			{ID: "step_2", Action: "test", Args: []byte(`{"artifact":"@artifact"}`), Outputs: []string{"test_results"}},
			{ID: "step_3", Action: "deploy", Args: []byte(`{"artifact":"@artifact","test_results":"@test_results"}`), Outputs: []string{"deployment"}},
		},
		Outputs:     map[string]string{"deployment": "@deployment"},
		Assumptions: []string{"the input source of step_1 (build) is taken to be source_code, by the words of its name"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if problems := Check(got, nil); problems != nil {
		t.Error(problems)
	}
}

// TestCreatedPlansAreValid holds what is written to what is checked.
func TestCreatedPlansAreValid(t *testing.T) {
	for name, text := range map[string]string{
		"several outputs":   `{"allowableActions":[{"type":"split","inputs":["a"],"outputs":["left","right"]},{"type":"use","inputs":["right"],"outputs":["x"]}],"inputs":["a"],"requiredOutputs":["x","left"]}`,
		"an output again":   `{"allowableActions":[{"type":"p","inputs":["a"],"outputs":["log","x"]},{"type":"q","inputs":["x"],"outputs":["log","y"]}],"inputs":["a"],"requiredOutputs":["y"]}`,
		"an input again":    `{"allowableActions":[{"type":"p","inputs":["a"],"outputs":["a","x"]}],"inputs":["a"],"requiredOutputs":["x"]}`,
		"an output step_1":  `{"allowableActions":[{"type":"p","inputs":[],"outputs":["step_1"]}],"inputs":[],"requiredOutputs":["step_1"]}`,
		"an input step_1":   `{"allowableActions":[{"type":"p","inputs":["step_1"],"outputs":["x"]}],"inputs":["step_1"],"requiredOutputs":["x"]}`,
		"args and an input": `{"allowableActions":[{"type":"p","tool":"srv:p","inputs":["a"],"outputs":["x"],"args":{"mode":"fast"}}],"inputs":["a"],"requiredOutputs":["x"]}`,
		"nothing to do":     `{"allowableActions":[],"inputs":["a"],"requiredOutputs":["a"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			p, err := create(t, text)
			if err != nil {
				t.Fatal(err)
			}
			raw := args(p)
			if strings.Contains(string(raw), "null") {
				t.Errorf("null in %s", raw)
			}
			back, problems := Decode(raw)
			if problems == nil {
				problems = Check(back, nil)
			}
			if problems != nil {
				t.Errorf("%v\n%s", problems, raw)
			}
		})
	}
}

func TestCreateSays(t *testing.T) {
	for _, c := range []struct{ name, goal, want string }{
		{"what is missing", strings.Replace(deployment, `"source_code"`, `"money"`, 1), "deployment cannot be reached: deploy comes nearest, but lacks artifact, test_results; there would be a plan with source (for build)"},
		{"that nothing is wanted", strings.Replace(deployment, `"requiredOutputs": ["deployment"]`, `"requiredOutputs": []`, 1), "no output is required: there is nothing to plan"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := create(t, c.goal); err == nil || err.Error() != c.want {
				t.Errorf("got %v", err)
			}
		})
	}
	p, err := create(t, `{"allowableActions":[{"type":"a","inputs":[],"outputs":["x"]},{"type":"b","inputs":[],"outputs":["x"]}],"inputs":[],"requiredOutputs":["x"]}`)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"the required output x could as well come from b.x"}, p.Ties); d != "" {
		t.Error(d)
	}
}

func TestMermaid(t *testing.T) {
	p, err := create(t, deployment)
	if err != nil {
		t.Fatal(err)
	}
	got := Mermaid(p, func(step string) string {
		if step == "step_1" {
			return "done"
		}
		return ""
	})
	want := `flowchart TD
  s_step_1["step_1: build"]
  class s_step_1 done
  s_step_2["step_2: test"]
  s_step_3["step_3: deploy"]
  s_step_1 --> s_step_2
  s_step_1 --> s_step_3
  s_step_2 --> s_step_3
  s_step_3 --> out_s_deployment(["deployment"])
`
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
