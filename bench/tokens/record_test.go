package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/secret"
)

var update = flag.Bool("update", false, "write the recordings and the table in docs/performance.md anew")

// TestRecordings has the published servers do what was recorded, and compares.
// With -update it records.
func TestRecordings(t *testing.T) {
	modules := filepath.Join("..", "..", ".tools", "npm", "node_modules")
	node := installed(t, modules)
	for _, c := range conversations {
		t.Run(c.name, func(t *testing.T) {
			folder, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			furnish(t, folder)
			r := &recorder{folder: folder, values: map[string]any{}}
			var edits []hubtest.Edit
			for _, name := range c.servers {
				edits = append(edits, npm(node, modules, folder, name))
			}
			r.hub = hubtest.New(t, edits...)
			for _, name := range c.servers {
				got := r.ask(t, name, "tools/list", []byte("{}"))
				var list struct{ Tools json.RawMessage }
				if err := json.Unmarshal(got, &list); err != nil {
					t.Fatal(err)
				}
				if name != "archive" {
					hold(t, "testdata/tools/"+name+".json", list.Tools)
				}
			}
			var all []exchange
			for _, s := range c.steps {
				if s.server != "" {
					all = append(all, r.record(t, s))
				}
			}
			hold(t, "testdata/"+c.name+".json", encode(t, all))
		})
	}
}

// installed returns Node, or skips the test where the servers are not there.
func installed(t *testing.T, modules string) string {
	t.Helper()
	want, err := os.ReadFile(filepath.Join("..", "..", "e2e", "npm", "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(filepath.Join(filepath.Dir(modules), ".installed"))
	if err == nil && !bytes.Equal(want, have) {
		err = errors.New("the installed servers are not those of e2e/npm/package-lock.json")
	}
	var nodes []string
	if err == nil {
		nodes, _ = filepath.Glob(filepath.Join(modules, "node-*-*", "bin", "node"))
		if len(nodes) == 0 {
			err = errors.New("npm has no Node for this platform")
		}
	}
	if _, missing := exec.LookPath("git"); err == nil && missing != nil {
		err = missing
	}
	switch {
	case err == nil:
	case os.Getenv("STOA_E2E") == "require":
		t.Fatalf("%v; run `make tools`", err)
	default:
		t.Skipf("%v; run `make tools`", err)
	}
	path, err := filepath.Abs(nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// npm adds a published server.
func npm(node, modules, folder, name string) hubtest.Edit {
	bin := map[string]string{"files": "mcp-server-filesystem", "memory": "mcp-server-memory", "archive": "mcp-server-memory",
		"everything": "mcp-server-everything", "git": "git-mcp-server", "obsidian": "obsidian-mcp"}[name]
	args := map[string][]string{"files": {folder}, "obsidian": {"serve", "--vault", "notes=" + filepath.Join(folder, "vault")}}[name]
	return hubtest.Config(func(c *config.Config) {
		s := config.DefaultServer()
		s.Name, s.Title, s.Transport, s.Command = name, name, config.Stdio, node
		path, err := filepath.Abs(filepath.Join(modules, ".bin", bin))
		if err != nil {
			panic(err)
		}
		s.Args = append([]string{path}, args...)
		s.Env = map[string]secret.String{
			"MEMORY_FILE_PATH": secret.New(filepath.Join(folder, name+".jsonl")),
			"MCP_LOG_LEVEL":    secret.New("error"), "LOGS_DIR": secret.New(filepath.Join(folder, "git-logs")),
			"HOME": secret.New(folder), "GIT_CONFIG_NOSYSTEM": secret.New("1"), "TZ": secret.New("UTC"),
		}
		c.Servers = append(c.Servers, s)
	})
}

// recorder makes the calls of a conversation without handles: it writes out
// itself what references stand for.
type recorder struct {
	hub    *hubtest.Hub
	folder string         // what the conversations call /data
	values map[string]any // what saveAs would have kept
}

func (r *recorder) record(t *testing.T, s step) exchange {
	t.Helper()
	var args map[string]any
	if err := json.Unmarshal([]byte(s.args), &args); err != nil {
		t.Fatalf("%s: %v", s.args, err)
	}
	keep, _ := args["saveAs"].(string)
	delete(args, "saveAs")
	plain := encode(t, r.written(t, args))
	params := fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, s.tool, bytes.ReplaceAll(plain, []byte("/data/"), []byte(r.folder+"/")))
	result := r.ask(t, s.server, "tools/call", params)
	var said struct {
		IsError           bool
		Content           []struct{ Text string }
		StructuredContent any
	}
	if err := json.Unmarshal(result, &said); err != nil || said.IsError {
		t.Fatalf("%s: %v: %.500s", s.tool, err, result)
	}
	if keep != "" {
		if said.StructuredContent == nil {
			t.Fatalf("%s: the recorder keeps structured content alone", s.tool)
		}
		r.values[keep] = said.StructuredContent
	}
	return exchange{s.server, s.tool, plain, result}
}

var (
	refers   = regexp.MustCompile(`^@([a-z]+)((?:\.[A-Za-z]+|\[\d+\])*)$`)
	refersTo = regexp.MustCompile(`[A-Za-z]+|\d+`)
)

// written replaces references by what a model would write in their place.
func (r *recorder) written(t *testing.T, v any) any {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		for k, member := range v {
			v[k] = r.written(t, member)
		}
	case []any:
		for i, element := range v {
			v[i] = r.written(t, element)
		}
	case string:
		m := refers.FindStringSubmatch(v)
		if m == nil {
			return v
		}
		at, ok := r.values[m[1]]
		for _, part := range refersTo.FindAllString(m[2], -1) {
			switch from := at.(type) {
			case map[string]any:
				at, ok = from[part]
			case []any:
				i, err := strconv.Atoi(part)
				if ok = err == nil && i < len(from); ok {
					at = from[i]
				}
			}
		}
		if !ok {
			t.Fatalf("%s stands for nothing", v)
		}
		return at
	}
	return v
}

// uuid is what servers make up anew each time.
var uuid = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// ask calls a server by itself and returns the result with /data for the
// folder of this run, and without what differs each time.
func (r *recorder) ask(t *testing.T, server, method string, params []byte) json.RawMessage {
	t.Helper()
	h := &host{client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, url: r.hub.URL + "/mcps/" + server + "/mcp"}
	var result json.RawMessage
	if err := h.ask(t.Context(), method, params, &result); err != nil {
		t.Fatalf("%s of %s: %v", method, server, err)
	}
	result = bytes.ReplaceAll(result, []byte(r.folder), []byte("/data"))
	return uuid.ReplaceAll(result, []byte("00000000-0000-4000-8000-000000000000"))
}

// encode is json.Marshal without the escapes for HTML, which nobody here makes
// but would be counted.
func encode(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

// hold compares with a recording, or writes it.
func hold(t *testing.T, file string, got []byte) {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, got, "", " "); err != nil {
		t.Fatal(err)
	}
	b.WriteByte('\n')
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(b.String(), "\n")); diff != "" {
		t.Errorf("%s is not what the server says (go test ./bench/tokens -update), -recorded +said:\n%.4000s", file, diff)
	}
}
