package hub_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

func longSpec() peer.Spec {
	rows := `[` + strings.Repeat(`{"id":12345678901234567890,"price":1.10,"name":"a row"},`, 999) + `{"id":1000,"name":"the last"}]`
	lines := strings.Repeat("a line of text\n", 2000) + "the needle 42\n" + strings.Repeat("more text\n", 100)
	return peer.Spec{Era: peer.EraLegacy, Tools: []peer.Tool{
		verbatim("rows", saying(textBlock(rows), "")),
		verbatim("lines", saying(textBlock(lines), "")),
		verbatim("short", saying(textBlock(strings.Repeat("x", 10<<10)), "")),
		verbatim("failed", saying(textBlock(lines), `,"isError":true`)),
		verbatim("image", saying(textBlock(lines)+`,`+pixel, "")),
		verbatim("audio", saying(textBlock(lines)+`,{"type":"audio","data":"AAAA","mimeType":"audio/wav"}`, "")),
	}}
}

func isCard(m hubtest.Message) bool { return strings.Contains(string(m.Result), `"stoa/card"`) }

func TestLongResultsBecomeCards(t *testing.T) {
	hubtest.Parallel(t)
	no, yes := false, true
	h, _ := keeping(t, longSpec(),
		hubtest.Stdio("off", longSpec(), func(s *config.Server) {
			s.Cards.On = &no
			s.Tools.Override = map[string]config.Override{"lines": {Cards: config.Cards{On: &yes}}}
		}),
		hubtest.Stdio("low", longSpec(), func(s *config.Server) {
			s.Cards.Threshold = 1 << 10
			s.Tools.Override = map[string]config.Override{"rows": {Cards: config.Cards{On: &no}}}
		}))
	settled(t, h, "off", "low")
	for _, era := range bothEras {
		stateful := h.Client(t, hubtest.ClientOptions{Era: era, Face: "/s/cards/mcp"})
		faithful := h.Client(t, hubtest.ClientOptions{Era: era, Header: in("cards")})
		for tool, want := range map[string]bool{
			"up__rows": true, "up__lines": true, "up__short": false, "up__failed": false, "up__image": false, "up__audio": false,
			"off__rows": false, "off__lines": true, "low__short": true, "low__rows": false,
		} {
			m, whole := stateful.Tool(tool, ""), faithful.Tool(tool, "")
			if isCard(m) != want || isCard(whole) || want && len(m.Raw) > 8<<10 || !want && string(m.Result) != string(whole.Result) {
				t.Errorf("%s, %s: %d bytes, card %v: %.300s", era, tool, len(m.Raw), isCard(m), m.Raw)
			}
		}
	}
}

func TestCardsCanBeReadOn(t *testing.T) {
	hubtest.Parallel(t)
	h, _ := keeping(t, longSpec())
	for _, era := range bothEras {
		c := h.Client(t, hubtest.ClientOptions{Era: era, Face: "/s/read-" + string(era) + "/mcp"})
		card := func(tool string) string {
			m := c.Tool("up__"+tool, "")
			meta := hubtest.Decode[struct {
				Meta map[string]struct{ Name, Type, Reference string } `json:"_meta"`
			}](m.Result).Meta["stoa/card"]
			if meta.Name == "" || !strings.Contains(m.Text(), "context_get") || !strings.Contains(m.Text(), "@"+meta.Name) {
				t.Fatalf("%s, %s: %s", era, tool, m.Raw)
			}
			return meta.Name
		}
		get := func(args string) string {
			t.Helper()
			return string(good(t, c.Tool("context_get", args)))
		}
		rows := card("rows")
		if got := get(`{"name":"` + rows + `","path":"[999].name"}`); got != `"the last"` {
			t.Errorf("%s: a path: %s", era, got)
		}
		if got := get(`{"name":"` + rows + `","path":"[0].id"}`); got != "12345678901234567890" {
			t.Errorf("%s: a number: %s", era, got)
		}
		type page struct {
			Page  json.RawMessage
			Unit  string
			Total int
			Next  int
		}
		p := hubtest.Decode[page](json.RawMessage(get(`{"name":"` + rows + `","offset":998,"limit":1}`)))
		if string(p.Page) != `[{"id":12345678901234567890,"price":1.10,"name":"a row"}]` || p.Total != 1000 || p.Next != 999 || p.Unit != "elements" {
			t.Errorf("%s: a range: %+v, %s", era, p, p.Page)
		}
		lines := card("lines")
		p = hubtest.Decode[page](json.RawMessage(get(`{"name":"` + lines + `","offset":2000,"limit":1,"unit":"lines"}`)))
		if !strings.Contains(string(p.Page), "the needle 42") || strings.Contains(string(p.Page), "a line") {
			t.Errorf("%s: a line: %s", era, p.Page)
		}
		if got := get(`{"name":"` + lines + `","grep":"needle \\d+"}`); !strings.Contains(got, "the needle 42") || strings.Contains(got, "a line") {
			t.Errorf("%s: grep: %s", era, got)
		}
		if code := bad(t, c.Tool("context_get", `{"name":"`+lines+`","grep":"("}`)); code != "INVALID_ARGUMENTS" {
			t.Errorf("%s: a bad expression: %s", era, code)
		}
		// What stands behind a card can be handed on.
		if m := c.Tool("context_add", `{"name":"last","data":"@`+rows+`[999]"}`); string(good(t, m)) == "" {
			t.Errorf("%s: %s", era, m.Raw)
		}
		if got := get(`{"name":"last"}`); got != `{"id":1000,"name":"the last"}` {
			t.Errorf("%s: handed on: %s", era, got)
		}
	}
}

