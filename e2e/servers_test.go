package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
)

// exposedName is what every host accepts as the name of a tool, with room left for the host's own prefix.
var exposedName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,47}$`)

// TestPublishedServers has real servers do real work through the hub, and looks at what they left on disk.
func TestPublishedServers(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	folder := resolvedFolder(t)
	graph := filepath.Join(t.TempDir(), "graph.jsonl")
	h := startHub(t, set, published(set, folder, graph))

	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			t.Run("filesystem", func(t *testing.T) { useFiles(t, set, d, h, folder) })
			t.Run("memory", func(t *testing.T) { useMemory(t, set, d, h, graph) })
		})
	}
}

func useFiles(t *testing.T, set toolset, d dialect, h hub, folder string) {
	path := filepath.Join(folder, d.name+".txt")
	text := "written by " + d.name + "\nπάντα ῥεῖ\t\"quoted\" \\ \u2028\n"
	perform(t, set, d, target{URL: h.merged()}, []expectation{
		{"names", awaitTools("files__write_file", "memory__read_graph", "everything__echo"), func(t *testing.T, o outcome) {
			for _, name := range listed(t, o, "tools", "name") {
				if !exposedName.MatchString(name) {
					t.Errorf("tool name %q is not portable", name)
				}
			}
		}},
		{"write", call("files__write_file", map[string]any{"path": path, "content": text}), mentions(path)},
		{"read", call("files__read_text_file", map[string]any{"path": path}), saysText(text)},
		{"list", call("files__list_directory", map[string]any{"path": folder}), mentions(d.name + ".txt")},
		{"outside", call("files__read_text_file", map[string]any{"path": filepath.Join(filepath.Dir(folder), "elsewhere")}), toolFails},
	})
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != text {
		t.Errorf("on disk: %q, want %q", got, text)
	}
}

func useMemory(t *testing.T, set toolset, d dialect, h hub, graph string) {
	name := "Zeno of " + d.name
	entity := map[string]any{"name": name, "entityType": "person", "observations": []string{"taught in the stoa"}}
	perform(t, set, d, target{URL: h.agent("memory")}, []expectation{
		{"create", call("create_entities", map[string]any{"entities": []any{entity}}), mentions(name)},
		{"search", call("search_nodes", map[string]any{"query": name}), mentions("taught in the stoa")},
		{"resource", read("memory://knowledge-graph"), reads("memory://knowledge-graph", name)},
		{"no-prompts", prompt("none", nil), fails(-32601)},
	})
	text, err := os.ReadFile(graph)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), name) {
		t.Errorf("the graph on disk has no %q: %s", name, text)
	}
}
