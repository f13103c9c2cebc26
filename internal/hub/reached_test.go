package hub_test

import (
	"bytes"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// Who calls a tool of a server that is just being reached waits for it, by
// whichever form of the name; who names one that never answers is told so.
func TestCallOfAServerBeingReached(t *testing.T) {
	hubtest.Parallel(t)
	slow, answer := tardyPeer(t)
	h := hubtest.New(t, hubtest.HTTP("slow", slow), hubtest.Stdio("mute", mutePeer()))
	c := h.Client(t, hubtest.ClientOptions{})
	calls := map[string]*hubtest.Exchange{}
	for _, name := range []string{"slow__echo", "slow:echo", "mcp:slow:echo", "mute__echo", "mute:echo"} {
		calls[name] = c.Go("tools/call", hubtest.ToolParams(name, `{"a":1}`))
	}
	answer(slices.Collect(maps.Values(calls))...)
	for name, x := range calls {
		m := x.Response()
		if strings.Contains(name, "slow") {
			if m.Text() != `{"a":1}` {
				t.Errorf("%s: %s", name, m.Raw)
			}
			continue
		}
		if text := string(m.Raw); !strings.Contains(text, "mute: the upstream has not been reached yet: connecting") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// The first list of a hub waits for servers that were never read, for a while:
// many clients list once. One that does not come keeps nobody from the others.
func TestFirstListWaits(t *testing.T) {
	hubtest.Parallel(t)
	await.Until(t, "a first list comes while it is worth waiting", func() bool {
		slow, answer := tardyPeer(t)
		began := time.Now()
		h := hubtest.New(t, hubtest.HTTP("slow", slow), hubtest.Stdio("mute", mutePeer()))
		defer h.Stop()
		list := h.Client(t, hubtest.ClientOptions{}).Go("tools/list", "{}")
		answer(list)
		if m := list.Response(); strings.Contains(string(m.Result), `"slow__echo"`) {
			return true
		}
		if time.Since(began) < 5*time.Second { // or the machine is so busy that this tells nothing
			t.Fatal("the first list came before the server")
		}
		return false
	})
}

// tardyPeer is a server over HTTP that answers nothing before answer is called,
// which it does once each of these requests waits for a server, or has been
// answered without.
func tardyPeer(t *testing.T) (address string, answer func(...*hubtest.Exchange)) {
	web := peer.Serve(t, peer.Spec{Tools: echoTool()})
	inner, err := url.Parse(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = inner.Scheme, inner.Host
	}}
	transport := &http.Transport{}
	proxy.Transport = transport
	open := make(chan struct{})
	outer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-open:
			proxy.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(transport.CloseIdleConnections)
	t.Cleanup(outer.Close)
	return outer.URL + inner.Path, func(all ...*hubtest.Exchange) {
		await.Until(t, "the requests wait, or are answered", func() bool {
			early := 0
			for _, x := range all {
				if x.HasBegun() {
					early++
				}
			}
			return early+waiting() >= len(all)
		})
		close(open)
	}
}

// waiting counts the requests that wait for servers to be read.
func waiting() int {
	stacks, n := make([]byte, 8<<20), 0
	for one := range bytes.SplitSeq(stacks[:runtime.Stack(stacks, true)], []byte("\n\n")) {
		inFind := bytes.Contains(one, []byte("gateway.(*Gateway).find(")) && bytes.Contains(one, []byte("gateway.settle("))
		if inFind || bytes.Contains(one, []byte("gateway.(*Gateway).ensure(")) {
			n++
		}
	}
	return n
}

func mutePeer() peer.Spec {
	return peer.Spec{Tools: echoTool(), Era: peer.EraLegacy, Quirks: peer.Quirks{HangInitialize: true, SilentOnUnknown: true}}
}
