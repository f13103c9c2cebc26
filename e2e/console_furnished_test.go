package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// furnished is a hub on which everything has happened that a page can show.
type furnished struct {
	hub
	task, run, failure string
	other, exported    string // a run to its end, and the journal of it
}

// shopSpec is a server as people have them.
func shopSpec() peer.Spec {
	def := func(name, description, schema, hints string) peer.Raw {
		return peer.Raw(`{"name":"` + name + `","description":"` + description + `","inputSchema":` + strings.NewReplacer("\n", "", "\t", "").Replace(schema) + `,"annotations":` + hints + `}`)
	}
	return peer.Spec{Name: "Corner shop", Instructions: "Look for articles with find, then order them. Prices are in cents.", Tools: []peer.Tool{
		{Name: "order", RawDefinition: def("order", "Orders one article and says when it will arrive.", orderSchema, `{"readOnlyHint":true}`)},
		{Name: "find", RawDefinition: def("find", "Finds articles by words, the best match first.", `{"type":"object","properties":{"words":{"type":"string"}}}`, `{"readOnlyHint":true}`)},
		{Name: "count", RawDefinition: def("count", "Counts how many articles are in stock.", `{"type":"object"}`, `{"readOnlyHint":true}`), Behaviour: peer.Do(peer.Count)},
		{Name: "refund", RawDefinition: def("refund", "Pays money back to a customer.", `{"type":"object","properties":{"order":{"type":"string"},"cents":{"type":"integer"}}}`, `{"destructiveHint":true}`)},
		{Name: "closed", RawDefinition: def("closed", "Always says that the shop is closed.", `{"type":"object"}`, `{}`), Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: `{"content":[{"type":"text","text":"The shop is closed on Sundays."}],"isError":true}`}},
		{Name: "slow", RawDefinition: def("slow", "Takes stock, which takes hours.", `{"type":"object"}`, `{}`), Behaviour: peer.Behaviour{Kind: peer.Slow, For: time.Hour}},
		{Name: "stuck", RawDefinition: def("stuck", "Never answers.", `{"type":"object"}`, `{}`), Behaviour: peer.Do(peer.Hang)},
		{Name: "grow", RawDefinition: def("grow", "Adds a tool to the list.", `{"type":"object"}`, `{}`), Behaviour: peer.Do(peer.Notify)},
	}}
}

