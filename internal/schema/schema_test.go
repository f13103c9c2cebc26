package schema

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func compile(t testing.TB, raw string) *Schema {
	t.Helper()
	s, err := Compile([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func lines(faults []Fault) []string {
	var out []string
	for _, f := range faults {
		out = append(out, f.Pointer+" "+f.Message)
	}
	return out
}

const issueSchema = `{
	"type": "object",
	"properties": {
		"title": {"type": "string", "minLength": 3},
		"state": {"enum": ["open", "closed"]},
		"labels": {"type": "array", "items": {"type": "string"}, "uniqueItems": true},
		"assignee": {"type": "object", "properties": {"name": {"type": "string"}, "id": {"type": "integer", "minimum": 1}}, "required": ["id"]},
		"due": {"anyOf": [{"type": "string"}, {"type": "null"}]}
	},
	"required": ["title", "repository"],
	"additionalProperties": false
}`

func TestFiveMistakesAtOnce(t *testing.T) {
	s := compile(t, issueSchema)
	args := []byte(`{"title": 7, "state": "opened", "labels": ["a", 1], "assignee": {"name": "x"}, "lables": []}`)
	want := []string{
		`/assignee/id is required but missing`,
		`/labels/1 is a number but must be a string`,
		`/lables is not a property of this schema; did you mean "labels"?`,
		`/repository is required but missing`,
		`/state must be one of "open", "closed"; did you mean "open"?`,
		`/title is a number but must be a string`,
	}
	for range 20 { // objects are walked in random order
		if d := cmp.Diff(want, lines(s.Validate(args))); d != "" {
			t.Fatal(d)
		}
	}
	faults := s.Validate(args)
	if d := cmp.Diff([]any{"open", "closed"}, faults[4].Allowed); d != "" {
		t.Fatal(d)
	}
	if faults[2].Close != "labels" || len(faults[2].Allowed) != 5 {
		t.Fatalf("%+v", faults[2])
	}
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name, schema, args string
		want               []string
	}{
		{"absent is empty", `{"type":"object"}`, ``, nil},
		{"null is empty", `{"type":"object","required":["a"]}`, ` null `, []string{"/a is required but missing"}},
		{"not JSON", `{}`, `{"a"`, []string{" is not JSON: unexpected EOF"}},
		{"two values", `{}`, `{} {}`, []string{" is not JSON: more text after the value"}},
		{"big integers are exact", `{"properties":{"n":{"const":9007199254740993}}}`, `{"n":9007199254740992}`, []string{"/n must be 9007199254740993"}},
		{"1.0 is an integer", `{"properties":{"n":{"type":"integer"}}}`, `{"n":1.0}`, nil},
		{"pointer is escaped", `{"properties":{"a/b~c":{"type":"null"}}}`, `{"a/b~c":1}`, []string{"/a~1b~0c is a number but must be null"}},
		{"optional by anyOf", issueSchema, `{"title":"abc","repository":"r","due":4}`,
			[]string{`/due is a number but must be a string or null`, `/repository is not a property of this schema; it has "assignee", "due", "labels", "state", "title"`}},
		{"anyOf of constants", `{"properties":{"m":{"anyOf":[{"const":"a"},{"const":"b"},{"type":"null"}]}}}`, `{"m":"c"}`,
			[]string{`/m must be one of "a", "b", or null`}},
		{"discriminated union", `{"properties":{"s":{"oneOf":[
			{"type":"object","properties":{"kind":{"const":"circle"},"r":{"type":"number"}},"required":["kind","r"]},
			{"type":"object","properties":{"kind":{"const":"square"},"side":{"type":"number"},"x":{"type":"number"}},"required":["kind","side","x"]}]}}}`,
			`{"s":{"kind":"square"}}`, []string{
				`/s matches none of the 2 allowed forms; the closest is number 2`,
				`/s/side is required but missing`, `/s/x is required but missing`}},
		{"too many forms", `{"oneOf":[{},{"type":"object"}]}`, `{}`,
			[]string{` matches more than one of the forms of which exactly one is allowed (numbers 1 and 2)`}},
		{"draft 7 by $schema", `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"p":{"type":"integer"}},"properties":{"p":{"$ref":"#/definitions/p"}}}`,
			`{"p":"x"}`, []string{"/p is a string but must be an integer"}},
		{"look-ahead is tolerated", `{"properties":{"p":{"type":"string","pattern":"^(?!x)"}}}`, `{"p":"x"}`, nil},
		{"look-ahead on names is tolerated", `{"patternProperties":{"^(?!x)":{"type":"string"}},"additionalProperties":false}`, `{"x":1}`, nil},
		{"look-ahead as an argument", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"p":{"format":"regex"}}}`, `{"p":"(?!x)"}`, nil},
		{"numbers", `{"properties":{"a":{"minimum":1.5},"b":{"exclusiveMaximum":3},"c":{"multipleOf":5}}}`, `{"a":1,"b":3,"c":7}`,
			[]string{"/a must be at least 1.5", "/b must be less than 3", "/c must be a multiple of 5"}},
		{"lengths", `{"properties":{"a":{"minLength":2},"b":{"maxItems":1},"c":{"minProperties":1}}}`, `{"a":"é","b":[1,2],"c":{}}`,
			[]string{"/a has 1 character but must have at least 2", "/b has 2 elements but may have at most 1", "/c has 0 properties but must have at least 1"}},
		{"misspelt required", `{"required":["filePath"]}`, `{"file_path":1}`, []string{`/filePath is required but missing; did you mean it by "file_path"?`}},
		{"huge exponent", `{"properties":{"n":{"type":"integer"}}}`, `{"n":1e99999999}`,
			[]string{" cannot be checked: the number 1e99999999… is too long, or its exponent is beyond 1000"}},
		{"too deep", `{}`, strings.Repeat("[", 1001), []string{" cannot be checked: nested deeper than 1000 levels"}},
		{"property names", `{"propertyNames":{"maxLength":1}}`, `{"ab":1}`, []string{"/ab has a name that is not allowed here: it has 2 characters but may have at most 1"}},
		{"contains", `{"properties":{"a":{"contains":{"type":"string"}}}}`, `{"a":[1,2]}`, []string{"/a has no element of the form that at least one must have"}},
		{"unevaluated", `{"allOf":[{"properties":{"a":true}}],"unevaluatedProperties":false}`, `{"a":1,"b":2}`, []string{"/b is not allowed here"}},
		{"dependent", `{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, []string{`/b is required since "a" is given`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, lines(compile(t, tt.schema).Validate([]byte(tt.args)))); d != "" {
				t.Fatal(d)
			}
		})
	}
}

