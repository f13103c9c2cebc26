package hub_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

func verbatim(name, result string) peer.Tool {
	return peer.Tool{Name: name, Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: peer.Raw(result)}}
}

func defined(name, rest string) peer.Tool {
	return peer.Tool{Name: name, RawDefinition: peer.Raw(`{"name":"` + name + `",` + rest + `}`)}
}

// saying makes a result of content blocks and further members.
func saying(content, more string) string { return `{"content":[` + content + `]` + more + `}` }

func textBlock(s string) string { return `{"type":"text","text":` + hubtest.Quote(s) + `}` }

const pixel = `{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"}`

// results are tools by what is to be kept of what they say.
var results = map[string]struct{ result, want string }{
	"structured":    {saying(textBlock("x"), `,"structuredContent":{"n":12345678901234567890,"p":1.10,"s":"\u00e9"}`), `{"n":12345678901234567890,"p":1.10,"s":"\u00e9"}`},
	"json":          {saying(textBlock(` {"n":12345678901234567890,"p":1.10} `), ""), `{"n":12345678901234567890,"p":1.10}`},
	"array":         {saying(textBlock(`[1.0, 2]`), ""), `[1.0, 2]`},
	"number":        {saying(textBlock(`17`), ""), `"17"`},
	"text":          {saying(`{"type":"text","text":"caf\u00e9 \u2028"}`, ""), `"caf\u00e9 \u2028"`},
	"broken":        {saying(textBlock(`{"n":`), ""), `"{\"n\":"`},
	"several":       {saying(textBlock("a")+","+textBlock("b"), ""), `[` + textBlock("a") + "," + textBlock("b") + `]`},
	"picture":       {saying(pixel, ""), `[` + pixel + `]`},
	"empty":         {saying("", ""), `[]`},
	"null":          {saying(textBlock("t"), `,"structuredContent":null`), `"t"`},
	"odd":           {saying(textBlock("t"), `,"_meta":{"theirs":[1.0]},"odd":{"a" : 1}`), `"t"`},
	"bad-meta":      {saying(textBlock("t"), `,"_meta":7`), `"t"`},
	"borne-unasked": {saying(textBlock(`{"result":{"k":1},"saveAs":"nobody"}`), ""), `{"result":{"k":1},"saveAs":"nobody"}`},
}

func resultSpec(era hubtest.Era) peer.Spec {
	spec := peer.Spec{Era: peer.Era(era)}
	for name, r := range results {
		raw := r.result
		if era == hubtest.Modern {
			raw = strings.TrimSuffix(raw, "}") + `,"resultType":"complete"}`
		}
		spec.Tools = append(spec.Tools, verbatim(name, raw))
	}
	spec.Tools = append(spec.Tools, verbatim("failed", saying(textBlock("no"), `,"isError":true`)))
	return spec
}

func members(raw json.RawMessage) map[string]string {
	out := map[string]string{}
	for k, v := range hubtest.Decode[map[string]json.RawMessage](raw) {
		out[k] = string(v)
	}
	return out
}

// On the faithful face a result is kept beside being passed on.
func TestResultsAreKeptAsTheyCame(t *testing.T) {
	for _, era := range bothEras {
		h, _ := keeping(t, resultSpec(era))
		c := h.Client(t, hubtest.ClientOptions{Era: era, Header: in("work")})
		for name, tc := range results {
			plain, kept := c.Tool("up__"+name, ""), c.Tool("up__"+name, "", `"stoa/saveAs":"kept"`)
			got := members(kept.Result)
			about := hubtest.Decode[struct {
				Saved struct{ Name, Reference string } `json:"stoa/saved"`
			}](json.RawMessage(got["_meta"]))
			if about.Saved.Name != "kept" || about.Saved.Reference != "@kept" {
				t.Errorf("%s, %s: not told that it is kept: %s", era, name, kept.Raw)
			}
			theirs := members(json.RawMessage(got["_meta"]))
			delete(theirs, "stoa/saved")
			want := members(plain.Result)
			if diff := cmp.Diff(members(json.RawMessage(want["_meta"])), theirs); diff != "" {
				t.Errorf("%s, %s: _meta: %s", era, name, diff)
			}
			delete(got, "_meta")
			delete(want, "_meta")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s: the result changed: %s", era, name, diff)
			}
			if data := good(t, c.Tool("context_get", `{"name":"kept"}`)); string(data) != tc.want {
				t.Errorf("%s, %s: kept %s, want %s", era, name, data, tc.want)
			}
			good(t, c.Tool("context_remove", `{"name":"kept"}`))
		}
		if m := c.Tool("up__failed", "", `"stoa/saveAs":"kept"`); strings.Contains(string(m.Raw), "stoa/saved") {
			t.Errorf("%s: a failure is kept: %s", era, m.Raw)
		}
		if got := hubtest.Decode[struct{ Count int }](good(t, c.Tool("context_list", "{}"))); got.Count != 0 {
			t.Errorf("%s: %d values are kept", era, got.Count)
		}
	}
}

