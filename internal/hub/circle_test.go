package hub_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// offeredNames are what a client of the merged face is offered by servers.
func offeredNames(t *testing.T, h *hubtest.Hub, era hubtest.Era) (out []string) {
	t.Helper()
	c := h.Client(t, hubtest.ClientOptions{Era: era})
	list := hubtest.Decode[struct{ Tools []struct{ Name string } }](c.Call("tools/list", "{}").Result)
	for _, tool := range list.Tools {
		if strings.Contains(tool.Name, "__") {
			out = append(out, tool.Name)
		}
	}
	return out
}

// passing forwards to wherever to says, as a proxy does that knows nothing of
// MCP.
func passing(t *testing.T, to func() string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		base, err := url.Parse(to())
		if err != nil {
			t.Error(err)
			return
		}
		r.SetURL(base)
	}, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), Transport: &http.Transport{DisableKeepAlives: true}})
	t.Cleanup(s.Close)
	return s
}

// later is the address of a hub that is not there yet.
type later struct{ url atomic.Pointer[string] }

func (l *later) set(url string) { l.url.Store(&url) }

func (l *later) get() string {
	if url := l.url.Load(); url != nil {
		return *url
	}
	return "http://127.0.0.1:1" // where nobody is
}

// A hub that is a server of itself, directly or through a proxy, is known by its
// id and refused.
func TestHubIsNoServerOfItself(t *testing.T) {
	hubtest.Parallel(t)
	for _, protocol := range []config.Protocol{config.AnyEra, config.Legacy} {
		t.Run(string(protocol), func(t *testing.T) {
			var self later
			proxy := passing(t, self.get)
			h := hubtest.New(t, hubtest.Stdio("real", peer.Spec{Tools: echoTool()}), hubtest.HTTP("me", proxy.URL+"/mcp", func(s *config.Server) { s.Protocol = protocol }))
			self.set(h.URL)
			await.Until(t, "the hub knows itself", func() bool { return strings.Contains(fmt.Sprint(status(t, h, "me").Error), "this hub itself") })
			await.Until(t, "the other server's tool is offered, and nothing else", func() bool {
				got := offeredNames(t, h, hubtest.Modern)
				return len(got) == 1 && got[0] == "real__echo"
			})
		})
	}
}

func TestHubDoesNotRegisterItself(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Stdio("real", peer.Spec{Tools: echoTool()}))
	proxy := passing(t, func() string { return h.URL })
	defer http.DefaultClient.CloseIdleConnections()
	for _, address := range []string{h.URL + "/mcp", proxy.URL + "/mcp", proxy.URL + "/mcps/real/mcp", strings.Replace(h.URL, "127.0.0.1", "localhost", 1) + "/mcp"} {
		body := fmt.Sprintf(`{"name":"again","url":%q}`, address)
		req, err := http.NewRequest(http.MethodPost, h.URL+"/mcps", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+h.Token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct{ Error struct{ Message string } }
		err = json.NewDecoder(resp.Body).Decode(&answer)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(answer.Error.Message, "this hub itself") {
			t.Errorf("%s: %d %+v, %v", address, resp.StatusCode, answer, err)
		}
	}
	await.Until(t, "the server's tool is offered, and nothing else", func() bool { return len(offeredNames(t, h, hubtest.Modern)) == 1 })
	if status, _ := h.Get("/mcps/again"); status != http.StatusNotFound {
		t.Errorf("it is still there: %d", status)
	}
}

// Hubs that have each other as servers offer each other what is their own.
func TestHubsInACircle(t *testing.T) {
	hubtest.Parallel(t)
	for _, protocol := range []config.Protocol{config.AnyEra, config.Legacy} {
		t.Run(string(protocol), func(t *testing.T) {
			const n = 3
			var urls [n]later
			var hubs [n]*hubtest.Hub
			speak := func(s *config.Server) { s.Protocol = protocol }
			for i := range n {
				next := passing(t, urls[(i+1)%n].get)
				before := passing(t, urls[(i+n-1)%n].get)
				hubs[i] = hubtest.New(t, hubtest.Stdio(fmt.Sprintf("own%d", i), peer.Spec{Tools: echoTool()}),
					hubtest.HTTP("next", next.URL+"/mcp", speak), hubtest.HTTP("before", before.URL+"/mcp", speak))
				urls[i].set(hubs[i].URL)
			}
			for i, h := range hubs {
				want := fmt.Sprintf("next__own%d__echo", (i+1)%n)
				await.Until(t, want+" is listed", func() bool { return strings.Contains(strings.Join(offeredNames(t, h, hubtest.Modern), " "), want) })
				c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy})
				if m := c.Tool(want, `{"a":1}`); m.Text() != `{"a":1}` {
					t.Errorf("hub %d, %s: %s", i, want, m.Raw)
				}
			}
			for i, h := range hubs {
				for _, name := range offeredNames(t, h, hubtest.Legacy) {
					if strings.Count(name, fmt.Sprintf("own%d", i)) > 0 && !strings.HasPrefix(name, fmt.Sprintf("own%d", i)) {
						t.Errorf("hub %d is offered its own tool as %s", i, name)
					}
					if strings.Count(name, "__") > 3 {
						t.Errorf("hub %d is offered %s", i, name)
					}
				}
			}
		})
	}
}
