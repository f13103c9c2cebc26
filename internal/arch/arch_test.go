// Package arch holds the shape of the code base to the map in the design: who
// may import whom and why not, which dependency lives behind which package,
// and the few rules of style that a machine can check. It has no code of its
// own.
package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	repo   = "../.."
	module = "github.com/stoahub/stoa"
)

// file is one Go file of the module.
type file struct {
	path    string // from the root
	dir     string // its package, from the root; "." is the root
	pkg     string // the name in its package clause
	test    bool
	doc     bool // it has a package comment
	lines   int
	imports []string
	ast     *ast.File
	set     *token.FileSet
}

// load parses all Go files of the module.
func load(t *testing.T) []file {
	t.Helper()
	var files []file
	err := filepath.WalkDir(repo, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if p != repo && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || name == "vendor") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := read(p)
		if err != nil {
			return err
		}
		files = append(files, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("only %d files found: the test looks in the wrong place", len(files))
	}
	return files
}

func read(p string) (file, error) {
	src, err := os.ReadFile(p)
	if err != nil {
		return file{}, err
	}
	rel, err := filepath.Rel(repo, p)
	if err != nil {
		return file{}, err
	}
	f := file{path: filepath.ToSlash(rel), test: strings.HasSuffix(p, "_test.go"), lines: strings.Count(string(src), "\n"), set: token.NewFileSet()}
	f.dir = path.Dir(f.path)
	if f.ast, err = parser.ParseFile(f.set, f.path, src, parser.ParseComments|parser.SkipObjectResolution); err != nil {
		return file{}, err
	}
	f.pkg, f.doc = f.ast.Name.Name, f.ast.Doc != nil
	for _, i := range f.ast.Imports {
		f.imports = append(f.imports, strings.Trim(i.Path.Value, `"`))
	}
	return f, nil
}

// The layers, from the top. A package may import what is in a layer below its
// own; within a layer only what inside says.
const (
	entry       = iota // main, benchmarks, end-to-end tests
	test               // helpers of tests
	public             // the Go API
	command            // the command grammar
	composition        // the composition root
	surface            // speak to the outside, own no state
	domain             // own a vocabulary, know no transport
	foundation         // leaf packages, no domain words
)

var layerNames = map[int]string{entry: "entry", test: "test helpers", public: "public API", command: "command", composition: "composition root", surface: "surface", domain: "domain", foundation: "foundation"}

// layers places every package, also those that the design has and the code not
// yet. A folder stands for what is below it too.
var layers = map[string]int{
	".": entry, "bench": entry, "e2e": entry, "internal/arch": entry,
	"internal/hubtest": test, "internal/store/storetest": test, "internal/llm/llmtest": test, "internal/llm/oracle": test,
	"pkg":              public,
	"internal/cli":     command,
	"internal/hub":     composition,
	"internal/gateway": surface, "internal/router": surface, "internal/chatws": surface, "internal/viewer": surface, "internal/console": surface,
	"internal/attach": surface, "internal/bridge": surface, "internal/agentd": surface, "web": surface,
	"internal/call": domain, "internal/policy": domain, "internal/catalog": domain, "internal/upstream": domain, "internal/session": domain,
	"internal/plan": domain, "internal/incident": domain, "internal/task": domain, "internal/chat": domain, "internal/llm": domain, "internal/modules": domain, "internal/sample": domain, "internal/pin": domain,
	"internal/fault": foundation, "internal/mcp": foundation, "internal/wire": foundation, "internal/ailumina": foundation, "internal/journal": foundation, "internal/store": foundation, "internal/lease": foundation, "internal/relay": foundation, "internal/connection": foundation, "internal/roster": foundation, "internal/registration": foundation,
	"internal/event": foundation, "internal/exchange": foundation, "internal/schema": foundation, "internal/guard": foundation, "internal/auth": foundation, "internal/actor": foundation, "internal/config": foundation,
	"internal/obs": foundation, "internal/envelope": foundation, "internal/seal": foundation, "internal/secret": foundation, "internal/spell": foundation, "internal/rank": foundation, "internal/cert": foundation, "internal/pace": foundation, "internal/lobby": foundation, "internal/owned": foundation, "internal/folder": foundation, "internal/dial": foundation, "internal/suspect": foundation, "internal/vault": foundation, "internal/elapsed": foundation,
}