func TestSaveAsThatCannotBe(t *testing.T) {
	no := false
	spec := resultSpec(hubtest.Legacy)
	h, web := keeping(t, spec, hubtest.Stdio("none", spec, func(s *config.Server) { s.SaveAs = &no }),
		hubtest.Config(func(c *config.Config) { c.Session.MaxValues = 1 }))
	settled(t, h, "none")
	for _, era := range bothEras {
		c := h.Client(t, hubtest.ClientOptions{Era: era, Header: in("w-" + string(era))})
		before := len(web.State().Called)
		for meta, want := range map[hubtest.Meta]string{`"stoa/saveAs":"a b"`: "invalid_arguments", `"stoa/saveAs":7`: "invalid_arguments"} {
			if m := c.Tool("up__text", "", meta); !strings.Contains(string(m.Result), want) {
				t.Errorf("%s, %s: %s", era, meta, m.Raw)
			}
		}
		if m := c.Tool("none__text", "", `"stoa/saveAs":"x"`); !strings.Contains(string(m.Result), "invalid_arguments") {
			t.Errorf("%s: where it is off: %s", era, m.Raw)
		}
		unbound := h.Client(t, hubtest.ClientOptions{Era: era, Sessionless: true})
		if m := unbound.Tool("up__text", "", `"stoa/saveAs":"x"`); !strings.Contains(string(m.Result), "session_required") {
			t.Errorf("%s: without a session: %s", era, m.Raw)
		}
		if now := len(web.State().Called); now != before {
			t.Errorf("%s: what cannot be kept was called for", era)
		}
		put(t, c, "only", "1")
		// The tool has done its work: what it said is not lost.
		for _, face := range []string{"/mcp", "/s/w-" + string(era) + "/mcp"} {
			c := h.Client(t, hubtest.ClientOptions{Era: era, Face: face, Header: in("w-" + string(era))})
			m := c.Tool("up__structured", "", `"stoa/saveAs":"second"`)
			if !strings.Contains(string(m.Result), `"n":12345678901234567890`) || !strings.Contains(string(m.Result), `"stoa/saveError"`) || strings.Contains(string(m.Result), `"isError":true`) {
				t.Errorf("%s, %s: no room for it: %s", era, face, m.Raw)
			}
			if got := strings.Contains(string(m.Result), "could not be kept"); got != (face != "/mcp") {
				t.Errorf("%s, %s: the note for a model: %s", era, face, m.Raw)
			}
		}
	}
}

// schemas are tools by whether saveAs can be an argument of theirs.
var schemas = map[string]struct {
	input string
	taken bool
}{
	"plain":    {`{"type":"object"}`, true},
	"closed":   {`{"type":"object","properties":{"a":{}},"additionalProperties":false,"required":["a"]}`, true},
	"own":      {`{"type":"object","properties":{"saveAs":{"type":"string"}}}`, false},
	"demanded": {`{"type":"object","required":["saveAs"]}`, false},
	"any":      {`{"type":"object","anyOf":[{"required":["a"]}]}`, false},
	"ref":      {`{"type":"object","$ref":"#/$defs/x","$defs":{"x":{}}}`, false},
	"pattern":  {`{"type":"object","patternProperties":{"^s":{"type":"integer"}}}`, false},
	"nested":   {`{"type":"object","properties":{"a":{"type":"object","properties":{"saveAs":{}}}}}`, true},
}