// furnish starts a hub with servers that work and one that does not, and uses all of it.
func furnish(t *testing.T, set toolset) furnished {
	t.Helper()
	chromium(t)
	command, args, env := peer.Command(shopSpec())
	weather := peer.Serve(t, peer.Spec{Name: "Weather", Tools: []peer.Tool{{Name: "forecast"}}})
	folder := resolvedFolder(t)
	shop := server{Command: "/bin/sh", Args: append([]string{"-c", `echo "2026-03-01 listening, 214 articles in stock" >&2; exec "$0" "$@"`, command}, args...), Env: env}
	shop.Tools = map[string]any{"override": map[string]any{"stuck": map[string]any{"timeoutMs": 300}}}
	h := startHub(t, set, map[string]server{"shop": shop, "files": published(set, folder, "")["files"], "weather": {URL: weather.URL}}, map[string]any{
		"log":     map[string]any{"level": "debug"},
		"modules": map[string]any{"file": map[string]any{"roots": []string{folder}}},
		"models":  map[string]any{"default": "told", "told": map[string]any{"provider": "script", "pace": "0ms"}},
		"policy":  map[string]any{"rules": []any{map[string]any{"tools": []string{"shop:refund"}, "action": "ask", "reason": "It pays money back."}}},
	})
	f := furnished{hub: h}
	c := console{hub: h, token: ownToken(t, h)}
	if err := os.WriteFile(filepath.Join(folder, "todo.md"), []byte("- buy tea\n- call Ann\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.furnishSessions(t)
	f.task = c.furnishTasks(t)
	f.other, f.run = c.furnishPlans(t)
	f.exported = string(c.api(t, "GET", "/api/v1/runs/"+f.other+"/journal", ""))
	c.furnishChat(t, filepath.Join(folder, "todo.md"))
	f.failure = c.furnishErrors(t)
	weather.Kill()
	c.ask(t, "POST", "/api/tools/weather__forecast", `{}`)
	return f
}

// ownToken is the token of the data folder.
func ownToken(t *testing.T, h hub) string {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(h.data, "token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(token))
}

func (c console) furnishSessions(t *testing.T) {
	t.Helper()
	c.api(t, "POST", "/api/tools/context_add?session=work", `{"name":"report","description":"sales of February","data":{"title":"February","total":1042,"rows":[{"article":"tea","sold":12},{"article":"cups","sold":3}],"final":false,"note":null}}`)
	c.api(t, "POST", "/api/tools/context_add?session=work", `{"name":"report","description":"sales of February","data":{"title":"February","total":1043,"rows":[{"article":"tea","sold":13},{"article":"cups","sold":3}],"final":true,"note":null}}`)
	c.api(t, "POST", "/api/tools/context_add?session=work", `{"name":"greeting","data":"Good morning, Ann. The tea is on its way."}`)
	c.api(t, "POST", "/api/tools/shop__find?session=work&saveAs=found", `{"words":"@report.title"}`)
	for _, name := range []string{"planning", "archive-2025"} {
		c.api(t, "POST", "/api/tools/context_add?session="+name, `{"name":"note","data":"of `+name+`"}`)
	}
	for range 5 {
		c.api(t, "POST", "/api/tools/shop__count", `{}`)
	}
	c.api(t, "POST", "/api/tools/shop__grow", `{}`)
}

// furnishTasks starts tasks and returns one that has ended.
func (c console) furnishTasks(t *testing.T) (done string) {
	t.Helper()
	for _, body := range []string{`{"tool":"shop__find","arguments":{"words":"tea"}}`, `{"tool":"shop__slow"}`, `{"tool":"shop__closed"}`} {
		c.api(t, "POST", "/api/tools/task_start", body)
	}
	await.Until(t, "a task has ended", func() bool {
		var all struct {
			Tasks []struct{ Task, Tool string }
		}
		if err := json.Unmarshal(c.api(t, "GET", "/api/v1/tasks?status=completed", ""), &all); err != nil {
			t.Fatal(err)
		}
		for _, one := range all.Tasks {
			if one.Tool == "find" {
				done = one.Task
			}
		}
		return done != ""
	})
	return done
}

// furnishPlans publishes a plan, runs it to its end, and again to a pause.
func (c console) furnishPlans(t *testing.T) (ended, paused string) {
	t.Helper()
	const plan = `{"title":"Restock","inputs":[
		{"name":"article","schema":{"type":"string"},"description":"What is bought.","default":"tea"},
		{"name":"pieces","schema":{"type":"integer","minimum":1},"description":"How many of it.","default":12},
		{"name":"urgent","schema":{"type":"boolean"},"default":false}],"steps":[
		{"id":"stock","tool":"shop__count"},
		{"id":"offers","tool":"shop__find","args":{"words":"@article"}},
		{"id":"price","tool":"shop__find","after":["stock","offers"],"args":{"words":"price of tea"}},
		{"id":"order","tool":"shop__order","after":["price"],"args":{"title":"Tea","size":"big"}}]}`
	c.api(t, "PUT", "/api/v1/plans/restock", plan)
	begin := func(more string) string {
		var begun struct{ Run struct{ ID string } }
		if err := json.Unmarshal(c.api(t, "POST", "/api/v1/runs", `{"plan":`+plan+`,"session":"work",`+more+`}`), &begun); err != nil {
			t.Fatal(err)
		}
		return begun.Run.ID
	}
	ended, paused = begin(`"inputs":{}`), begin(`"inputs":{"article":"cups"},"paused":true`)
	c.api(t, "POST", "/api/v1/runs/"+paused+"/run_to", `{"step":"order"}`)
	await.Until(t, "one run is over and the other waits before its last step", func() bool {
		first, second := string(c.api(t, "GET", "/api/v1/runs/"+ended, "")), string(c.api(t, "GET", "/api/v1/runs/"+paused, ""))
		return strings.Contains(first, `"status":"done"`) && strings.Contains(second, `"status":"paused"`) && strings.Contains(second, `"done":3`)
	})
	return ended, paused
}

// furnishChat has a conversation of a few turns.
func (c console) furnishChat(t *testing.T, file string) {
	t.Helper()
	for _, text := range []string{"echo Here is **what I know** of the trip:\n\n- the train leaves at `8:15`\n- the hotel has [a page](https://hotel.example/)\n\n> Bring an umbrella.", "call file_read path=" + file, "call shop__find words=umbrella"} {
		c.api(t, "POST", "/api/chat", string(mustJSON(map[string]any{"sessionId": "trip", "text": text})))
	}
}

// furnishErrors lets calls fail in several ways and returns the id of one error.
func (c console) furnishErrors(t *testing.T) (id string) {
	t.Helper()
	for _, path := range []string{"shop__closed", "shop__closed", "shop__stuck", "shop__nothing"} {
		c.ask(t, "POST", "/api/tools/"+path, `{}`)
	}
	c.ask(t, "POST", "/api/tools/shop__order", `{"size":"huge"}`)
	await.Until(t, "the errors are in the book", func() bool {
		var book struct{ Last []struct{ ID string } }
		if err := json.Unmarshal(c.api(t, "GET", "/api/v1/errors?code=TIMEOUT", ""), &book); err != nil {
			t.Fatal(err)
		}
		if len(book.Last) > 0 {
			id = book.Last[0].ID
		}
		return id != ""
	})
	return id
}

// waiting makes a call that waits for a person, until the test ends.
func (c console) waiting(t *testing.T, path, body string) {
	t.Helper()
	request := c.request(t, "POST", path, body).WithContext(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request); err == nil {
			response.Body.Close()
		}
	}()
	t.Cleanup(func() { <-done })
}