func TestAtMostFiftyFaults(t *testing.T) {
	s := compile(t, `{"properties":{"a":{"items":{"type":"string"}}}}`)
	faults := s.Validate([]byte(`{"a":[` + strings.Repeat("1,", 99) + `1]}`))
	if len(faults) != 50 || faults[49].Message != "has 51 more faults, not listed" {
		t.Fatalf("%d faults, last %+v", len(faults), faults[len(faults)-1])
	}
}

func TestNotes(t *testing.T) {
	s := compile(t, `{"properties":{"p":{"pattern":"(?=a)"},"q":{"pattern":"(?=a)"},"r":{"pattern":"^a$"}}}`)
	want := []string{`the pattern "(?=a)" is not checked: it uses syntax this engine does not have`}
	if d := cmp.Diff(want, s.Notes()); d != "" {
		t.Fatal(d)
	}
}

func TestCompileRefuses(t *testing.T) {
	var chained strings.Builder
	for i := range 100 {
		fmt.Fprintf(&chained, `"d%d":{"$ref":"#/$defs/d%d"},`, i, i+1)
	}
	for _, tt := range []struct{ name, schema, want string }{
		{"http ref", `{"$ref":"http://127.0.0.1:1/x.json"}`, "nothing is loaded from elsewhere"},
		{"https ref", `{"properties":{"a":{"$ref":"https://example.com/x.json#/a"}}}`, "nothing is loaded from elsewhere"},
		{"file ref", `{"$ref":"file:///etc/hosts"}`, "nothing is loaded from elsewhere"},
		{"relative ref", `{"$ref":"other.json"}`, "nothing is loaded from elsewhere"},
		{"remote dialect", `{"$schema":"https://example.com/dialect"}`, "nothing is loaded from elsewhere"},
		{"dangling ref", `{"$ref":"#/$defs/none"}`, "none"},
		{"too large", `{"title":"` + strings.Repeat("x", 1<<20) + `"}`, "more than the 1048576 allowed"},
		{"too deep", strings.Repeat(`{"not":`, 300) + "{}" + strings.Repeat("}", 300), "deeper than 200"},
		{"too many objects", `{"allOf":[` + strings.Repeat("{},", 10_001) + `{}]}`, "objects are more than"},
		{"not a schema", `[1]`, "an object or a boolean"},
		{"not JSON", `{`, "not JSON"},
		{"against its draft", `{"type":"text"}`, `at "/type" `},
		{"circle", `{"$ref":"#"}`, "refers to itself"},
		{"wider circle", `{"$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a"}`, "refers to itself"},
		{"long chain", `{"$defs":{` + chained.String() + `"d100":{}},"$ref":"#/$defs/d0"}`, "more than 64 subschemas"},
		{"circle through an anchor", `{"$defs":{"x":{"$dynamicAnchor":"a","allOf":[{"$dynamicRef":"#a"}]}},"$ref":"#/$defs/x"}`, "refers to itself"},
		{"recursion over documents", `{"$schema":"https://json-schema.org/draft/2019-09/schema","$defs":{"a":{"$id":"a","$recursiveAnchor":true,"items":{"$recursiveRef":"#"}}}}`, "not supported"},
		{"huge number", `{"minimum":1e999999}`, "exponent"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Compile([]byte(tt.schema))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want one with %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "failed") && tt.name == "against its draft" {
				t.Fatalf("untidy: %v", err)
			}
		})
	}
}