func TestSaveAsAsAnArgument(t *testing.T) {
	var spec peer.Spec
	for name, s := range schemas {
		spec.Tools = append(spec.Tools, defined(name, `"inputSchema":`+s.input+`,"outputSchema":{"type":"object"}`))
	}
	h, _ := keeping(t, spec)
	type tool struct {
		Name         string
		InputSchema  struct{ Properties map[string]json.RawMessage }
		OutputSchema json.RawMessage
	}
	for _, era := range bothEras {
		c, faithful := h.Client(t, hubtest.ClientOptions{Era: era, Face: "/s/work/mcp"}), h.Client(t, hubtest.ClientOptions{Era: era, Header: in("work")})
		listed := func(c *hubtest.Client) map[string]tool {
			out := map[string]tool{}
			for _, tl := range hubtest.Decode[struct{ Tools []tool }](c.Call("tools/list", "{}").Result).Tools {
				if name, ok := strings.CutPrefix(tl.Name, "up__"); ok {
					out[name] = tl
				}
			}
			return out
		}
		here, there := listed(c), listed(faithful)
		for name, s := range schemas {
			own := name == "own"
			if got := here[name].InputSchema.Properties["saveAs"] != nil; got != (s.taken || own) {
				t.Errorf("%s, %s: saveAs offered: %v", era, name, got)
			}
			if here[name].OutputSchema != nil || there[name].OutputSchema == nil || !own && there[name].InputSchema.Properties["saveAs"] != nil {
				t.Errorf("%s, %s: here %+v, on /mcp %+v", era, name, here[name], there[name])
			}
			if name == "pattern" {
				continue // its own schema refuses what follows
			}
			const args = `{"saveAs":"kept","a":{"saveAs":1.0}}`
			m, want := c.Tool("up__"+name, args), args
			if s.taken {
				want = `{"a":{"saveAs":1.0}}`
				if !strings.Contains(m.Text(), "@kept") {
					t.Errorf("%s, %s: no card: %s", era, name, m.Raw)
				}
				if got := string(good(t, c.Tool("context_get", `{"name":"kept"}`))); got != want {
					t.Errorf("%s, %s: the server got %s", era, name, got)
				}
				good(t, c.Tool("context_remove", `{"name":"kept"}`))
			} else if m.Text() != want {
				t.Errorf("%s, %s: the server got %s", era, name, m.Raw)
			}
			// Elsewhere it is an argument as any other, and closed schemas refuse it.
			m = faithful.Tool("up__"+name, args)
			if got := m.Text(); got != args && !(name == "closed" && strings.Contains(got, "saveAs")) {
				t.Errorf("%s, %s on /mcp: %s", era, name, m.Raw)
			}
		}
		if m := c.Tool("up__plain", `{"saveAs":"a b"}`); !strings.Contains(string(m.Result), "invalid_arguments") {
			t.Errorf("%s: a bad name: %s", era, m.Raw)
		}
	}
}

// The result itself may say how it wants to be kept, where that is agreed on.
func TestResultsThatNameThemselves(t *testing.T) {
	yes := true
	borne := func(s string) string { return saying(textBlock(s), "") }
	spec := peer.Spec{Era: peer.EraLegacy, Tools: []peer.Tool{
		verbatim("text", borne(`{"result":{"n":1.10},"saveAs":"found"}`)),
		verbatim("structured", saying(textBlock("x"), `,"structuredContent":{"saveAs":"found","result":{"n":1.10}}`)),
		verbatim("more", borne(`{"result":1,"saveAs":"found","other":2}`)),
		verbatim("bad", borne(`{"result":1,"saveAs":"not a name"}`)),
		verbatim("failed", saying(textBlock(`{"result":1,"saveAs":"found"}`), `,"isError":true`)),
	}}
	h, _ := keeping(t, spec, hubtest.Stdio("on", spec, func(s *config.Server) { s.SaveAs = &yes }))
	settled(t, h, "on")
	for _, era := range bothEras {
		for face, stateful := range map[string]bool{"/mcp": false, "/s/work/mcp": true} {
			c := h.Client(t, hubtest.ClientOptions{Era: era, Face: face, Header: in("work")})
			count := func() int {
				return hubtest.Decode[struct{ Count int }](good(t, c.Tool("context_list", "{}"))).Count
			}
			for _, tool := range []string{"text", "structured"} {
				if m := c.Tool("up__"+tool, ""); strings.Contains(string(m.Result), "stoa/") || count() != 0 {
					t.Errorf("%s, %s, %s of a server that said nothing: %s", era, face, tool, m.Raw)
				}
				m := c.Tool("on__"+tool, "")
				if got := string(good(t, c.Tool("context_get", `{"name":"found"}`))); got != `{"n":1.10}` {
					t.Errorf("%s, %s, %s: kept %s", era, face, tool, got)
				}
				if card := strings.Contains(string(m.Result), "stoa/card"); card != stateful || !stateful && !strings.Contains(string(m.Result), "stoa/saved") {
					t.Errorf("%s, %s, %s: %s", era, face, tool, m.Raw)
				}
				good(t, c.Tool("context_remove", `{"name":"found"}`))
			}
			for _, tool := range []string{"more", "failed"} {
				if m := c.Tool("on__"+tool, ""); strings.Contains(string(m.Result), "stoa/") || count() != 0 {
					t.Errorf("%s, %s, %s: %s", era, face, tool, m.Raw)
				}
			}
			if m := c.Tool("on__bad", ""); !strings.Contains(string(m.Result), "stoa/saveError") || !strings.Contains(m.Text(), "not a name") {
				t.Errorf("%s, %s, a bad name: %s", era, face, m.Raw)
			}
		}
	}
	unbound := h.Client(t, hubtest.ClientOptions{})
	if m := unbound.Tool("on__text", ""); !strings.Contains(string(m.Result), "stoa/saveError") || !strings.Contains(string(m.Result), "session_required") {
		t.Errorf("without a session: %s", m.Raw)
	}
}

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

