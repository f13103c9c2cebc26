package mcp

import (
	"net/http"
	"testing"

	"github.com/stoahub/stoa/internal/wire"
)

func TestWhatAMessageAsksFor(t *testing.T) {
	for name, tc := range map[string]struct {
		header http.Header
		meta   string
		want   Asked
	}{
		"nothing":              {nil, ``, Asked{Session: "given"}},
		"other names":          {nil, `"session":"x","stoa/":1,"stoa/sessions":"x","xstoa/session":"y"`, Asked{Session: "given"}},
		"_meta":                {nil, `"stoa/session":"m","stoa/cards":true,"stoa/references":false`, Asked{Session: "m", Cards: On, References: Off}},
		"escaped":              {nil, `"stoa\/session":"\u006d"`, Asked{Session: "m"}},
		"header":               {http.Header{"Stoa-Session": {"h"}, "Stoa-Cards": {"off"}, "Stoa-References": {"on"}}, ``, Asked{Session: "h", Cards: Off, References: On}},
		"header before _meta":  {http.Header{"Stoa-Session": {"h"}, "Stoa-Cards": {"off"}}, `"stoa/session":"m","stoa/cards":true,"stoa/references":true`, Asked{Session: "h", Cards: Off, References: On}},
		"an empty header":      {http.Header{"Stoa-Session": {""}}, `"stoa/session":"m"`, Asked{Session: "m"}},
		"an empty name":        {nil, `"stoa/session":""`, Asked{Session: "given"}},
		"a name that is none":  {nil, `"stoa/session":["m"]`, Asked{Session: notText}},
		"null":                 {nil, `"stoa/session":null,"stoa/cards":null`, Asked{Session: notText, Cards: Unclear, References: Unsaid}},
		"switches unclear":     {http.Header{"Stoa-Cards": {"On"}, "Stoa-References": {""}}, ``, Asked{Session: "given", Cards: Unclear, References: Unclear}},
		"unclear before clear": {http.Header{"Stoa-Cards": {"yes"}}, `"stoa/cards":true`, Asked{Session: "given", Cards: Unclear, References: Unsaid}},
	} {
		var m wire.Message
		if err := m.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{`+tc.meta+`}}}`), wire.FromClient); err != nil {
			t.Fatal(err)
		}
		if got := asked(tc.header, &m, "given"); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}
