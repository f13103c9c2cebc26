package hub_test

import (
	"encoding/json"
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
	hubtest.Parallel(t)
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

// A card shows what the tool said, whatever else goes on: its memory is not
// given back while the card is made.
func TestCardsShowWhatWasSaid(t *testing.T) {
	hubtest.Parallel(t)
	for _, era := range bothEras {
		h, _ := keeping(t, peer.Spec{Tools: []peer.Tool{defined("say", `"inputSchema":{"type":"object"}`)}})
		c := h.Client(t, hubtest.ClientOptions{Era: era, Face: "/s/work/mcp"})
		for _, n := range []int{20, 3000} {
			said := strings.Repeat("these words ", n/12)
			m := c.Tool("up__say", `{"saveAs":"kept","said":"`+said+`"}`)
			if !strings.Contains(m.Text(), "these words") || !strings.HasPrefix(m.Text(), "Kept as") && n < 100 {
				t.Errorf("%s, %d bytes: %s", era, n, m.Raw)
			}
			good(t, c.Tool("context_remove", `{"name":"kept"}`))
		}
	}
}

func TestSaveAsThatCannotBe(t *testing.T) {
	hubtest.Parallel(t)
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
	hubtest.Parallel(t)
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
	hubtest.Parallel(t)
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
