package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseDocument(t *testing.T) {
	for name, text := range map[string]string{
		"plan.yaml": "title: Deploy # it\nsteps:\n  - id: one\n    args: {source: \"@src\", n: 0755, ok: true, big: 12345678901234567890}\n",
		"plan.json": "{\"title\": \"Deploy\", // it\n\"steps\": [{\"id\": \"one\",\n\"args\": {\"source\": \"@src\", \"n\": 493, \"ok\": true, \"big\": 12345678901234567890}}],}",
	} {
		d, err := ParseDocument(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		want := `{"title":"Deploy","steps":[{"id":"one","args":{"source":"@src","n":493,"ok":true,"big":12345678901234567890}}]}`
		if diff := cmp.Diff(want, string(d.JSON)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

func TestDocumentPlaces(t *testing.T) {
	d, err := ParseDocument("stdin", []byte("title: T\nsteps:\n  - id: one\n    args:\n      a/b: 1\n  - id: two\n"))
	if err != nil {
		t.Fatal(err)
	}
	for pointer, want := range map[string]string{
		"/steps/0/args/a~1b": "stdin:5:7: /steps/0/args/a~1b: wrong",
		"/steps/1/args/x":    "stdin:6:5: /steps/1/args/x: wrong", // which is not there
		"/steps/9":           "stdin:2:1: /steps/9: wrong",
		"":                   "stdin:1:1: wrong",
	} {
		if got := d.Wrong(pointer, "", "wrong").String(); got != want {
			t.Errorf("%q: %s, want %s", pointer, got, want)
		}
	}
}

func TestWrongDocuments(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"p.yaml", "steps:\n  - id: one\n    args: {source: @src}\n", "p.yaml:3:20: the YAML is not well-formed: '@' is a reserved character; put it in quotes"},
		{"p.yaml", "a: 1\na: 2\n", `p.yaml:2:1: /a: the key "a" is there twice`},
		{"p.json", "{\"a\": }", "p.json:1:"},
		{"p.yaml", "", "the file is empty"},
		{"p.json", "[1]", "begin with the names of its members"},
	} {
		_, err := ParseDocument(tt.name, []byte(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %s", tt.text, err, tt.want)
		}
	}
	if _, err := ReadDocument("testdata/none.yaml"); err == nil || !strings.Contains(err.Error(), "name an existing file") {
		t.Errorf("no file: %v", err)
	}
}
