package hub_test

import (
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

const (
	arrayOutput = `"outputSchema":{"type":"array","items":{"type":"number"}}`
	execution   = `"execution":{"taskSupport":"optional"}`
	known       = `"title":"T","icons":[{"src":"https://x.example/i.png"}]`
)

func listSpec() peer.Spec {
	return peer.Spec{Tools: []peer.Tool{
		{Name: "odd", RawDefinition: `{"name":"odd","inputSchema":{"type":"object"},` + arrayOutput + `,` + execution + `,` + known + `}`,
			Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: `{"content":[{"type":"text","text":"[1]"}],"structuredContent":[1],"resultType":"complete"}`}},
		{Name: "fine", RawDefinition: `{"name":"fine","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}`},
	}}
}

// A client is told of each tool only what its era has; one definition that it
// cannot read would cost it the whole list.
func TestListsCrossEras(t *testing.T) {
	hubtest.Parallel(t)
	for name, filter := range map[string][]string{"all": nil, "filtered": {"*"}} {
		o := worldOptions{mixed: true, server: func(s *config.Server) { s.Tools.Allow = filter }}
		t.Run(name, func(t *testing.T) {
			eachCell(t, listSpec(), o, func(t *testing.T, w *world) {
				modern := w.era == hubtest.Modern
				got := string(w.client.Call("tools/list", "{}").Result)
				for part, want := range map[string]bool{
					arrayOutput: modern, execution: !modern, known: true, `"outputSchema":{"type":"object"}`: true,
					`"name":"` + w.name("up", "odd") + `"`: true, `"name":"` + w.name("up", "fine") + `"`: true,
				} {
					if strings.Contains(got, part) != want {
						t.Errorf("%s is there: %v\n%s", part, !want, got)
					}
				}
				if m := w.call("odd", ""); strings.Contains(string(m.Result), "structuredContent") != modern || m.Text() != "[1]" {
					t.Errorf("the result: %s", m.Raw)
				}
			})
		})
	}
}

// On merged faces one server's definition must not cost the others' tools; an
// agent's own face says what the agent says.
func TestOddDefinitionsOfOneEra(t *testing.T) {
	hubtest.Parallel(t)
	eachCell(t, listSpec(), worldOptions{}, func(t *testing.T, w *world) {
		modern := w.era == hubtest.Modern
		got := string(w.client.Call("tools/list", "{}").Result)
		if strings.Contains(got, arrayOutput) != (modern || !w.merged) || strings.Contains(got, execution) != (!modern || !w.merged) {
			t.Errorf("got %s", got)
		}
	})
}

// Clients of versions without links to resources get them as text.
func TestLinksForOldClients(t *testing.T) {
	hubtest.Parallel(t)
	const link = `{"content":[{"type":"resource_link","uri":"file:///a","name":"a"}]}`
	const text = `{"content":[{"type":"text","text":"a: file:///a"}]}`
	spec := peer.Spec{Tools: []peer.Tool{{Name: "link", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: link}}}}
	w := newWorld(t, cell{hubtest.Legacy, "stdio", true}, spec, worldOptions{})
	for version, want := range map[string]string{"2024-11-05": text, "2025-03-26": text, "2025-06-18": link, "2025-11-25": link} {
		for _, merged := range []bool{true, false} {
			at := cell{hubtest.Legacy, "stdio", merged}
			c := w.Hub.Client(t, hubtest.ClientOptions{Era: at.era, Face: at.face("up"), Version: version})
			if got := string(c.Tool(at.name("up", "link"), "").Result); got != want {
				t.Errorf("%s, merged %v: %s", version, merged, got)
			}
		}
	}
}
