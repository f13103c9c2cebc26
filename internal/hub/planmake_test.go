package hub_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/llm/llmtest"
	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/secret"
	"github.com/stoahub/stoa/internal/wire"
)

// TestPublishedPlan offers a plan as a tool, over a restart.
func TestPublishedPlan(t *testing.T) {
	hubtest.Parallel(t)
	web := peer.Serve(t, planSpec())
	data := t.TempDir()
	start := func() *hubtest.Hub {
		h := hubtest.New(t, hubtest.Modules(), hubtest.HTTP("up", web.URL), hubtest.Data(data))
		settled(t, h, "up")
		return h
	}
	h := start()
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy})
	x := c.Listen(`{"toolsListChanged":true}`)
	long := c.Go("tools/call", hubtest.ToolParams("plan_execute", `{"plan":{"steps":[{"id":"a","tool":"up__compute","args":{"seconds":`+fmt.Sprint(soak(1, 12))+`}}]}}`))
	await.Until(t, "a run is under way", func() bool { return slices.Contains(web.State().Called, "compute") })
	good(t, c.Tool("plan_create", `{"publish":"greet","plan":{"title":"Greet","inputs":[{"name":"who","schema":{"type":"string"}},{"name":"n","default":1}],"steps":[{"id":"a","tool":"up__echo","args":{"hello":"@who","n":"@n"}}],"outputs":{"said":"@a.hello"}}}`))
	x.Await("notifications/tools/list_changed")
	call := func(c *hubtest.Client) {
		t.Helper()
		list := string(c.Call("tools/list", "{}").Result)
		if !strings.Contains(list, `"plan__greet"`) || !strings.Contains(list, `"who":{"type":"string"}`) || !strings.Contains(list, `"required":["who"]`) {
			t.Fatalf("it is not listed with its inputs: %s", list)
		}
		if got := string(good(t, c.Tool("plan__greet", `{"who":"Ada"}`))); got != `{"said":"Ada"}` {
			t.Errorf("it answers %s", got)
		}
		if m := c.Tool("plan__greet", `{"who":7}`); m.Error == nil && envelope(t, m).Success {
			t.Errorf("an input that does not fit: %s", m.Raw)
		}
	}
	await.Until(t, "it is listed", func() bool { return has(t, c, "plan__greet") })
	call(c)
	if v := planRun(t, good(t, long.Response())); v.Status != plan.Finished {
		t.Errorf("a run that was under way when the tools changed: %+v", v)
	}
	h.Stop()
	h = start()
	call(h.Client(t, hubtest.ClientOptions{}))
}

// TestPlanOfTools plans with tools of the catalogue.
func TestPlanOfTools(t *testing.T) {
	hubtest.Parallel(t)
	h, web := keeping(t, planSpec())
	c := h.Client(t, hubtest.ClientOptions{Header: in("tools")})
	made := good(t, c.Tool("plan_create", `{"tools":["up__b*","up:t*"],"inputs":["source"],"requiredOutputs":["test"],"allowableActions":[{"type":"pack","tool":"up__echo","inputs":["build"],"outputs":["artifact"]}]}`))
	v := planRun(t, good(t, c.Tool("plan_execute", `{"plan":`+string(made)+`,"inputs":{"source":"s"}}`)))
	if v.Status != plan.Finished || strings.Join(web.State().Called, " ") != "build echo test" {
		t.Errorf("%+v, called %v", v, web.State().Called)
	}
	m := c.Tool("plan_create", `{"tools":["up__b*"],"inputs":["nothing"],"requiredOutputs":["build"]}`)
	if bad(t, m) == "" || !strings.Contains(m.Text(), "source") {
		t.Errorf("what is impossible: %s", m.Raw)
	}
}

// TestPlanReadsText plans with the tools of the file server as it publishes them:
// what reads a text is taken for one, even after calls of it failed.
func TestPlanReadsText(t *testing.T) {
	hubtest.Parallel(t)
	web := peer.Serve(t, recorded(t, "filesystem.json"))
	h := hubtest.New(t, hubtest.Modules(), hubtest.HTTP("files", web.URL))
	settled(t, h, "files")
	c := h.Client(t, hubtest.ClientOptions{})
	for range 5 {
		c.Tool("files__read_text_file", `{}`)
	}
	write := `"allowableActions":[{"type":"write","tool":"files__write_file","inputs":["content","target"],"outputs":["written"],"args":{"path":"@target","content":"@content"}}],"inputs":["path","target"],"requiredOutputs":["written"]`
	read := `"inputs":["path"],"requiredOutputs":["content"]`
	for ask, want := range map[string]string{
		`{"title":"Read the text file","tools":["files__*"],` + read + `}`:                                           "files__read_text_file",
		`{"title":"Read a file","tools":["files__*"],` + read + `}`:                                                  "files__read_text_file",
		`{"title":"Summarise the document","tools":["files__*"],` + read + `}`:                                       "files__read_text_file",
		`{"tools":["files__*"],` + read + `}`:                                                                        "files__read_text_file",
		`{"tools":["files__read_text_file","files__read_media_file"],` + read + `}`:                                  "files__read_text_file",
		`{"tools":["files__*"],"inputs":["path"],"requiredOutputs":[{"name":"content","schema":{"type":"string"}}]}`: "files__read_text_file",
		`{"title":"Read the image file as base64","tools":["files__*"],` + read + `}`:                                "files__read_media_file",
		`{"title":"Copy notes","tools":["files__*"],` + write + `}`:                                                  "files__read_text_file files__write_file",
		`{"title":"Copy file text","tools":["files__*"],` + write + `}`:                                              "files__read_text_file files__write_file",
	} {
		var p plan.Plan
		if err := json.Unmarshal(wire.Get(good(t, c.Tool("plan_create", ask)), "plan"), &p); err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range p.Steps {
			got = append(got, p.Steps[i].Called())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v", ask, got)
		}
	}
}