// TestHostileWorkIsRefused gives schemas that double the work with each level
// and arguments that use it.
func TestHostileWorkIsRefused(t *testing.T) {
	var doubling strings.Builder
	for i := range 40 {
		fmt.Fprintf(&doubling, `"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	deep := strings.Repeat("[", 60) + "1" + strings.Repeat("]", 60)
	var values strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&values, `"v%d",`, i)
	}
	for _, tt := range []struct{ name, schema, args string }{
		{"anyOf in place", `{"$defs":{` + doubling.String()[:strings.Index(doubling.String(), `"d20"`)] + `"d20":{"type":"null"}},"$ref":"#/$defs/d0"}`, `{}`},
		{"ref beside items", `{"$defs":{"a":{"$ref":"#/$defs/b","items":{"$ref":"#/$defs/a"}},"b":{"items":{"$ref":"#/$defs/a"}}},"not":{"$ref":"#/$defs/a"}}`, deep},
		{"overlapping names", `{"patternProperties":{".":{"$ref":"#"},"a":{"$ref":"#"},"x":{"type":"null"}}}`, strings.Repeat(`{"a":`, 60) + "1" + strings.Repeat("}", 60)},
		{"long enum", `{"properties":{"a":{"items":{"enum":[` + values.String() + `0]}}}}`, `{"a":[` + strings.Repeat(`"w",`, 100_000) + `1]}`},
		{"large pattern", `{"properties":{"a":{"pattern":"(x+x+){500}y"}}}`, `{"a":"` + strings.Repeat("x", 1<<20) + `"}`},
		{"unseen anchor", `{"$id":"https://example.com/r","$ref":"list","$defs":{
			"other":{"$dynamicAnchor":"e","items":{"allOf":[{"$ref":"#/$defs/other"},{"$ref":"#/$defs/other"}]}},
			"list":{"$id":"list","items":{"$dynamicRef":"#e"},"$defs":{"e":{"$dynamicAnchor":"e"}}}}}`, deep},
		{"many values", `{"properties":{"a":{"items":{"type":"string"}}}}`, `{"a":[` + strings.Repeat(`1,`, 1_000_000) + `1]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := compile(t, tt.schema)
			start := time.Now()
			got := lines(s.Validate([]byte(tt.args)))
			if len(got) != 1 || !strings.Contains(got[0], "too much to be checked") {
				t.Fatalf("%q", got)
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Fatalf("took %v", took)
			}
		})
	}
}

func TestRecursiveSchemasWork(t *testing.T) {
	for name, raw := range map[string]string{
		"ref":       `{"properties":{"child":{"$ref":"#"},"n":{"type":"integer"}}}`,
		"recursive": `{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"properties":{"child":{"$recursiveRef":"#"},"n":{"type":"integer"}}}`,
		"dynamic": `{"$id":"https://example.com/strict","$dynamicAnchor":"node","$ref":"tree","unevaluatedProperties":false,
			"$defs":{"tree":{"$id":"tree","$dynamicAnchor":"node","properties":{"n":{"type":"integer"},"child":{"$dynamicRef":"#node"}}}}}`,
	} {
		s := compile(t, raw)
		if got := s.Validate([]byte(`{"n":1,"child":{"n":2,"child":{"n":3}}}`)); got != nil {
			t.Errorf("%s: %v", name, got)
		}
		if got := lines(s.Validate([]byte(`{"child":{"child":{"n":"x"}}}`))); len(got) == 0 || !strings.HasPrefix(got[len(got)-1], "/child") {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestLazy(t *testing.T) {
	l := &Lazy{Raw: []byte(`{"type":"object"}`)}
	a, err := l.Get()
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := l.Get(); a != b {
		t.Fatal("compiled twice")
	}
	if s, err := (&Lazy{}).Get(); err != nil || s.Validate([]byte(`[1]`)) != nil {
		t.Fatal("no schema should allow everything", err)
	}
	if _, err := (&Lazy{Raw: []byte("{")}).Get(); err == nil {
		t.Fatal("no error")
	}
}

func FuzzSchema(f *testing.F) {
	f.Add([]byte(issueSchema), []byte(`{"title":7}`))
	f.Add([]byte(`{"$dynamicRef":"#x","$dynamicAnchor":"x"}`), []byte(`[]`))
	f.Add([]byte(`{"$schema":"http://json-schema.org/draft-04/schema#","items":[{"$ref":"#"}]}`), []byte(`[[[]]]`))
	f.Fuzz(func(t *testing.T, schema, args []byte) {
		_, _ = Headers(schema)
		s, err := Compile(schema)
		if err != nil {
			return
		}
		if d := cmp.Diff(s.Validate(args), s.Validate(args)); d != "" {
			t.Fatal(d)
		}
	})
}

func BenchmarkValidate(b *testing.B) {
	s := compile(b, `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)
	args := []byte(`{"path":"` + strings.Repeat("x", 89) + `"}`)
	b.SetBytes(int64(len(args)))
	b.ReportAllocs()
	for b.Loop() {
		if s.Validate(args) != nil {
			b.Fatal("invalid")
		}
	}
}
