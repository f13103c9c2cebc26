package catalog

import (
	"strings"
	"sync"
	"testing"

	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

func parsed(t testing.TB, def string) *Item {
	t.Helper()
	it, err := Parse(Tool, "up", []byte(def))
	if err != nil {
		t.Fatal(err)
	}
	return it
}

func TestWhichSchemasTakeSaveAs(t *testing.T) {
	for input, want := range map[string]bool{
		`{"type":"object"}`: true,
		`{"type":"object","properties":{"a":{"anyOf":[{}]}},"required":["a"],"additionalProperties":false,"$defs":{}}`: true,
		`{"properties":{"a":{}}}`: true, // it is offered as an object's
		`{}`:                      true,
		`{"type":"object","properties":{"saveAs":{}}}`:             false,
		`{"type":"object","properties":{"save\u0041s":{}}}`:        false,
		`{"type":"object","required":["a","saveAs"]}`:              false,
		`{"type":"object","properties":[]}`:                        false,
		`{"type":"object","patternProperties":{"^s":{}}}`:          false,
		`{"type":"object","propertyNames":{"enum":["a"]}}`:         false,
		`{"type":"object","maxProperties":1}`:                      false,
		`{"type":"object","allOf":[{}]}`:                           false,
		`{"type":"object","oneOf":[{}]}`:                           false,
		`{"type":"object","not":{}}`:                               false,
		`{"type":"object","if":{},"then":{}}`:                      false,
		`{"type":"object","$ref":"#/$defs/a"}`:                     false,
		`{"type":"object","dependentSchemas":{"a":{}}}`:            false,
		`{"type":"object","enum":[{}]}`:                            false,
		`{"type":"object","dependentRequired":{"saveAs":["a"]}}`:   true,
		`{"type":"object","properties":{"saveas":{},"SaveAs":{}}}`: true,
	} {
		it := parsed(t, `{"name":"t","inputSchema":`+input+`}`)
		if got := it.TakesSaveAs(); got != want {
			t.Errorf("%s: %v", input, got)
		}
		for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
			shown := it.As(View{Era: era, SaveAs: true})
			added := wire.Get(wire.Get(wire.Get(shown, "inputSchema"), "properties"), SaveAs) != nil && strings.Contains(string(shown), "Keep the result")
			if added != want || wire.Valid(shown, wire.FromClient) != nil {
				t.Errorf("%s is shown as %s", input, shown)
			}
		}
		if it.Handling.NoSaveAs = true; it.TakesSaveAs() {
			t.Errorf("%s takes saveAs although that is off", input)
		}
	}
}

func TestHowAToolIsShown(t *testing.T) {
	const def = `{"name":"t","inputSchema":{"type":"object","properties":{"a":{"default":1.0}}},"outputSchema":{"type":"object"}, "x":12345678901234567890}`
	for name, tc := range map[string]struct {
		view          View
		handling      Handling
		saveAs, cards bool
	}{
		"faithful":         {View{}, Handling{}, false, false},
		"saveAs":           {View{SaveAs: true}, Handling{}, true, false},
		"cards":            {View{Cards: true}, Handling{}, false, true},
		"both":             {View{SaveAs: true, Cards: true}, Handling{}, true, true},
		"both, no cards":   {View{SaveAs: true, Cards: true}, Handling{NoCards: true}, true, false},
		"both, no saveAs":  {View{SaveAs: true, Cards: true}, Handling{NoSaveAs: true}, false, true},
		"both, none of it": {View{SaveAs: true, Cards: true}, Handling{NoSaveAs: true, NoCards: true}, false, false},
	} {
		for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
			it := parsed(t, def)
			it.Handling = tc.handling
			tc.view.Era = era
			var wg sync.WaitGroup
			for range 4 { // many ask at once
				wg.Go(func() { it.As(tc.view) })
			}
			wg.Wait()
			got := string(it.As(tc.view))
			if strings.Contains(got, `"saveAs"`) != tc.saveAs || strings.Contains(got, `"outputSchema"`) == tc.cards ||
				!strings.Contains(got, `"x":12345678901234567890`) || !strings.Contains(got, "1.0") {
				t.Errorf("%s: %s", name, got)
			}
			if same := got == string(it.For(era)); same != (!tc.saveAs && !tc.cards) {
				t.Errorf("%s: unchanged: %v", name, same)
			}
		}
	}
}
