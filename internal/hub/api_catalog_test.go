package hub_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

type toolRow struct {
	Name, Upstream, Tool, Title, Description, Risk string
	Calls, Failed                                  int64
	MeanUS                                         int64 `json:"mean_us"`
	Policy                                         struct{ Action, Reason, Rule string }
	Off                                            bool
	InputSchema                                    json.RawMessage
}

type toolPage struct {
	Tools              []toolRow
	Offset, Total, All int
	Upstreams          map[string]int
}

func (c apiClient) tools(query string) toolPage {
	c.t.Helper()
	return hubtest.Decode[toolPage](c.ok("GET", "/api/v1/tools"+query, ""))
}

func ownNames(rows []toolRow) string {
	var out []string
	for _, r := range rows {
		out = append(out, r.Tool)
	}
	return strings.Join(out, " ")
}

// TestAPICatalog looks at tools as a person would who wants to know which there
// are, what they may do, and how they do.
func TestAPICatalog(t *testing.T) {
	hubtest.Parallel(t)
	def := func(name, text, annotations string) peer.Tool {
		return peer.Tool{Name: name, RawDefinition: peer.Raw(fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object","properties":{"a":{"type":"string"}}},"annotations":%s}`, name, text, annotations))}
	}
	bad := def("wipe", strings.Repeat("Wipes the disk. ", 40), `{"destructiveHint":true}`)
	bad.Behaviour = peer.Behaviour{Kind: peer.Verbatim, Raw: `{"content":[],"isError":true}`}
	one := peer.Spec{Tools: []peer.Tool{def("look", "Looks at a Thing.", `{"readOnlyHint":true}`), def("add", "Adds one.", `{"destructiveHint":false}`), bad, def("odd", "", `{}`)}}
	two := peer.Spec{Tools: []peer.Tool{def("look", "Looks elsewhere.", `{}`)}}
	deny := hubtest.Config(func(cfg *config.Config) {
		cfg.Policy.Rules.Rules = append(cfg.Policy.Rules.Rules, config.Rule{Tools: []string{"up:wipe"}, Action: "ask", Reason: "not here"})
	})
	h := hubtest.New(t, hubtest.Stdio("up", one), hubtest.Stdio("zwei", two), deny)
	c := apiClient{t, h, h.Token}
	await.Until(t, "all are listed", func() bool {
		return len(c.tools("?upstream=up").Tools) == 4 && len(c.tools("?upstream=zwei").Tools) == 1
	})

	c.tool("up__look", "{}")
	c.tool("up__look", "{}")
	c.tool("up__odd", "{}")
	for _, q := range []struct{ query, want string }{
		{"?upstream=up", "add look odd wipe"}, {"?upstream=up&sort=calls", "look odd add wipe"}, {"?upstream=up&limit=2&offset=1", "look odd"}, {"?upstream=up&offset=9", ""},
		{"?filter=LOOKS+thing", "look"}, {"?filter=looks", "look look"}, {"?filter=up__a", "add"}, {"?upstream=up&risk=unsaid", "odd"}, {"?risk=destructive&upstream=up", "wipe"},
	} {
		if got := ownNames(c.tools(q.query).Tools); got != q.want {
			t.Errorf("%s: %q, want %q", q.query, got, q.want)
		}
	}
	page := c.tools("?upstream=up&limit=1&sort=calls")
	if page.Total != 4 || page.Upstreams["zwei"] != 1 || page.All < 5 || page.Tools[0].Calls != 2 || page.Tools[0].MeanUS <= 0 || page.Tools[0].Risk != "read-only" {
		t.Errorf("a page: %+v", page)
	}
	wipe := c.tools("?filter=wipe").Tools[0]
	if wipe.Policy.Action != "ask" || !strings.Contains(wipe.Policy.Rule, "policy rule 1") || wipe.Policy.Reason != "not here" || len(wipe.Description) > 300 || wipe.InputSchema != nil {
		t.Errorf("wipe: %+v", wipe)
	}
	whole := hubtest.Decode[toolRow](c.ok("GET", "/api/v1/tools/up:wipe", ""))
	if len(whole.Description) != 640 || !strings.Contains(string(whole.InputSchema), `"a"`) || whole.Name != "up__wipe" {
		t.Errorf("wipe alone: %+v", whole)
	}
	if a := c.do("GET", "/api/v1/tools/up__lok", ""); a.Status != http.StatusNotFound || !strings.Contains(string(a.Body), "up__look") {
		t.Errorf("a name that is nearly right: %d %s", a.Status, a.Body)
	}
	for _, q := range []string{"?limit=0", "?limit=501", "?offset=-1", "?sort=size", "?risk=big", "?filtre=x"} {
		if a := c.do("GET", "/api/v1/tools"+q, ""); a.Status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", q, a.Status, a.Body)
		}
	}
	c.ok("PUT", "/api/v1/modules/zwei", `{"on":false}`)
	if got := c.tools("?upstream=zwei").Tools; len(got) != 0 {
		t.Errorf("tools of a server that is off: %+v", got)
	}
	c.ok("PUT", "/api/v1/modules/zwei", `{"on":true}`)
	only := tokenFor(t, h, "narrow", "zwei")
	if p := only.tools(""); p.All != 1 || ownNames(p.Tools) != "look" || len(p.Upstreams) != 1 {
		t.Errorf("with a token for one server: %+v", p)
	}
	if a := only.do("GET", "/api/v1/tools/up__look", ""); a.Status != http.StatusNotFound {
		t.Errorf("another server's tool: %d", a.Status)
	}
}

// What is wrong with arguments is told before they are sent to the tool.
func TestAPICheck(t *testing.T) {
	hubtest.Parallel(t)
	up := peer.Serve(t, peer.Spec{Tools: []peer.Tool{
		{Name: "order", RawDefinition: `{"name":"order","inputSchema":{"type":"object","required":["id"],"properties":{"id":{"type":"string","pattern":"^[a-z]+$"},"n":{"type":"integer"}},"if":{"required":["n"]},"then":{"required":["unit"]}}}`},
		{Name: "odd", RawDefinition: `{"name":"odd","inputSchema":{"type":"object","properties":{"a":{"$ref":"#/nowhere"}}}}`},
	}})
	h := hubtest.New(t, hubtest.HTTP("up", up.URL))
	waitTools(t, h)
	c := apiClient{t, h, h.Token}
	for _, q := range []struct{ tool, body, want string }{
		{"up__order", `{"id":"abc"}`, ""}, {"up:order", ``, "/id"}, {"up__order", `{"id":"A1","n":1}`, "/id /unit"}, {"up__order", `{"id":"a","n":"x","unit":1}`, "/n"},
		{"up__odd", `{"a":1}`, ""},
	} {
		got := hubtest.Decode[struct {
			Valid  bool
			Faults []struct{ Pointer, Message string }
		}](c.ok("POST", "/api/v1/check/"+q.tool, q.body))
		var at []string
		for _, f := range got.Faults {
			at = append(at, f.Pointer)
			if f.Message == "" {
				t.Errorf("%s %s: nothing is said of %s", q.tool, q.body, f.Pointer)
			}
		}
		if strings.Join(at, " ") != q.want || got.Valid != (q.want == "") {
			t.Errorf("%s %s: %+v, want faults at %q", q.tool, q.body, got, q.want)
		}
	}
	for path, want := range map[string]int{"up__ordr": http.StatusNotFound, "up__order?x=1": http.StatusBadRequest} {
		if a := c.do("POST", "/api/v1/check/"+path, "{}"); a.Status != want {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	if a := c.do("POST", "/api/v1/check/up__order", `{"id`); a.Status != http.StatusBadRequest {
		t.Errorf("what is no JSON: %d %s", a.Status, a.Body)
	}
	if len(up.State().Called) != 0 {
		t.Errorf("called: %v", up.State().Called)
	}
}