// inside lists the edges within a layer.
var inside = map[string][]string{
	"internal/plan":    {"internal/call", "internal/catalog", "internal/session", "internal/policy", "internal/llm"},
	"internal/chat":    {"internal/call", "internal/catalog", "internal/session", "internal/policy", "internal/llm"},
	"internal/modules": {"internal/call", "internal/catalog", "internal/session", "internal/plan", "internal/policy"},
	"internal/call":    {"internal/pin", "internal/policy", "internal/incident", "internal/session", "internal/task", "internal/upstream", "internal/catalog"},
	"internal/policy":  {"internal/catalog"},
	"internal/sample":  {"internal/policy", "internal/llm"},
	"internal/session": {"internal/catalog"},
	"internal/task":    {"internal/catalog"},
	// A call that waits for its client's input keeps its place, which only the
	// upstream knows of.
	"internal/upstream": {"internal/catalog", "internal/pin", "internal/task"},
	"internal/pin":      {"internal/catalog"},

	// The caller is part of a request: an actor, which is a principal and those who
	// act for it.
	"internal/mcp":        {"internal/wire", "internal/fault", "internal/auth", "internal/actor"},
	"internal/actor":      {"internal/auth", "internal/fault"},
	"internal/schema":     {"internal/wire", "internal/fault", "internal/spell"},
	"internal/auth":       {"internal/fault", "internal/secret", "internal/owned", "internal/journal", "internal/elapsed"},
	"internal/envelope":   {"internal/wire", "internal/fault"},
	"internal/config":     {"internal/fault", "internal/secret", "internal/spell", "internal/dial"},
	"internal/journal":    {"internal/fault", "internal/elapsed"},
	"internal/vault":      {"internal/journal"},
	"internal/store":      {"internal/fault", "internal/journal"},
	"internal/lease":      {"internal/store", "internal/elapsed"},
	"internal/roster":     {"internal/store", "internal/elapsed"},
	"internal/connection": {"internal/store", "internal/vault", "internal/journal"},
	"internal/relay":      {"internal/store", "internal/vault", "internal/auth", "internal/fault"},
	"internal/event":      {"internal/fault"},
	"internal/guard":      {"internal/fault"},
	"internal/obs":        {"internal/fault", "internal/secret"},
	"internal/ailumina":   {"internal/fault", "internal/wire", "internal/secret"},
	"internal/fault":      {"internal/secret"}, // what errors say of others is passed on without credentials

	"internal/registration": {"internal/fault", "internal/journal", "internal/store", "internal/vault"},
}

// forbidden gives the reason for an edge that crosses the map.
var forbidden = []struct {
	from, to int
	reason   string
}{
	{surface, surface, "surfaces never import each other: what two of them need belongs to the domain"},
	{domain, domain, "the domain has one direction, plan, chat and modules over call over policy, session, task and upstream over catalog; anything else becomes a circle"},
	{foundation, foundation, "foundation packages are leaves, so that each can be understood and tested alone"},
	{domain, surface, "the domain knows no transport: tools that need a surface are handed over by hub"},
	{foundation, domain, "foundation packages have no domain words; the domain tells them what they need as values and functions"},
	{foundation, surface, "foundation packages serve every surface alike"},
	{surface, composition, "hub composes the surfaces; a surface that knows hub cannot be tested without the world"},
}

func reason(from, to int) string {
	for _, f := range forbidden {
		if f.from == from && f.to == to {
			return f.reason
		}
	}
	return fmt.Sprintf("arrows go down: main, cli, hub, surfaces, domain, foundation; %s is not below %s", layerNames[to], layerNames[from])
}

// place finds the layer of a package and the name by which it is listed.
func place(dir string) (name string, layer int, ok bool) {
	for name = dir; ; name = path.Dir(name) {
		if layer, ok = layers[name]; ok && (name != "." || dir == ".") {
			return name, layer, true
		}
		if name == "." || name == "/" {
			return dir, 0, false
		}
	}
}