func TestPicturesAreKept(t *testing.T) {
	large := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x00picture\xff", 100_000))) // over what an entry of the log holds
	spec := peer.Spec{Era: peer.EraLegacy, Tools: []peer.Tool{
		verbatim("small", saying(pixel, "")),
		verbatim("mixed", saying(textBlock("caption")+","+pixel, "")),
		verbatim("sound", saying(`{"type":"audio","data":"AAAA","mimeType":"audio/wav"}`, "")),
	}}
	web := peer.Serve(t, peer.Spec{Era: peer.EraLegacy, Tools: []peer.Tool{verbatim("large", saying(`{"type":"image","data":"`+large+`","mimeType":"image/webp"}`, ""))}})
	h, _ := keeping(t, spec, hubtest.HTTP("big", web.URL))
	settled(t, h, "big")
	type content struct{ URI, MimeType, Text, Blob string }
	for _, era := range bothEras {
		c := h.Client(t, hubtest.ClientOptions{Era: era, Face: "/s/pics/mcp"})
		for tool, want := range map[string][]content{
			"up__small":  {{MimeType: "image/png", Blob: "iVBORw0KGgo="}},
			"up__mixed":  {{MimeType: "text/plain", Text: "caption"}, {MimeType: "image/png", Blob: "iVBORw0KGgo="}},
			"up__sound":  {{MimeType: "audio/wav", Blob: "AAAA"}},
			"big__large": {{MimeType: "image/webp", Blob: large}},
		} {
			m := c.Tool(tool, `{"saveAs":"pic"}`)
			if isCard(m) || !strings.Contains(string(m.Result), `"stoa/saved"`) || !strings.Contains(string(m.Result), want[len(want)-1].Blob) {
				t.Errorf("%s, %s: %.300s", era, tool, m.Raw)
			}
			for i := range want {
				want[i].URI = "stoa://context/pic"
			}
			got := hubtest.Decode[struct{ Contents []content }](c.Call("resources/read", `{"uri":"stoa://context/pic"}`).Result).Contents
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s as a resource: %.500s", era, tool, diff)
			}
			list := string(c.Call("resources/list", "{}").Result)
			if len(want) == 1 && !strings.Contains(list, `"mimeType":"`+want[0].MimeType+`"`) {
				t.Errorf("%s, %s is listed as %s", era, tool, list)
			}
		}
	}
}

