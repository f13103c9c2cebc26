package plan

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/schema"
)

func create(t *testing.T, text string) (*Plan, error) {
	t.Helper()
	return createWith(t, text, nil)
}

func createWith(t *testing.T, text string, find Lookup) (*Plan, error) {
	t.Helper()
	var a struct {
		Title, Description      string
		AllowableActions        []Action
		Inputs, RequiredOutputs []Fact
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatal(err)
	}
	return Create(Goal{Title: a.Title, Description: a.Description, Actions: a.AllowableActions, Inputs: a.Inputs, Outputs: a.RequiredOutputs, Find: find})
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
		{"that there is nothing to do", `{"allowableActions":[],"inputs":["a"],"requiredOutputs":["a"]}`, "everything that is required is an input already: there is nothing to plan"},
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

// toolsOf finds tools as servers define them.
func toolsOf(name string) (Tool, error) {
	switch name {
	case "files__read":
		return Tool{Name: name, Input: &schema.Lazy{Raw: []byte(`{"type":"object","properties":{"path":{"type":"string"},"head":{"type":"number"}},"required":["path"]}`)},
			Output: []byte(`{"type":"object","properties":{"content":{"type":"string"}},"required":["content"]}`)}, nil
	case "files__write":
		return Tool{Name: name, Input: &schema.Lazy{Raw: []byte(`{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"]}`)}}, nil
	}
	return Tool{}, fault.New(fault.UnknownTool, name, "there is no tool %s", name)
}

// Plans of tools that have schemas pass what a run of them is held to, and their
// arguments are what the tools take.
func TestCreateFromSchemas(t *testing.T) {
	for _, c := range []struct{ name, goal, want string }{
		{"an output that is a member",
			`{"allowableActions":[{"type":"files__read","inputs":["path"],"outputs":["content"]},{"type":"copy","tool":"files__write","args":{"path":"b.txt"},"inputs":["content"],"outputs":["written"]}],"inputs":["path"],"requiredOutputs":["written"]}`,
			`{"path":"@path"} {"content":"@content.content","path":"b.txt"} @written`},
		{"a required output that is a member",
			`{"allowableActions":[{"type":"read","tool":"files__read","inputs":["path"],"outputs":["content"]}],"inputs":["path"],"requiredOutputs":["content"]}`,
			`{"path":"@path"} @content.content`},
		{"an input that args refer to",
			`{"allowableActions":[{"type":"read","tool":"files__read","args":{"path":"@source_path","head":5},"inputs":["source_path"],"outputs":["content"]}],"inputs":["source_path"],"requiredOutputs":["content"]}`,
			`{"head":5,"path":"@source_path"} @content.content`},
		{"a part of an input, in the midst of args",
			`{"allowableActions":[{"type":"read","tool":"files__read","args":{"path":"@where.paths[0]"},"inputs":["where"],"outputs":["content"]}],"inputs":["where"],"requiredOutputs":["content"]}`,
			`{"path":"@where.paths[0]"} @content.content`},
		{"what fills an input that args refer to",
			`{"allowableActions":[{"type":"read","tool":"files__read","inputs":["path"],"outputs":["content"]},{"type":"copy","tool":"files__write","args":{"path":"b.txt","content":"@text"},"inputs":["text"],"outputs":["written"]},{"type":"clean","inputs":["content"],"outputs":["text"]}],"inputs":["path"],"requiredOutputs":["written"]}`,
			`{"path":"@path"} {"content":"@content.content"} {"content":"@text","path":"b.txt"} @written`},
		{"an input under another name than the tool's",
			`{"allowableActions":[{"type":"read","tool":"files__read","inputs":["file_path"],"outputs":["content"]}],"inputs":["file_path"],"requiredOutputs":["content"]}`,
			`{"path":"@file_path"} @content.content`},
		{"an input that the tool does not take",
			`{"allowableActions":[{"type":"write","tool":"files__write","inputs":["path","text"],"args":{"content":"@text"},"outputs":["written"]},{"type":"read","tool":"files__read","inputs":["path","written"],"outputs":["content"]}],"inputs":["path","text"],"requiredOutputs":["content"]}`,
			`{"content":"@text","path":"@path"} {"path":"@path"} after step_1 @content.content`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := createWith(t, c.goal, toolsOf)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range p.Steps {
				got = append(got, string(s.Args))
				if s.After != nil {
					got = append(got, "after "+strings.Join(s.After, " "))
				}
			}
			for _, ref := range p.Outputs {
				got = append(got, ref)
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
			p.Steps = slices.DeleteFunc(p.Steps, func(s Step) bool { return s.Action == "clean" }) // it is no tool
			if problems := Preflight(p, toolsOf, nil); problems != nil {
				t.Error(problems)
			}
		})
	}
}

// Everything that is wrong with a plan is said at once, whatever is wrong.
func TestExamineSaysAll(t *testing.T) {
	const text = `{"steps":[
		{"id":"a","tool":"files__raed","args":{"path":"x"},"ouputs":["x"]},
		{"id":"b","tool":"files__read","outputs":["content"]},
		{"id":"c","tool":"files__write","args":{"path":7,"content":"@content"}},
		{"id":"d","tool":"files__read","args":{"path":"@nothing"},"retries":"three"},
		{"id":"e","after":["f"],"tool":"files__read","args":{"path":"@f"}},
		{"id":"f","tool":"files__read","args":{"path":"@e.content"}},
		{"id":"f","tool":"files__read","args":{"path":"x"}}],
		"outputs":{"x":"@b.content","y":"plain"}}`
	p, problems := Examine([]byte(text), nil, toolsOf)
	if p == nil {
		t.Fatal("nothing could be read of it")
	}
	said := map[string]string{}
	for _, one := range problems {
		said[one.Pointer] = one.Message + " " + one.Hint
	}
	for pointer, want := range map[string]string{
		"/steps/0/ouputs":       "outputs",
		"/steps/0/tool":         "files__raed cannot be called",
		"/steps/1/args/path":    "is required",
		"/steps/2/args/path":    "string",
		"/steps/2/args/content": "takes a string, and @content is an object: all that b yields Is @content.content meant?",
		"/steps/3/retries":      "integer",
		"/steps/3/args/path":    "refers to nothing",
		"/steps/4/args/path":    "takes a string, and @f is an object",
		"/steps/6/id":           "f is already the id of a step",
		"/outputs/y":            "",
	} {
		if got, ok := said[pointer]; !ok || !strings.Contains(got, want) {
			t.Errorf("%s: %q does not tell of %q", pointer, got, want)
		}
	}
	if t.Failed() {
		t.Log(said)
	}
	for name, text := range map[string]string{
		"no steps":            `{"steps":[]}`,
		"a circle and a tool": `{"steps":[{"id":"a","tool":"files__raed","args":{"path":"@b"}},{"id":"b","tool":"files__read","args":{"path":"@a"}}]}`,
	} {
		if _, problems := Examine([]byte(text), nil, toolsOf); len(problems) == 0 || name != "no steps" && len(problems) < 2 {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

// A plan that cannot be read at all is refused, and stumbled over by nobody.
func TestExamineRubbish(t *testing.T) {
	for _, text := range []string{``, `7`, `[]`, `{}`, `{"steps":7}`, `{"steps":[7,null,"x",[]]}`, `{"steps":[{"id":7}]}`, `{"steps":[{"id":"a","tool":"files__read","after":["a"]}]}`,
		`{"steps":[{"tool":"files__read","args":{"path":"@"}}],"outputs":[]}`, `{"steps":[{"id":"a","tool":"files__read","forEach":{"in":"@a","as":"a"}}]}`} {
		if _, problems := Examine([]byte(text), nil, toolsOf); len(problems) == 0 {
			t.Errorf("nothing is wrong with %s", text)
		}
	}
}

// Tools that take and yield the same are told apart by the words of the goal.
func TestCreateByWords(t *testing.T) {
	alike := func(name, about string) Action {
		return Action{Type: name, Inputs: []Fact{{Name: "path"}}, Outputs: []Fact{{Name: "content"}}, Cost: 1, About: about}
	}
	actions := []Action{alike("directory_tree", "Get a recursive tree of files"), alike("read_file", "Read the complete contents of a file. DEPRECATED"), alike("read_text_file", "Read the complete contents of a file")}
	for title, want := range map[string]string{"": "read_text_file", "Show the tree of a directory": "directory_tree"} {
		p, err := Create(Goal{Title: title, Actions: actions, Inputs: []Fact{{Name: "path"}}, Outputs: []Fact{{Name: "content"}}})
		if err != nil || p.Steps[0].Action != want {
			t.Errorf("%q: %v %+v", title, err, p)
		}
	}
}

// A text is wanted rather than a list of blocks, unless the words ask for those or
// a schema does; and where a schema is wanted, what contradicts it is no answer.
func TestCreatePlainText(t *testing.T) {
	read := func(name, schema, about string) Action {
		return Action{Type: name, Inputs: []Fact{{Name: "path"}}, Outputs: []Fact{{Name: "content", Schema: []byte(schema)}}, Cost: 1, About: about, Members: true}
	}
	media := read("read_media", `{"type":"array"}`, "Read a file and return its content as base64, with its MIME type, such as that of an image")
	text := read("read_text", `{"type":"string"}`, "Read the complete contents of a file")
	text.Cost = 1.05 // it failed now and then
	write := Action{Type: "write", Inputs: []Fact{{Name: "content"}, {Name: "target"}}, Outputs: []Fact{{Name: "written"}}}
	for _, c := range []struct{ title, wanted, schema, want string }{
		{"", "content", "", "read_text"},
		{"Read a file", "content", "", "read_text"},
		{"Summarise the document", "content", "", "read_text"},
		{"Read the image as base64", "content", "", "read_media"},
		{"", "content", `{"type":"array"}`, "read_media"},
		{"Read the image as base64", "content", `{"type":"string"}`, "read_text"},
		{"Copy notes", "written", "", "read_text write"},
	} {
		g := Goal{Title: c.title, Actions: []Action{media, text, write}, Inputs: []Fact{{Name: "path"}, {Name: "target"}}, Outputs: []Fact{{Name: c.wanted}}}
		if c.schema != "" {
			g.Outputs[0].Schema = []byte(c.schema)
		}
		p, err := Create(g)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		var got []string
		for _, s := range p.Steps {
			got = append(got, s.Action)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if p, err := Create(Goal{Actions: []Action{media}, Inputs: []Fact{{Name: "path"}}, Outputs: []Fact{{Name: "content", Schema: []byte(`{"type":"string"}`)}}}); err == nil {
		t.Errorf("a list is planned where a text is wanted: %+v", p)
	}
}