// judge says why a file of package from may not import package to; "" means
// that it may.
func judge(from, to string, inTest bool) string {
	from, above, ok := place(from)
	if !ok {
		return ""
	}
	to, below, ok := place(to)
	switch {
	case !ok || to == from || below > above && below != test:
		return ""
	case inTest && (below == test || above >= domain):
		return "" // a test may bring what it needs; what it tests stays a leaf
	case below == test && (above == entry || above == test):
		return ""
	case below == test:
		return "helpers of tests are not part of the product"
	case below == above && slices.Contains(inside[from], to):
		return ""
	}
	return reason(above, below)
}

func TestArrows(t *testing.T) {
	told := map[string]bool{}
	for _, f := range load(t) {
		if _, _, ok := place(f.dir); !ok && !told[f.dir] {
			told[f.dir] = true
			t.Errorf("%s is in no layer: say in the table of layers where it belongs, or give its code to a package that has a place", f.dir)
		}
		for _, imp := range f.imports {
			rel, own := strings.CutPrefix(imp, module)
			if !own {
				continue
			}
			to := path.Join(".", strings.TrimPrefix(rel, "/"))
			if why := judge(f.dir, to, f.test); why != "" {
				t.Errorf("%s imports %s: %s", f.path, to, why)
			}
		}
	}
}

func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		from, to string
		inTest   bool
		want     string // a part of the reason
	}{
		{".", "internal/cli", false, ""},
		{"internal/cli", "internal/hub", false, ""},
		{"internal/hub", "internal/gateway", false, ""},
		{"internal/gateway", "internal/call", false, ""},
		{"internal/call", "internal/upstream", false, ""},
		{"internal/upstream", "internal/catalog", false, ""},
		{"internal/upstream", "internal/mcp", false, ""},
		{"internal/mcp", "internal/auth", false, ""},
		{"internal/llm/gemini", "internal/llm", false, ""},
		{"pkg/stoa", "internal/hub", false, ""},
		{"internal/wire", "internal/catalog", true, ""},
		{"internal/hub", "internal/hubtest", true, ""},
		{"internal/hubtest", "internal/hub", false, ""},
		{"internal/hubtest", "internal/hubtest/peer", false, ""},
		{"bench", "internal/hubtest/peer", false, ""},
		{"internal/store/storetest", "internal/hubtest/port", false, ""},
		{"internal/gateway", "internal/router", false, "never import each other"},
		{"internal/upstream", "internal/call", false, "one direction"},
		{"internal/catalog", "internal/upstream", false, "one direction"},
		{"internal/call", "internal/gateway", false, "knows no transport"},
		{"internal/mcp", "internal/catalog", false, "no domain words"},
		{"internal/wire", "internal/mcp", false, "leaves"},
		{"internal/fault", "internal/wire", false, "leaves"},
		{"internal/router", "internal/hub", false, "without the world"},
		{"internal/hub", "internal/cli", false, "arrows go down"},
		{"internal/hub", "pkg/stoa", false, "arrows go down"},
		{"internal/hub", "internal/hubtest", false, "not part of the product"},
		{"internal/cli", ".", false, "arrows go down"},
	} {
		if got := judge(tc.from, tc.to, tc.inTest); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s to %s: %q", tc.from, tc.to, got)
		}
	}
}

