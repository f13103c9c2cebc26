package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestArguments(t *testing.T) {
	const schema = `{"type":"object","$defs":{"point":{"type":"object","properties":{"x":{"type":"number"},"label":{"type":"string"}}}},
		"properties":{
			"text":{"type":"string"}, "n":{"type":"integer"}, "either":{"type":["string","number"]}, "maybe":{"anyOf":[{"type":"string"},{"type":"null"}]},
			"choice":{"enum":["1","2"]}, "fixed":{"const":"7"}, "any":{}, "tags":{"type":"array","items":{"type":"string"}},
			"sizes":{"anyOf":[{"type":"array","items":{"type":"integer"}},{"type":"null"}]},
			"at":{"$ref":"#/$defs/point"}, "a.b":{"type":"string"}, "bag":{"type":"object","additionalProperties":{"type":"string"}},
			"opt":{"oneOf":[{"$ref":"#/$defs/point"},{"type":"null"}]}, "loop":{"$ref":"#/properties/loop"}}}`
	for _, c := range []struct {
		words string // separated by |
		want  string // or the beginning of an error, after !
	}{
		{"", `{}`},
		{"text=3|n=3|any=3", `{"any":3,"n":3,"text":"3"}`},
		{"text=|any=", `{"any":"","text":""}`},
		{"any=true|text=true", `{"any":true,"text":"true"}`},
		{"any=1e400", `{"any":1e400}`},
		{"any=a=b", `{"any":"a=b"}`},
		{"any=<&>", `{"any":"<&>"}`},
		{`any="quoted"`, `{"any":"quoted"}`},
		{`text="quoted"`, `{"text":"\"quoted\""}`},
		{"either=5|maybe=null|choice=1|fixed=7", `{"choice":"1","either":"5","fixed":"7","maybe":"null"}`},
		{"maybe:=null|either:=5", `{"either":5,"maybe":null}`},
		{"tags=1|tags=2", `{"tags":["1","2"]}`},
		{`tags=["1"]`, `{"tags":["1"]}`},
		{`tags=["1"]|tags=2`, `!argument "tags" is given twice`},
		{"sizes=1|sizes=2", `{"sizes":[1,2]}`},
		{"at.x=1|at.label=1", `{"at":{"label":"1","x":1}}`},
		{"opt.label=1", `{"opt":{"label":"1"}}`},
		{"a.b=1|a.c=1", `{"a":{"c":1},"a.b":"1"}`},
		{"bag.k=1", `{"bag":{"k":"1"}}`},
		{"new.deep.er=1", `{"new":{"deep":{"er":1}}}`},
		{"loop=1", `{"loop":1}`},
		{`{"a": 1.0}`, `{"a": 1.0}`},
		{"-", `{"from":"stdin"}`},
		{"null", `!argument "null" is not key=value`},
		{"=1", `!argument "=1" is not key=value`},
		{"a..b=1", `!argument "a..b" has an empty part`},
		{"at=1|at.x=1", `!argument "at.x": at has been given a value`},
		{"at.x=1|at=1", `!argument "at" is given twice`},
		{"{", `!arguments: not a JSON object`},
		{"-|a=1", `!arguments: a whole object cannot be mixed`},
		{"n:=x", `!argument n: "x" is not JSON`},
	} {
		var words []string
		if c.words != "" {
			words = strings.Split(c.words, "|")
		}
		got, err := arguments(words, newShape(json.RawMessage(schema)), strings.NewReader(` {"from":"stdin"} `))
		if wrong, ok := strings.CutPrefix(c.want, "!"); ok {
			if err == nil || !strings.HasPrefix(err.Error(), wrong) || describe(err).code != exitUsage {
				t.Errorf("%s: %s, %v; want the usage error %s", c.words, got, err, wrong)
			}
			continue
		}
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v; want %s", c.words, got, err, c.want)
		}
	}
}

func TestArgumentsWithoutSchema(t *testing.T) {
	got, err := arguments([]string{"n=3", "t=x", "o.p=1"}, newShape(nil), nil)
	if want := `{"n":3,"o":{"p":1},"t":"x"}`; err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}
