package blackbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// B21: smaller things that hosts before Stoa could do.

func TestWhoIsConnectedIsListed(t *testing.T) {
	t.Parallel()
	h := serve(t, object{})
	bob := h.token(t, "bob")
	h.socket(t, "/ws?sessionId=talk", h.owner, nil)
	his := h.socket(t, "/ws?sessionId=his", bob, nil)
	h.socket(t, "/ws/crud", h.owner, nil)
	got := h.post(t, "/s/work/mcp", h.owner, hello)
	id := got.header.Get("Mcp-Session-Id")
	if id == "" {
		t.Fatalf("no connection: %d %s", got.status, clip(got.text))
	}
	listed := func(token string) (all []string, text string) {
		t.Helper()
		got := h.get(t, "/api/v1/connections", token)
		var answer struct {
			Connections []struct{ Kind, Principal, Session, Agent string }
		}
		if err := json.Unmarshal([]byte(got.text), &answer); err != nil || got.status != http.StatusOK {
			t.Fatalf("connections: %d %s", got.status, clip(got.text))
		}
		for _, c := range answer.Connections {
			all = append(all, c.Kind+" "+c.Principal+" "+c.Session+c.Agent)
		}
		slices.Sort(all)
		return all, got.text
	}
	want := []string{"agent local crud", "chat bob his", "chat local talk", "mcp local work"}
	await.NoError(t, "all are listed", func() error {
		all, text := listed(h.owner)
		lacks(t, "the list, by which nobody gets into a connection", text, id)
		if !slices.Equal(all, want) {
			return fmt.Errorf("%q", all)
		}
		return nil
	})
	if all, _ := listed(bob); !slices.Equal(all, []string{"chat bob his"}) {
		t.Errorf("bob sees %q", all)
	}
	out, err := h.run(t, "sessions", "connections", "--data", h.data, "--config", h.config)
	if err != nil {
		t.Error(err)
	}
	mentions(t, "`stoa sessions connections`", out, "his")
	_ = his.conn.CloseNow()
	await.Until(t, "who has gone is not listed", func() bool {
		all, _ := listed(bob)
		return len(all) == 0
	})
}

func TestFoldersByAVariable(t *testing.T) {
	t.Parallel()
	h := prepare(t, object{})
	notes, docs := filepath.Join(h.folder, "notes"), filepath.Join(h.folder, "docs")
	for _, folder := range []string{notes, docs} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "tide.txt"), []byte("high at "+filepath.Base(folder)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(h.folder, "secret.txt"), []byte(mark), 0o600); err != nil {
		t.Fatal(err)
	}
	h.env = []string{"AIUR_MODULES=@legion/tools-registry/file=notes:" + docs}
	h.launch(t)
	read := func(path string) string {
		return h.tool(t, "/mcp", h.owner, "file_read", object{"path": path}).text
	}
	mentions(t, "a file of a folder that starts where the hub does", read(filepath.Join(notes, "tide.txt")), "high at notes")
	mentions(t, "a file of the other folder", read(filepath.Join(docs, "tide.txt")), "high at docs")
	lacks(t, "a file beside them", read(filepath.Join(h.folder, "secret.txt")), mark)
	mentions(t, "the list of tools", strings.Join(h.names(t, "/mcp", h.owner), " "), "file_read")
}

// Of those who change the same version of a value over MCP one succeeds.
func TestValueIsStoredOverAKnownVersion(t *testing.T) {
	t.Parallel()
	h := serve(t, object{})
	add := func(data string, over int) bool {
		got, err := h.try(http.MethodPost, "/s/work/mcp", h.owner, nil, rpc("tools/call", object{"name": "context_add", "arguments": object{"name": "plan", "data": data, "over": over}}))
		return err == nil && strings.Contains(got.text, `"result"`) && !strings.Contains(got.text, `"isError":true`)
	}
	if !add("first", 0) {
		t.Fatal("nothing has the name, and it is taken")
	}
	if add("another", 0) {
		t.Error("what has the name is replaced by what was to be new")
	}
	var all sync.WaitGroup
	won := make(chan string, 8)
	for i := range cap(won) {
		all.Go(func() {
			if data := fmt.Sprint("change ", i); add(data, 1) {
				won <- data
			}
		})
	}
	all.Wait()
	if len(won) != 1 {
		t.Fatalf("%d of 8 have replaced version 1", len(won))
	}
	mentions(t, "the value", h.tool(t, "/s/work/mcp", h.owner, "context_get", object{"name": "plan"}).text, <-won)
}

// The agents of the bridge can be looked up before they are asked.
func TestBridgeOffersItsAgents(t *testing.T) {
	t.Parallel()
	const url = "ws://127.0.0.1:1"
	ask := bridge(t, nil, "--url", url, "--agent", "poet")
	listed := ask("resources/list", object{})
	mentions(t, "resources/list", listed, "ailumina://agents/poet")
	mentions(t, "resources/list", listed, "ailumina://agents/crud")
	mentions(t, "resources/templates/list", ask("resources/templates/list", object{}), "ailumina://agents/{agent_type}")
	mentions(t, "one of them", ask("resources/read", object{"uri": "ailumina://agents/poet"}), url+"/ws/poet")
	all := ask("resources/read", object{"uri": "ailumina://agents"})
	mentions(t, "all of them", all, "/ws/poet")
	mentions(t, "all of them", all, "/ws/crud")
	mentions(t, "an agent that is not there", ask("resources/read", object{"uri": "ailumina://agents/nobody"}), `"error"`)
}
