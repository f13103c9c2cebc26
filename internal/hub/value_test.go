package hub_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

func TestPicturesAreKept(t *testing.T) {
	hubtest.Parallel(t)
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
	hubtest.Parallel(t)
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
		read := func(c *hubtest.Client, uri string) hubtest.Message {
			return c.Call("resources/read", `{"uri":"`+uri+`"}`)
		}
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
	hubtest.Parallel(t)
	h, _ := keeping(t, peer.Spec{Tools: echoTool()})
	const uri, own = "stoa://context/doc", "stoa://context/own"
	for _, era := range bothEras {
		for _, face := range []string{"/mcp", "/s/told/mcp"} {
			listen := func(session string) (*hubtest.Client, *hubtest.Exchange) {
				o := hubtest.ClientOptions{Era: era, Face: face, Header: in(session)}
				if face != "/mcp" && session == "told" {
					o.Header = nil
				}
				c := h.Client(t, o)
				x := c.Listen(`{"resourcesListChanged":true,"resourceSubscriptions":["` + uri + `","` + own + `"]}`)
				for _, uri := range []string{uri, own} {
					if m := c.Call("resources/subscribe", `{"uri":"`+uri+`"}`); era == hubtest.Legacy && m.Error != nil {
						t.Fatalf("subscribe: %s", m.Raw)
					}
				}
				return c, x
			}
			_, x := listen("told")
			stranger, y := listen("elsewhere")
			writer := h.Client(t, hubtest.ClientOptions{Header: in("told")})
			for range 4 {
				put(t, writer, "doc", "1")
				x.Await("notifications/resources/list_changed")
				if m := x.Await("notifications/resources/updated"); !strings.Contains(string(m.Params), `"uri":"`+uri+`"`) {
					t.Errorf("%s, %s: %s", era, face, m.Raw)
				}
				put(t, writer, "doc", "2")
				x.Await("notifications/resources/updated")
				good(t, writer.Tool("context_remove", `{"name":"doc"}`))
				x.Await("notifications/resources/list_changed")
			}
			// Others hear of their own list, and of what the hub learned when it
			// started, but of none of these.
			put(t, stranger, "own", "1")
			lists := 0
			for m := y.Next(); m.Method != "notifications/resources/updated" || !strings.Contains(string(m.Params), own); m = y.Next() {
				if m.Method == "notifications/resources/list_changed" {
					lists++
				}
				if lists > 3 || strings.Contains(string(m.Params), uri) {
					t.Fatalf("%s, %s: another session heard %s", era, face, m.Raw)
				}
			}
			good(t, stranger.Tool("context_remove", `{"name":"own"}`))
		}
	}
}