// homes says which package a dependency lives behind. Tests are free to use
// them as oracles.
var homes = []struct {
	prefix string
	homes  []string
	reason string
}{
	{"github.com/santhosh-tekuri/jsonschema", []string{"internal/schema"}, "schema bounds what a foreign schema may cost"},
	{"github.com/google/jsonschema-go", nil, "schemas are compiled by internal/schema"},
	{"go.opentelemetry.io/otel", []string{"internal/obs"}, "obs owns how we are observed"},
	{"go.opentelemetry.io/proto", []string{"internal/hubtest/collector"}, "the receivers of tests decode what obs sends"},
	{"github.com/prometheus/", []string{"internal/obs"}, "obs owns how we are observed"},
	{"github.com/lmittmann/tint", []string{"internal/obs"}, "obs owns how we are observed"},
	{"github.com/DeRuina/timberjack", []string{"internal/obs"}, "obs owns how we are observed"},
	{"github.com/go-json-experiment/json", []string{"internal/wire"}, "one tokenizer, one strictness"},
	{"github.com/segmentio/encoding", []string{"internal/wire"}, "one tokenizer, one strictness"},
	{"encoding/json/jsontext", []string{"internal/wire"}, "one tokenizer, one strictness"},
	{"github.com/modelcontextprotocol/go-sdk", nil, "it is our oracle in tests, not our data path"},
	{"github.com/coder/websocket", []string{"internal/mcp", "internal/ailumina", "internal/chatws", "internal/viewer", "internal/cli", "internal/hubtest/wsagent", "internal/hubtest/wildconn"}, "mcp owns how messages are carried, ailumina what WebSocket agents say, chatws the sockets of the chat host, viewer those of who watches, and cli is a client of these, as the helpers of tests are"},
	{"github.com/nats-io/", []string{"internal/store", "internal/store/storetest"}, "store owns the engine"},
	{"github.com/minio/highwayhash", []string{"internal/store"}, "store checks the engine's files"},
	{"google.golang.org/genai", nil, "the providers' SDKs are oracles in tests: adr/0008"},
	{"github.com/openai/", nil, "the providers' SDKs are oracles in tests: adr/0008"},
	{"github.com/anthropics/", nil, "the providers' SDKs are oracles in tests: adr/0008"},
	{"github.com/ollama/", nil, "the providers' SDKs are oracles in tests: adr/0008"},
	{"github.com/alecthomas/kong", []string{"internal/cli"}, "cli owns the command grammar"},
	{"github.com/goccy/go-yaml", []string{"internal/config"}, "config reads files in every form"},
	{"github.com/fsnotify/", []string{"internal/hub", "internal/agentd"}, "who serves files decides when they are read again; config itself watches nothing"},
	{"github.com/tailscale/hujson", []string{"internal/config"}, "config reads files in every form"},
	{"github.com/chromedp/", nil, "browsers are for tests"},
	{"github.com/stretchr/testify", nil, "tests use the standard library and go-cmp"},
}

func TestDependenciesStayAtHome(t *testing.T) {
	for _, f := range load(t) {
		if f.test {
			continue
		}
		for _, imp := range f.imports {
			for _, h := range homes {
				if strings.HasPrefix(imp, h.prefix) && !slices.Contains(h.homes, f.dir) {
					t.Errorf("%s imports %s: %s", f.path, imp, h.reason)
				}
			}
		}
	}
}

const maxLines = 800

// Names that say nothing; what has such a name grows without end.
var emptyNames = []string{"util", "utils", "common", "helper", "helpers", "types", "tools", "shared", "manager", "service", "core", "misc", "lib", "base"}

func TestFilesAndPackages(t *testing.T) {
	documented, tested := map[string]bool{}, map[string]bool{}
	for _, f := range load(t) {
		if f.lines > maxLines {
			t.Errorf("%s has %d lines; more than %d cannot be read in one go: split it by its nouns", f.path, f.lines, maxLines)
		}
		if slices.Contains(emptyNames, f.pkg) {
			t.Errorf("%s: package %s is named after nothing it owns", f.path, f.pkg)
		}
		if f.test && f.dir != "internal/arch" {
			tested[f.dir] = true
			continue
		}
		documented[f.dir] = documented[f.dir] || f.doc
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no package comment: say what it owns, promises and does not do", dir)
		}
	}
	for dir := range tested {
		if _, ok := documented[dir]; !ok {
			t.Errorf("%s has tests and no package they test", dir)
		}
	}
}

// sleepers may sleep in tests, each for a reason.
var sleepers = map[string]string{}

// A test that sleeps is slow where the machine is fast and fails where it is
// slow.
func TestNoTestSleeps(t *testing.T) {
	for _, f := range load(t) {
		if !f.test || sleepers[f.path] != "" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Sleep" {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" {
				t.Errorf("%s sleeps: wait for what is to happen, with a deadline, or use testing/synctest", f.set.Position(n.Pos()))
			}
			return true
		})
	}
	for p := range sleepers {
		if _, err := os.Stat(filepath.Join(repo, p)); err != nil {
			t.Errorf("%s may sleep and does not exist any more", p)
		}
	}
}