// TestKeptPlanResults keeps what tells of a run, with a result too long to be shown:
// what is kept is whole.
func TestKeptPlanResults(t *testing.T) {
	hubtest.Parallel(t)
	h, _ := keeping(t, planSpec())
	c := h.Client(t, hubtest.ClientOptions{Header: in("kept")})
	long := strings.Repeat("0123456789", 10_000)
	good(t, c.Tool("plan_execute", `{"plan":{"steps":[{"id":"a","tool":"up__echo","args":{"text":"`+long+`"}}]}}`, `"stoa/saveAs":"run1"`))
	good(t, c.Tool("plan_status", `{"sessionId":"current","includeResults":true}`, `"stoa/saveAs":"st"`))
	for _, ref := range []string{"@run1.steps[0].result.text", "@st.run.steps[0].result.text"} {
		if m := c.Tool("plan_execute", `{"plan":{"inputs":[{"name":"x"}],"steps":[{"id":"a","tool":"up__echo","args":{"n":"@x"}}],"outputs":{"n":"@a.n"}},"inputs":{"x":"`+ref+`"}}`); !strings.Contains(string(m.Raw), long) {
			t.Errorf("%s is not the whole result: %.300s", ref, m.Raw)
		}
	}
}

// TestProposedPlan has a model propose plans: what it says is checked, and what
// is wrong is told to it.
func TestProposedPlan(t *testing.T) {
	hubtest.Parallel(t)
	say := func(text string) llmtest.Reply {
		return llmtest.OpenAI.Answer(llmtest.Said{Text: []string{text}, Input: 1, Output: 1})
	}
	const wrong, right = `{"steps":[{"id":"a","tool":"up__nothing"}]}`, "Here it is:\n```json\n" + `{"steps":[{"id":"a","tool":"up__echo","args":{"v":1}}],"outputs":{"r":"@a.v"}}` + "\n```"
	model := func(fake *llmtest.Fake) hubtest.Edit {
		server := httptest.NewServer(fake)
		server.Config.SetKeepAlivesEnabled(false) // the hub would keep its connections a while
		t.Cleanup(server.Close)
		return hubtest.Config(func(c *config.Config) {
			m := config.DefaultModel()
			m.Name, m.Provider, m.Model, m.BaseURL, m.APIKey = "wise", config.OpenAI, "gpt", server.URL, secret.New(llmtest.Key)
			c.Models.Named, c.Models.Default = append(c.Models.Named, m), "wise"
		})
	}
	fake := llmtest.NewFake(t, llmtest.OpenAI, llmtest.InTurn(say(wrong), say(right)))
	h, web := keeping(t, planSpec(), model(fake))
	c := h.Client(t, hubtest.ClientOptions{Header: in("wise")})
	made := good(t, c.Tool("plan_create", `{"goal":"say one","saveAs":"one"}`))
	if !strings.Contains(string(made), "up__echo") || strings.Contains(string(made), "up__nothing") {
		t.Errorf("the plan: %s", made)
	}
	asked := fake.Asked()
	if len(asked) != 2 || !strings.Contains(string(asked[1].Body), "up__nothing cannot be called") {
		t.Errorf("the model was asked %d times", len(asked))
	}
	if v := planRun(t, good(t, c.Tool("plan_execute", `{"plan":"@one"}`))); string(v.Outputs["r"]) != "1" || len(web.State().Called) != 1 {
		t.Errorf("%+v", v)
	}
	h.Stop()
	h, _ = keeping(t, planSpec(), model(llmtest.NewFake(t, llmtest.OpenAI, llmtest.InTurn(say(wrong)))))
	m := h.Client(t, hubtest.ClientOptions{Header: in("wise")}).Tool("plan_create", `{"goal":"say one","saveAs":"one"}`)
	if bad(t, m) == "" || !strings.Contains(m.Text(), "3 attempts") {
		t.Errorf("a model that cannot: %s", m.Raw)
	}
}