// A client says whether it wants cards.
func TestClientsSwitchCards(t *testing.T) {
	hubtest.Parallel(t)
	spec := longSpec()
	for i := range spec.Tools {
		spec.Tools[i].RawDefinition = peer.Raw(`{"name":"` + spec.Tools[i].Name + `","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}`)
	}
	var scoped string
	h, _ := keeping(t, spec, func(s *hubtest.Setup) { scoped = token(t, s, "scoped", "up") })
	on, off := http.Header{"Stoa-Cards": {"on"}}, http.Header{"Stoa-Cards": {"off"}}
	for _, era := range bothEras {
		for name, tc := range map[string]struct {
			face   string
			header http.Header
			meta   []hubtest.Meta
			token  string
			want   bool
		}{
			"stateful":                    {"/s/x/mcp", nil, nil, "", true},
			"stateful, header off":        {"/s/x/mcp", off, nil, "", false},
			"stateful, _meta off":         {"/s/x/mcp", nil, []hubtest.Meta{`"stoa/cards":false`}, "", false},
			"header before _meta":         {"/s/x/mcp", off, []hubtest.Meta{`"stoa/cards":true`}, "", false},
			"faithful":                    {"/mcp", nil, []hubtest.Meta{`"stoa/session":"x"`}, "", false},
			"faithful, header on":         {"/mcp", on, []hubtest.Meta{`"stoa/session":"x"`}, "", true},
			"faithful, _meta on":          {"/mcp", nil, []hubtest.Meta{`"stoa/session":"x"`, `"stoa/cards":true`}, "", true},
			"who may not use context_get": {"/s/x/mcp", nil, nil, scoped, false},
			"an agent's face":             {"/mcps/up/mcp", on, []hubtest.Meta{`"stoa/session":"x"`}, "", false},
		} {
			c := h.Client(t, hubtest.ClientOptions{Era: era, Face: tc.face, Header: tc.header, Token: tc.token})
			tool := "up__rows"
			if strings.HasPrefix(tc.face, "/mcps") {
				tool = "rows"
			}
			if m := c.Tool(tool, "", tc.meta...); isCard(m) != tc.want || m.Error != nil {
				t.Errorf("%s, %s: card %v: %.300s", era, name, isCard(m), m.Raw)
			}
			if list := string(c.Call("tools/list", "{}", tc.meta...).Result); strings.Contains(list, "outputSchema") == tc.want {
				t.Errorf("%s, %s: output schemas in the list: %v", era, name, !tc.want)
			}
		}
		// Kept by name, but not replaced by a card.
		c := h.Client(t, hubtest.ClientOptions{Era: era, Face: "/s/x/mcp", Header: off})
		m := c.Tool("up__rows", `{"saveAs":"rows"}`)
		if !strings.Contains(string(m.Result), "the last") || !strings.Contains(string(m.Result), `"stoa/saved"`) {
			t.Errorf("%s: saveAs without cards: %.300s", era, m.Raw)
		}
	}
}
