package hub_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
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
