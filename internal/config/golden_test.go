package config

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is out of date; run the test with -update (-file +now):\n%s", path, diff)
	}
}

func TestSchemaGolden(t *testing.T) { golden(t, "testdata/schema.golden.json", Schema()) }

func TestManualGolden(t *testing.T) { golden(t, "../../docs/config.md", manual()) }

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(Schema())))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("mem:schema", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:schema")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The schema and the decoder come from one table, but each kind of field
// writes both; this holds them together.
func TestSchemaAgreesWithDecoder(t *testing.T) {
	s := compiled(t)
	files, err := filepath.Glob("testdata/*.good.*")
	if err != nil {
		t.Fatal(err)
	}
	strict := 0
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		n := parse(&source{name: path}, data, &report{})
		if n == nil || n.get("stoa") == nil {
			continue
		}
		strict++
		n.prune()
		var v any
		if v, err = jsonschema.UnmarshalJSON(strings.NewReader(string(n.json()))); err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); err != nil {
			t.Errorf("%s: the schema refuses what the decoder takes: %v", path, err)
		}
	}
	if strict < 3 {
		t.Errorf("only %d strict files in the corpus", strict)
	}
}

// prune drops members that are null: the decoder takes them as not given, the
// schema tells an editor that something is missing there.
func (n *node) prune() {
	n.members = slices.DeleteFunc(n.members, func(m member) bool { return m.value.kind == null })
	for _, m := range n.members {
		m.value.prune()
	}
}

func TestSchemaRefuses(t *testing.T) {
	s := compiled(t)
	for _, doc := range []string{
		`{}`, `{"stoa":2}`, `{"stoa":1,"listne":"x"}`, `{"stoa":1,"limits":{"depth":-1}}`,
		`{"stoa":1,"servers":{"a":{"comand":"x"}}}`, `{"stoa":1,"servers":{"a":{"command":"x","idle":5}}}`,
		`{"stoa":1,"log":{"level":"loud"}}`, `{"stoa":1,"agents":[]}`,
		`{"stoa":1,"agents":{"a":true}}`, `{"stoa":1,"models":{"a":{"provider":"bing"}}}`, `{"stoa":1,"models":{"default":{}}}`, `{"stoa":1,"chat":{"temperature":3}}`,
		`{"stoa":1,"policy":"maybe"}`, `{"stoa":1,"policy":{"expiry":5}}`, `{"stoa":1,"policy":{"rule":[]}}`,
		`{"stoa":1,"chat":{"approvals":"maybe"}}`, `{"stoa":1,"chat":{"approvals":{"rules":[{"tools":["x"]}]}}}`,
	} {
		var v any
		if err := json.Unmarshal([]byte(doc), &v); err != nil {
			t.Fatal(err)
		}
		if s.Validate(v) == nil {
			t.Errorf("the schema takes %s", doc)
		}
	}
}
