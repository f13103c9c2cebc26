package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Manifest is what `stoa agent` serves: commands as tools, files and commands
// as resources, and prompts. Templates in it are text here; what they mean is
// the agent server's affair.
type Manifest struct {
	File         string // absolute
	Name         string // fits ^[a-z][a-z0-9-]{0,19}$
	Title        string
	Instructions string
	Queue        Queue
	Tools        []ManifestTool
	Resources    []ManifestResource
	Prompts      []ManifestPrompt

	trace *trace
}

// ManifestTool is a tool that a command does the work of.
type ManifestTool struct {
	Name        string
	Title       string
	Description string
	Input       json.RawMessage // the schema of the arguments; nil where it was left out
	Output      json.RawMessage // the schema of the structured result; nil for none
	Form        string          // of the output: text or json
	ExitCodes   []int           // besides 0, those that are no failure
	Hints       ManifestHints
	Exec        Exec
}

// ManifestHints are what a client may want to know before it calls; nil where
// nothing is said.
type ManifestHints struct {
	ReadOnly, Destructive, Idempotent, OpenWorld *bool
}

// Exec is a command and how it runs.
type Exec struct {
	// Command is the program and its arguments, as groups of elements that are
	// there or left out together; most groups are one element.
	Command     [][]string
	Stdin       string // json, none, a template, or "" where it was left out
	Env         map[string]string
	InheritEnv  InheritEnv
	Cwd         string // absolute
	Timeout     time.Duration
	MaxTimeout  time.Duration
	OutputBytes int
}

// ManifestResource is a file or the output of a command, to be read.
type ManifestResource struct {
	Name        string
	URI         string // with {variables} where it is a template
	Title       string
	Description string
	MimeType    string
	File        string            // absolute; "" where a command gives the contents
	Variables   map[string]string // the pattern of each variable
	Exec        Exec              // no Command where there is a File
}

// ManifestPrompt is a prompt.
type ManifestPrompt struct {
	Name        string
	Title       string
	Description string
	Arguments   []ManifestArgument
	Text        string // the one message of a user; "" where there are Messages
	Messages    []ManifestMessage
}

// ManifestArgument is an argument of a prompt.
type ManifestArgument struct {
	Name        string
	Title       string
	Description string
	Required    bool
}

// ManifestMessage is one message of a prompt.
type ManifestMessage struct {
	Role string
	Text string
}

// manifestNames are the files looked for where none is named.
var manifestNames = []string{"agent.yaml", "agent.yml", "agent.jsonc", "agent.json"}

// maxEntries bounds the tools, the resources and the prompts of a manifest.
const maxEntries = 1000

// FindManifest returns the manifest of the folder; "." is the current one.
func FindManifest(dir string) (string, error) {
	for _, name := range manifestNames {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no manifest in %s: none of %s is there", dir, strings.Join(manifestNames, ", "))
}

// LoadManifest reads the manifest of an agent; env is nil for the environment
// of the process. The error, if any, is Problems.
func LoadManifest(path string, env func(string) (string, bool)) (*Manifest, error) {
	if env == nil {
		env = os.LookupEnv
	}
	var r report
	m := &Manifest{Queue: defaultQueue, trace: &trace{places: map[string]place{}}}
	data, err := readBounded(path)
	if err != nil {
		return nil, Problems{{File: path, Text: "reading the manifest: " + cause(err), Hint: "name an existing file"}}
	}
	dir := filepath.Dir(path)
	if abs, err := filepath.Abs(path); err == nil {
		m.File, dir = abs, filepath.Dir(abs)
	}
	beside := readEnvFile(filepath.Join(dir, ".env"), true, &r, 0)
	src := &source{name: path, workspace: dir, strict: true, env: environ{env: env}.with(beside)}
	n := parse(src, data, &r)
	d := decoder{report: &r, src: src, trace: m.trace}
	switch {
	case n != nil && n.get("agent") == nil:
		d.problem(n.at, "", "write `agent: 1` into it, if it is one", "the file is no manifest of an agent")
	case n != nil:
		decodeObject(&d, n, "", m, manifestFields())
	case len(r.problems) == 0:
		d.problem(position{1, 1}, "", "begin with `agent: 1`", "the file is empty")
	}
	if m.Name == "" {
		m.Name = manifestName(m.File)
	}
	m.trace.env = src.env
	if len(r.problems) == 0 { // what is missing may be what is misspelt
		m.check(func(path, hint, format string, args ...any) { r.problem(m.Wrong(path, hint, format, args...)) })
	}
	if len(r.problems) > 0 {
		return nil, r.problems.sorted()
	}
	return m, nil
}

// sorted puts the problems in the order of the file.
func (p Problems) sorted() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return p
}

