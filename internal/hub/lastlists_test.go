package hub_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store/storetest"
	"github.com/stoahub/stoa/internal/upstream"
)

// A hub that was started again lists at once what it listed before, says that it
// is unconfirmed, and tells of what is another when the server has answered.
func TestRestartedHubListsAtOnce(t *testing.T) {
	hubtest.Parallel(t)
	data := filepath.Join(t.TempDir(), "data")
	f := &forgetful{style: "go"}
	f.start(t)
	up := hubtest.HTTP("up", "http://"+f.address)
	first := hubtest.New(t, hubtest.Data(data), up)
	if c := first.Client(t, hubtest.ClientOptions{}); !offers(c, "up__look") {
		t.Fatal("the tool is not offered at all")
	}
	first.Stop()
	f.stop() // it is away when the hub starts

	next := hubtest.New(t, hubtest.Data(data), up)
	c := next.Client(t, hubtest.ClientOptions{Era: hubtest.Modern})
	m := c.Call("tools/list", "{}")
	if text := string(m.Raw); !strings.Contains(text, `"up__look"`) || !strings.Contains(text, `"stoa/stale":["up"]`) || !strings.Contains(text, `"ttlMs":0`) {
		t.Errorf("the list of the hub that was started again: %.300s", text)
	}
	if st := status(t, next, "up"); st.State == upstream.Connected || !st.Stale || st.Tools != 2 {
		t.Errorf("its status: %+v", st)
	}

	// When the server is back, what it offers is confirmed.
	f.start(t)
	t.Cleanup(f.stop)
	await.Until(t, "the server is connected", func() bool {
		st := status(t, next, "up")
		return st.State == upstream.Connected && !st.Stale
	})
	if m := c.Tool("up__act", `{"n":1}`); m.Text() != "done" {
		t.Errorf("a call: %s", m.Raw)
	}
	next.Stop()

	// Another server by the name has nothing to do with it.
	other := hubtest.New(t, hubtest.Data(data), hubtest.HTTP("up", "http://127.0.0.1:1/mcp", func(s *config.Server) {}))
	if m := other.Client(t, hubtest.ClientOptions{}).Call("tools/list", "{}"); strings.Contains(string(m.Raw), "up__look") {
		t.Errorf("what another server offered is offered: %.300s", m.Raw)
	}
}

// What a server offered is kept for all hubs on one store that are configured
// alike; what others keep of a server of that name does not replace it.
func TestHubsOnOneStoreKeepTheirLists(t *testing.T) {
	hubtest.Parallel(t)
	server := storetest.StartServer(t)
	shared := hubtest.Config(func(c *config.Config) { c.Store.URL = server.URL })
	f := &forgetful{style: "go"}
	f.start(t)
	whole := hubtest.HTTP("up", "http://"+f.address)
	part := hubtest.HTTP("up", "http://"+f.address, func(s *config.Server) { s.Tools.Deny = []string{"act"} })
	folders := [3]string{t.TempDir(), t.TempDir(), t.TempDir()}
	for _, folder := range folders { // they share what the fingerprints are made with
		if err := os.Chmod(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "key"), []byte(strings.Repeat("k", 43)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	listed := func(folder string, up hubtest.Edit) string {
		h := hubtest.New(t, hubtest.Data(folder), shared, up)
		defer h.Stop()
		c := h.Client(t, hubtest.ClientOptions{})
		return fmt.Sprint("look ", offers(c, "up__look"), ", act ", offers(c, "up__act"))
	}
	const all, some = "look true, act true", "look true, act false"
	if got := listed(folders[0], whole) + "; " + listed(folders[1], part); got != all+"; "+some {
		t.Fatal(got)
	}
	f.stop()
	for what, tc := range map[string]struct {
		folder string
		up     hubtest.Edit
		want   string
	}{
		"the first, started again":         {folders[0], whole, all},
		"the second, started again":        {folders[1], part, some},
		"another, configured as the first": {folders[2], whole, all},
	} {
		if got := listed(tc.folder, tc.up); got != tc.want {
			t.Errorf("%s: %s, want %s", what, got, tc.want)
		}
	}
}
