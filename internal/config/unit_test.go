package config

import (
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSlug(t *testing.T) {
	tests := map[string]string{
		"github": "github", "GitHub": "github", "My Server": "my-server", "@scope/pkg": "scope-pkg", "a__b--c": "a-b-c",
		"21st": "s-21st", "a.very.long.name.that.has.to.be.cut": "a-very-long-name-tha", "aaaaaaaaaaaaaaaaaaa-b": "aaaaaaaaaaaaaaaaaaa",
		"": "", "日本": "", "--": "", "x日": "x",
	}
	fits := regexp.MustCompile(`^[a-z][a-z0-9-]{0,19}$`)
	for name, want := range tests {
		got := Slug(name)
		if got != want || got != "" && !fits.MatchString(got) {
			t.Errorf("Slug(%q) = %q, want %q", name, got, want)
		}
		if Slug(got) != got {
			t.Errorf("Slug(%q) is not its own slug", got)
		}
	}
}

func TestEnvFile(t *testing.T) {
	dir := folder(t, ".env", "\ufeff# c\r\nA=1\r\n\nexport B = two words # c\nC='#$x'\nD=\"a\\\"b\\tc\\q\" # c\nE=\"line1\nline2\"\nF=\nG=a#b\nH= # only a comment\n")
	var r report
	f := readEnvFile(dir+"/.env", false, &r, 0)
	want := map[string]string{"A": "1", "B": "two words", "C": "#$x", "D": "a\"b\tc\\q", "E": "line1\nline2", "F": "", "G": "a#b", "H": ""}
	if diff := cmp.Diff(want, f.vars); diff != "" || len(r.problems) > 0 {
		t.Errorf("-want +got\n%s %v", diff, r.problems)
	}
	bad := folder(t, ".env", "A=1\nnonsense secret\nB='open\nC=2\nD='x' y\n")
	f = readEnvFile(bad+"/.env", false, &r, 0)
	var lines []int
	for _, p := range r.problems {
		lines = append(lines, p.Line)
		if strings.Contains(p.Text, "secret") {
			t.Errorf("the problem quotes the line: %v", p)
		}
	}
	// B's quote closes at D's, so only lines 2 and 3 are wrong.
	if diff := cmp.Diff([]int{2, 3}, lines); diff != "" || f.vars["A"] != "1" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestEnvFilePrecedence(t *testing.T) {
	dir := folder(t, "stoa.yaml", "stoa: 1\nservers: {a: {command: '${V}-${W}-${X}-${Y}'}}", ".env", "V=dot\nW=dot\nX=dot\nY=dot", "one.env", "V=one\nW=one\nX=one", "two.env", "V=two\nW=two")
	c, _ := must(t, Options{Dir: dir, EnvFiles: []string{"one.env", "two.env"}, Env: fixed("V", "real")})
	if got := c.Servers[0].Command; got != "real-two-one-dot" {
		t.Errorf("got %q", got)
	}
	if v, ok := c.Lookup("Y"); !ok || v != "dot" {
		t.Errorf("Lookup = %q, %v", v, ok)
	}
}

func TestBounds(t *testing.T) {
	var many strings.Builder
	many.WriteString("stoa: 1\nservers:\n")
	for i := range maxServers + 5 {
		many.WriteString("  a" + strings.Repeat("b", i%9) + string(rune('a'+i/9%26)) + string(rune('a'+i/234)) + ": {command: x}\n")
	}
	for name, file := range map[string][2]string{
		"large":     {"larger than 4 MiB", strings.Repeat(" ", maxFileBytes+1)},
		"values":    {"more than 200000 values", `{"stoa": 1, "agents": {"a": [` + strings.Repeat("1,", maxNodes) + "]}}"},
		"tokens":    {"more than 100000 words", "stoa: 1\nagents: {a: [" + strings.Repeat("1,", maxTokens) + "]}"},
		"servers":   {"more than 1000 servers", many.String()},
		"encoding":  {"not UTF-8", "stoa: 1\ndata: \xff"},
		"problems":  {"more than 200 problems", "stoa: 1\nauth: {hosts: [" + strings.Repeat("'*',", 500) + "]}"},
		"tags":      {"nested more than", "stoa: 1\nagents: " + strings.Repeat("!!map ", 500) + "{}"},
		"questions": {"nested more than", strings.Repeat("? ", 5000) + "x"},
	} {
		t.Run(name, func(t *testing.T) {
			as := "stoa.yaml"
			if strings.HasPrefix(file[1], "{") {
				as = "stoa.json"
			}
			dir := folder(t, as, file[1])
			_, _, err := Load(Options{Dir: dir, UserDir: dir, Env: fixed()})
			if err == nil || !strings.Contains(err.Error(), file[0]) {
				t.Errorf("want %q, got %.300v", file[0], err)
			}
		})
	}
}

func TestForeignNotes(t *testing.T) {
	for file, want := range map[string]string{
		`{"mcpServers": {}, "globalShortcut": 1, "listen": "x"}`:  "listen left out: the file is not marked as Stoa's own; write `stoa: 1`",
		`{"mcpServers": {}, "store": {"url": "x"}, "policy": {}}`: "store, policy left out: the file is not marked",
		`{"theme": "dark"}`: "no servers found",
		`{"mcpServers": {"a": {"command": "x", "autoApprove": []}}}`:    "/mcpServers/a: not read: autoApprove",
		`{"mcpServers": {"My A": {"command": "x"}}}`:                    `the server "My A" is called my-a here`,
		`{"mcpServers": {"a": {"url": "http://x", "env": {"A": ""}}}}`:  "have no effect on a server with a url",
		`{"mcpServers": {"a": {"command": "x", "headers": {"A":"b"}}}}`: "headers have no effect",
		`{"mcp": {"servers": {"a": {"command": "x"}}, "x": 1}}`:         "/mcp: not read: x",
		``: "the file is empty",
	} {
		name := "mcp.json"
		if file == "" {
			name, file = "stoa.yaml", "# nothing\n"
		}
		_, notes := must(t, Options{Dir: folder(t, name, file)})
		found := false
		for _, n := range notes {
			if grave := strings.Contains(n.Text, "not marked as Stoa's own"); (n.Level() == slog.LevelWarn) != grave {
				t.Errorf("%s: %v is at level %v", file, n, n.Level())
			}
			found = found || strings.Contains(n.String(), want) && n.Line > 0
		}
		if !found {
			t.Errorf("%s: no note %q in %v", file, want, notes)
		}
	}
}