// Values are resources of their session, and of no other.
func TestValuesAreResources(t *testing.T) {
	h, _ := keeping(t, peer.Spec{Tools: echoTool(), Resources: []peer.Resource{{URI: "mem://a"}}})
	for _, era := range bothEras {
		mine := hubtest.ClientOptions{Era: era, Header: in("mine-" + string(era))}
		c, other := h.Client(t, mine), h.Client(t, hubtest.ClientOptions{Era: era, Header: in("other")})
		put(t, c, "doc", `{"n":1.10}`)
		put(t, c, "note", `"caf\u00e9"`)
		if got := names(t, c, "resources/list", "resources", "uri"); !slices.Equal(got, []string{"mem://a", "stoa://context/doc", "stoa://context/note"}) {
			t.Errorf("%s: listed %v", era, got)
		}
		if got := names(t, other, "resources/list", "resources", "uri"); !slices.Equal(got, []string{"mem://a"}) {
			t.Errorf("%s: another session is shown %v", era, got)
		}
		if got := names(t, c, "resources/templates/list", "resourceTemplates", "uriTemplate"); !slices.Equal(got, []string{"stoa://context/{name}"}) {
			t.Errorf("%s: templates %v", era, got)
		}
		read := func(c *hubtest.Client, uri string) hubtest.Message { return c.Call("resources/read", `{"uri":"`+uri+`"}`) }
		if m := read(c, "stoa://context/doc"); !strings.Contains(string(m.Result), `"mimeType":"application/json","text":"{\"n\":1.10}"`) {
			t.Errorf("%s: doc: %s", era, m.Raw)
		}
		if m := read(c, "stoa://context/note"); !strings.Contains(string(m.Result), `"mimeType":"text/plain","text":"caf\u00e9"`) {
			t.Errorf("%s: note: %s", era, m.Raw)
		}
		for what, m := range map[string]hubtest.Message{"another session": read(other, "stoa://context/doc"), "nothing": read(c, "stoa://context/nope")} {
			if m.Fault().Data.Kind != "resource_not_found" {
				t.Errorf("%s: %s: %s", era, what, m.Raw)
			}
		}
		if modern := hubtest.Decode[struct {
			TTLMs      int
			CacheScope string
		}](c.Call("resources/list", "{}").Result); modern.TTLMs != 0 || era == hubtest.Modern && modern.CacheScope != "private" {
			t.Errorf("%s: hints %+v", era, modern)
		}
	}
}

func TestChangesOfValuesAreTold(t *testing.T) {
	h, _ := keeping(t, peer.Spec{Tools: echoTool()})
	const uri = "stoa://context/doc"
	for _, era := range bothEras {
		for _, face := range []string{"/mcp", "/s/told/mcp"} {
			listen := func(session string) (*hubtest.Client, *hubtest.Exchange) {
				o := hubtest.ClientOptions{Era: era, Face: face, Header: in(session)}
				if face != "/mcp" && session == "told" {
					o.Header = nil
				}
				c := h.Client(t, o)
				x := c.Listen(`{"resourcesListChanged":true,"resourceSubscriptions":["` + uri + `"]}`)
				if era == hubtest.Legacy {
					if m := c.Call("resources/subscribe", `{"uri":"`+uri+`"}`); m.Error != nil {
						t.Fatalf("subscribe: %s", m.Raw)
					}
				}
				return c, x
			}
			_, x := listen("told")
			stranger, y := listen("elsewhere")
			writer := h.Client(t, hubtest.ClientOptions{Header: in("told")})
			put(t, writer, "doc", "1")
			x.Await("notifications/resources/list_changed")
			if m := x.Await("notifications/resources/updated"); !strings.Contains(string(m.Params), `"uri":"`+uri+`"`) {
				t.Errorf("%s, %s: %s", era, face, m.Raw)
			}
			put(t, writer, "doc", "2")
			x.Await("notifications/resources/updated")
			good(t, writer.Tool("context_remove", `{"name":"doc"}`))
			x.Await("notifications/resources/list_changed")
			// The first that others hear is what happens to them.
			put(t, stranger, "own", "1")
			if m := y.Next(); m.Method != "notifications/resources/list_changed" {
				t.Errorf("%s, %s: another session heard %s", era, face, m.Raw)
			}
			put(t, stranger, "doc", "1")
			if m := y.Next(); m.Method == "notifications/resources/list_changed" {
				m = y.Next()
				if m.Method != "notifications/resources/updated" {
					t.Errorf("%s, %s: another session heard %s", era, face, m.Raw)
				}
			}
			good(t, stranger.Tool("context_remove", `{"name":"doc"}`))
			good(t, stranger.Tool("context_remove", `{"name":"own"}`))
		}
	}
}
