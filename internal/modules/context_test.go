package modules

import (
	"testing"

	"github.com/stoahub/stoa/internal/wire"
)

func TestValuesAsContents(t *testing.T) {
	const uri = "stoa://context/v"
	text := func(raw string) string { return `{"uri":"` + uri + `","mimeType":"text/plain","text":` + raw + `}` }
	blob := func(mime, raw string) string {
		return `{"uri":"` + uri + `","mimeType":"` + mime + `","blob":` + raw + `}`
	}
	asJSON := func(raw string) string {
		return `{"uri":"` + uri + `","mimeType":"application/json","text":` + string(wire.Quote(raw)) + `}`
	}
	const image, sound, words = `{"type":"image","mimeType":"image/png","data":"AA=="}`, `{"type":"audio","mimeType":"audio/wav","data":"AQ=="}`, `{"type":"text","text":"caf\u00e9"}`
	for data, want := range map[string]string{
		`"caf\u00e9"`:                   text(`"caf\u00e9"`),
		`{"n":1.10}`:                    asJSON(`{"n":1.10}`),
		`12.0`:                          asJSON(`12.0`),
		`null`:                          asJSON(`null`),
		`[]`:                            asJSON(`[]`),
		`[` + image + `]`:               blob("image/png", `"AA=="`),
		image:                           blob("image/png", `"AA=="`),
		`[` + words + `,` + sound + `]`: text(`"caf\u00e9"`) + `,` + blob("audio/wav", `"AQ=="`),
		// What only looks like content is data.
		`[` + words + `]`:                            asJSON(`[` + words + `]`),
		`[` + image + `,{"type":"link"}]`:            asJSON(`[` + image + `,{"type":"link"}]`),
		`[` + image + `,1]`:                          asJSON(`[` + image + `,1]`),
		`{"type":"image","mimeType":"x/y","data":5}`: asJSON(`{"type":"image","mimeType":"x/y","data":5}`),
		`{"type":"image","data":"AA=="}`:             asJSON(`{"type":"image","data":"AA=="}`),
	} {
		if got := string(contents(uri, []byte(data))); got != want {
			t.Errorf("%s\n got  %s\n want %s", data, got, want)
		}
	}
}

func TestNamesInAddresses(t *testing.T) {
	for uri, want := range map[string]string{
		"stoa://context/doc": "doc", "stoa://context/a-b_1": "a-b_1", "stoa://context/%64oc": "doc",
		"stoa://context/": "", "stoa://context/a/b": "", "stoa://context/a%2Fb": "", "stoa://context/%zz": "", "stoa://other/doc": "", "STOA://context/doc": "",
	} {
		name, ok := ValueName(uri)
		if ok != (want != "") || ok && name != want {
			t.Errorf("%s: %q, %v", uri, name, ok)
		}
		if ok && want == "doc" && ValueURI(name) != "stoa://context/doc" {
			t.Errorf("%s is written %s", name, ValueURI(name))
		}
	}
}
