package hub_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// A resource that is denied is not there, however its URI is written, for
// whoever reads it, hears of it or completes it.
func TestDeniedByAnySpelling(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{
		Resources: []peer.Resource{{URI: "mem://b/open", Text: "open"}, {URI: "MEM://b/./secret", Text: "one listed so"}},
		Templates: []peer.Template{{URITemplate: "mem://{+x}"}, {URITemplate: "MEM://{+x}"}, {URITemplate: "file:{+x}"}, {URITemplate: "file:///tmp/../etc/{x}"}},
	}
	denies := hubtest.Config(func(c *config.Config) {
		c.Policy.Rules = config.Rules{Rules: []config.Rule{{Resources: []string{"mem://b/secret", "file:///etc/*"}, Action: "deny"}}}
	})
	oneHub(t, spec, worldOptions{edits: []hubtest.Edit{denies}}, func(t *testing.T, w *world) {
		named := func(uri string) string {
			b, _ := json.Marshal(uri)
			if w.merged && !strings.HasPrefix(uri, " ") {
				b, _ = json.Marshal(w.up + "+" + uri)
			}
			return string(b)
		}
		if m := w.client.Call("resources/read", `{"uri":`+named("mem://b/open")+`}`); !strings.Contains(string(m.Result), `"open"`) {
			t.Errorf("one that nothing denies: %s", m.Raw)
		}
		for _, uri := range []string{"mem://b/secret", "mem://b/./secret", "MEM://b/secret", "mem://b/t/../secret", "mem://b/%73ecret", "mem://B/secret", "mem://b/secret?", "mem://b/secret#x",
			"file:///tmp/../etc/passwd", "file:/etc/passwd", "file:///%65tc/passwd"} {
			for method, params := range map[string]string{
				"resources/read":      fmt.Sprintf(`{"uri":%s}`, named(uri)),
				"completion/complete": fmt.Sprintf(`{"ref":{"type":"ref/resource","uri":%s},"argument":{"name":"x","value":"a"}}`, named(uri)),
			} {
				if kind, text := refusal(w.client.Call(method, params)); kind != "resource_not_found" {
					t.Errorf("%s %q: %s", method, uri, text)
				}
			}
			if w.era != hubtest.Legacy || w.merged {
				continue
			}
			if m := w.client.Call("resources/subscribe", fmt.Sprintf(`{"uri":%s}`, named(uri))); m.Error == nil {
				t.Errorf("subscribe %q: %s", uri, m.Raw)
			}
		}
		for _, list := range []string{"resources/list", "resources/templates/list"} {
			if m := w.client.Call(list, "{}"); strings.Contains(string(m.Result), "secret") || strings.Contains(string(m.Result), "/etc/") || m.Error != nil {
				t.Errorf("%s: %s", list, m.Raw)
			}
		}
	})
}