// manifestName is the name of an agent whose manifest gives none: that of the
// file, or of its folder where the file's says nothing.
func manifestName(file string) string {
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	if name == "agent" {
		name = filepath.Base(filepath.Dir(file))
	}
	return cmp.Or(Slug(name), "agent")
}

// check looks at what concerns more than one key.
func (m *Manifest) check(problem func(path, hint, format string, args ...any)) {
	for i := range m.Tools {
		t := &m.Tools[i]
		at := under("/tools", t.Name)
		if len(t.Exec.Command) == 0 && !m.said(at+"/command") {
			problem(at, `write it as ["program", "argument"]`, "the tool %q has no command", t.Name)
		}
		if t.Output != nil && t.Form != "json" {
			problem(at+"/outputSchema", "write `output: json`", "there is a schema for an output that is text")
		}
		m.checkTimes(at, &t.Exec, problem)
	}
	for i := range m.Resources {
		r := &m.Resources[i]
		at := under("/resources", r.Name)
		switch {
		case r.URI == "" && !m.said(at+"/uri"):
			problem(at, `write an address of your own, as in "notes://today"`, "the resource %q has no uri", r.Name)
		case r.File != "" && len(r.Exec.Command) > 0:
			problem(at, "keep one of them", "the resource %q has both a file and a command", r.Name)
		case r.File == "" && len(r.Exec.Command) == 0 && !m.said(at+"/command") && !m.said(at+"/file"):
			problem(at, "say where its contents come from", "the resource %q has neither a file nor a command", r.Name)
		}
		m.checkTimes(at, &r.Exec, problem)
	}
	for i := range m.Prompts {
		p := &m.Prompts[i]
		at := under("/prompts", p.Name)
		switch text, messages := m.said(at+"/text"), m.said(at+"/messages"); {
		case text && messages:
			problem(at, "keep one of them", "the prompt %q has both text and messages", p.Name)
		case !text && !messages:
			problem(at, "write its text", "the prompt %q says nothing", p.Name)
		}
	}
}

func (m *Manifest) checkTimes(at string, e *Exec, problem func(path, hint, format string, args ...any)) {
	if e.MaxTimeout < e.Timeout && m.said(at+"/maxTimeoutMs") {
		problem(at+"/maxTimeoutMs", "raise it, or lower timeoutMs", "is less than timeoutMs, which is %d", e.Timeout.Milliseconds())
	}
	e.MaxTimeout = max(e.MaxTimeout, e.Timeout)
}

// said reports whether the file gives a value at path.
func (m *Manifest) said(path string) bool { return known(m.trace, path) }

// Said reports whether the file gives the value at the JSON pointer.
func (m *Manifest) Said(path string) bool { return m.said(path) }

// Wrong returns a problem with the value at the JSON pointer path, for who
// finds more wrong with a manifest than its form.
func (m *Manifest) Wrong(path, hint, format string, args ...any) Problem {
	bad := Problem{File: m.File, Pointer: path, Text: fmt.Sprintf(format, args...), Hint: hint}
	if p, ok := m.trace.find(path); ok && p.src != nil {
		bad.File, bad.Line, bad.Column, bad.Pointer = p.src.name, p.at.line, p.at.column, p.ptr
	}
	return bad
}

// Problems returns all of them as an error, in the order of the file; nil for
// none.
func (m *Manifest) Problems(all []Problem) error {
	if len(all) == 0 {
		return nil
	}
	return Problems(all).sorted()
}

// manifestTree is the schema of a manifest.
func manifestTree() *schema {
	s := objectSchema(&Manifest{Queue: defaultQueue}, manifestFields())
	s.Dialect = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "Stoa agent"
	s.Description = "The manifest of an agent that `stoa agent` serves."
	s.Required = []string{"agent"}
	return s
}

// ManifestSchema returns the JSON Schema (2020-12) of a manifest, indented.
func ManifestSchema() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(manifestTree()); err != nil {
		panic("config: the schema of manifests cannot be encoded: " + err.Error()) // only plain values are in it
	}
	return b.Bytes()
}
