package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// values answers references from a map, as a session does.
func values(m map[string]string) func(Reference) ([]byte, error) {
	return func(r Reference) ([]byte, error) {
		data, ok := m[r.Name]
		if !ok {
			return nil, fault.New(fault.BadReference, "", "there is no value %q", r.Name).With("close", []string{"other"})
		}
		if r.Session != "" {
			data = `"` + r.Session + `'s"`
		}
		return Dig([]byte(data), r.Path)
	}
}

func TestResolve(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 999)
	stored := values(map[string]string{
		"text": `"hello"`, "num": `1.50`, "nil": "null", "yes": "true", "list": `[1, {"x":"@text"}]`, "obj": `{"k":{"v":"@@text"}}`, "odd": `"\ud800"`,
		"self": `"@self"`,
	})
	for _, c := range []struct {
		name, in, want string
		used           int
	}{
		{"none", `{"a":"b"}`, `{"a":"b"}`, 0},
		{"every type", `{"a":"@text","b":"@num","c":"@nil","d":"@yes"}`, `{"a":"hello","b":1.50,"c":null,"d":true}`, 4},
		{"space and order stay", "{ \"b\" : \"@num\" ,\n \"a\":[ \"@yes\" ] }", "{ \"b\" : 1.50 ,\n \"a\":[ true ] }", 2},
		{"path", `{"a":"@list[1].x","b":"@obj.k"}`, `{"a":"@text","b":{"v":"@@text"}}`, 2},
		{"other session", `["@s2:text"]`, `["s2's"]`, 1},
		{"not scanned again", `{"a":"@list","b":"@self"}`, `{"a":[1, {"x":"@text"}],"b":"@self"}`, 2},
		{"repeated", `["@num","@num","@num"]`, `[1.50,1.50,1.50]`, 3},
		{"keys stay", `{"@text":"@text","@@num":1,"$ref":"x"}`, `{"@text":"hello","@@num":1,"$ref":"x"}`, 1},
		{"inside text stays", `{"a":"see @text","b":"@nobody ","c":"me@text","d":"@text!","e":"@","f":"@@","g":"@@ hello"}`, `{"a":"see @text","b":"@nobody ","c":"me@text","d":"@text!","e":"@","f":"@@","g":"@@ hello"}`, 0},
		{"escapes", `["@@text","@@@text","@@@@missing.x[0]","@@s:a"]`, `["@text","@@text","@@@missing.x[0]","@s:a"]`, 0},
		{"escaped characters count", `["\u0040text","@t\u0065xt","\u0040@text","@\u0040text","\u0040\u0040text"]`, `["hello","hello","@text","\u0040text","\u0040text"]`, 2},
		{"object form", `{"a":{"$ref":"@num"},"b":[{ "$ref" : "@text" }]}`, `{"a":1.50,"b":["hello"]}`, 2},
		{"object form, escaped name", `{"a":{"\u0024ref":"@num"}}`, `{"a":1.50}`, 1},
		{"what is malformed is escaped too", `["@@text.","@@text ","@@@text[x]","@@text, you","@@text!"]`, `["@text.","@text ","@@text[x]","@@text, you","@@text!"]`, 0},
		{"object form of all arguments", ` {"$ref":"@obj"} `, ` {"k":{"v":"@@text"}} `, 1},
		{"object form with more", `{"a":{"$ref":"@num","x":1},"b":{"x":1,"$ref":"@num"}}`, `{"a":{"$ref":1.50,"x":1},"b":{"x":1,"$ref":1.50}}`, 2},
		{"object form within another", `{"$ref":{"$ref":"@num"}}`, `{"$ref":1.50}`, 1},
		{"object form of something deeper", `{"a":{"b":["@num"]},"$ref":{"x":"@num"}}`, `{"a":{"b":[1.50]},"$ref":{"x":1.50}}`, 2},
		{"object form with more, alone in another", `{"a":[{"$ref":"@num","x":1}]}`, `{"a":[{"$ref":1.50,"x":1}]}`, 1},
		{"object form of a list", `{"$ref":["@num"]}`, `{"$ref":[1.50]}`, 1},
		{"object form escaped", `{"a":{"$ref":"@@num"},"b":{"$ref":"#/defs/x"}}`, `{"a":{"$ref":"@num"},"b":{"$ref":"#/defs/x"}}`, 0},
		{"the whole is a reference", `"@num"`, `1.50`, 1},
		{"as deep as it goes", deep + `"@num"` + strings.Repeat("}", 999), deep + `1.50` + strings.Repeat("}", 999), 1},
		{"bytes as they came", `["@odd"]`, `["\ud800"]`, 1},
	} {
		got, used, err := Resolve([]byte(c.in), 1<<20, stored)
		if err != nil || string(got) != c.want || used != c.used {
			t.Errorf("%s: %s\n%d used, %v\nwant %s, %d", c.name, got, used, err, c.want, c.used)
		}
	}
}

func TestResolveLeavesInputAlone(t *testing.T) {
	in := `{"a":"@num","b":"@@num","c":{"$ref":"@num"}}`
	args := []byte(in)
	if _, _, err := Resolve(args, 1000, values(map[string]string{"num": "1"})); err != nil || string(args) != in {
		t.Errorf("%v, the arguments are now %s", err, args)
	}
	plain := []byte(`{"a":"b@c","d":"@ e"}`)
	if got, _, err := Resolve(plain, 1, nil); err != nil || &got[0] != &plain[0] {
		t.Errorf("arguments without references were copied or refused: %v", err)
	}
}

func TestResolveErrors(t *testing.T) {
	stored := values(map[string]string{"rows": `[{"id":1}]`})
	_, _, err := Resolve([]byte(`{"ok":"@rows","a~/b":["x","@rows[4]"],"c":{"$ref":"@rwos"},"d":"@rows[0].di","e":"@rwos"}`), 1000, stored)
	e := fault.Of(err)
	if e.Kind != fault.BadReference || e.Text() != `3 references cannot be resolved: @rows[4]: there is no [4]: the value is an array of 1 element, [0] to [0]; `+
		`@rwos: there is no value "rwos"; @rows[0].di: there is no .di: [0] is an object with 1 key: id` {
		t.Error(err)
	}
	one := 1
	want := []ReferenceFault{
		{Pointer: "/a~0~1b/1", Reference: "@rows[4]", Message: "there is no [4]: the value is an array of 1 element, [0] to [0]", Length: &one},
		{Pointer: "/c/$ref", Reference: "@rwos", Message: `there is no value "rwos"`, Close: []string{"other"}},
		{Pointer: "/d", Reference: "@rows[0].di", Message: "there is no .di: [0] is an object with 1 key: id", Allowed: []string{"id"}},
	}
	if diff := cmp.Diff(want, e.Data["faults"]); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	_, _, err = Resolve([]byte(`"@gone"`), 1000, stored)
	if e := fault.Of(err); e.Text() != `@gone: there is no value "gone"` || e.Data["faults"].([]ReferenceFault)[0].Pointer != "" {
		t.Error(err, e.Data)
	}

	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, `"@gone%d",`, i)
	}
	_, _, err = Resolve([]byte("["+many.String()+"0]"), 10000, stored)
	if e := fault.Of(err); len(e.Data["faults"].([]ReferenceFault)) != maxFaults || !strings.HasSuffix(e.Text(), "; and 80 more") {
		t.Error(err)
	}

	broken := errors.New("the store is closed")
	asked := 0
	_, _, err = Resolve([]byte(`["@a","@b"]`), 1000, func(Reference) ([]byte, error) { asked++; return nil, broken })
	if err != broken || asked != 1 {
		t.Errorf("%v after %d questions", err, asked)
	}
	if _, _, err = Resolve([]byte(`["@a"`), 1000, stored); !fault.Is(err, fault.InvalidArguments) {
		t.Error(err)
	}
}

// A value that is referred to very often is counted, not built.
func TestResolveLimits(t *testing.T) {
	const size = 1 << 20
	big := wire.Quote(strings.Repeat("x", size))
	asked := 0
	value := func(Reference) ([]byte, error) { asked++; return big, nil }
	args := []byte("[" + strings.Repeat(`"@big",`, 4000) + `"@big"]`)
	var err error
	got := allocated(func() { _, _, err = Resolve(args, 8<<20, value) })
	if e := fault.Of(err); !fault.Is(err, fault.Limit) || e.Data["size"] != 4001*(size+2)+4002 || e.Data["limit"] != 8<<20 {
		t.Error(err, fault.Of(err).Data)
	}
	if got > size {
		t.Errorf("%d bytes allocated", got)
	}
	if asked != 1 {
		t.Errorf("%d questions for one value", asked)
	}
	for _, c := range []struct {
		args string
		max  int
		ok   bool
	}{{`{"a":"@x"}`, 10, true}, {`{"a":"@x"}`, 9, false}, {`{"a":{"$ref":"@x"}}`, 10, true}, {`{"a":{"$ref":"@x"}}`, 9, false}} {
		out, _, err := Resolve([]byte(c.args), c.max, func(Reference) ([]byte, error) { return []byte("1234"), nil })
		if (err == nil) != c.ok {
			t.Errorf("%s, limit %d: %s, %v", c.args, c.max, out, err)
		}
	}
}

func TestResolveDepth(t *testing.T) {
	nest := func(n int, inner string) string { return strings.Repeat("[", n) + inner + strings.Repeat("]", n) }
	for _, c := range []struct {
		outer, inner int
		form         string
		ok           bool
	}{
		{500, 500, `"@x"`, true}, {500, 501, `"@x"`, false}, {999, 1, `"@x"`, true}, {1, 1000, `"@x"`, false}, {500, 500, `{"$ref":"@x"}`, true},
	} {
		out, _, err := Resolve([]byte(nest(c.outer, c.form)), 1<<20, func(Reference) ([]byte, error) { return []byte(nest(c.inner, "")), nil })
		if (err == nil) != c.ok || err != nil && !fault.Is(err, fault.Limit) {
			t.Errorf("%d in %d as %s: %v", c.inner, c.outer, c.form, err)
		}
		if err == nil && wire.Valid(out, wire.FromClient) != nil {
			t.Errorf("%s", wire.Valid(out, wire.FromClient))
		}
	}
	// Brackets inside of text are not depth.
	text := wire.Quote(strings.Repeat("[", 5000))
	if _, _, err := Resolve([]byte(`["@x"]`), 1<<20, func(Reference) ([]byte, error) { return []byte(`{"t":` + string(text) + `}`), nil }); err != nil {
		t.Error(err)
	}
}

func TestResolveWide(t *testing.T) {
	wide := func(n int) []byte {
		refs := make([]string, n)
		for i := range refs {
			refs[i] = fmt.Sprintf("@v[%d]", i)
		}
		b, err := json.Marshal(refs)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	number := func(r Reference) ([]byte, error) { return json.Marshal(r.Path[0].Index) }
	out, used, err := Resolve(wide(MaxReferences), 1<<20, number)
	if elements, _ := wire.Elements(out); err != nil || used != MaxReferences || len(elements) != MaxReferences || string(elements[4000]) != "4000" {
		t.Errorf("%d used, %v", used, err)
	}
	if _, _, err = Resolve(wide(MaxReferences+1), 1<<20, number); !fault.Is(err, fault.Limit) {
		t.Error(err)
	}
}

// genLiteral draws JSON that is full of strings near references.
func genLiteral(depth int) *rapid.Generator[string] {
	text := rapid.Custom(func(t *rapid.T) string {
		return `"` + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"@", "@", `\u0040`, "a", "known", "b.c", "[0]", "s:", " ", `\n`, "é", `\ud800`, "-", "."}), 0, 4).Draw(t, "pieces"), "") + `"`
	})
	leaf := rapid.OneOf(text, text, rapid.SampledFrom([]string{"1", "null", "true", "{}", "[ ]"}))
	if depth == 0 {
		return leaf
	}
	inner := genLiteral(depth - 1)
	return rapid.OneOf(leaf, rapid.Custom(func(t *rapid.T) string {
		return "[" + strings.Join(rapid.SliceOfN(inner, 0, 4).Draw(t, "elements"), " , ") + "]"
	}), rapid.Custom(func(t *rapid.T) string {
		var members []string
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			name := rapid.OneOf(text, rapid.Just(`"$ref"`)).Draw(t, "name")
			members = append(members, name+": "+inner.Draw(t, "value"))
		}
		return "{" + strings.Join(members, ",") + "}"
	}))
}

func TestPropertyRender(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkRender(t, []byte(genLiteral(4).Draw(t, "literal"))) })
}

type errorer interface{ Errorf(string, ...any) }

// render escapes literal data as a client would, so that Resolve gives it back,
// byte for byte. What is not JSON is returned as it is.
func render(raw []byte) []byte {
	if !HasReference(raw) {
		return raw
	}
	var splices []splice
	err := wire.Walk(raw, func(n wire.Node) wire.Next {
		at, size := 0, 0
		if n.Kind == '"' {
			at, size = atSign(raw[n.Start:n.End])
		}
		if size > 0 {
			s, _ := wire.String(raw[n.Start:n.End])
			if _, isRef, isEscape := active(s); isRef || isEscape {
				splices = append(splices, splice{start: n.Start + at, end: n.Start + at, with: []byte{'@'}})
			}
		}
		return wire.Into
	}, nil)
	if err != nil {
		return raw
	}
	return apply(raw, splices, len(raw)+len(splices))
}

// checkRender holds that rendered data holds no reference and resolves to
// itself.
func checkRender(t errorer, raw []byte) {
	rendered := render(raw)
	got, used, err := Resolve(rendered, 1<<30, func(r Reference) ([]byte, error) {
		return nil, fault.New(fault.BadReference, "", "%s was rendered as a reference", r)
	})
	if err != nil || used != 0 || string(got) != string(raw) {
		t.Errorf("%s\nis rendered as %s\nand resolved to %s, %v", raw, rendered, got, err)
	}
}

// mark is what no drawn literal holds, so that substituted data can be told
// from the rest.
const mark = `{"put in":"@known"}`

func TestPropertyNothingActiveIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkResolve(t, []byte(genLiteral(4).Draw(t, "args"))) })
}

func checkResolve(t errorer, args []byte) {
	out, used, err := Resolve(args, 1<<30, func(Reference) ([]byte, error) { return []byte(mark), nil })
	if fault.Is(err, fault.Limit) {
		return // the value is one level deeper than what it replaces
	}
	if fault.Is(err, fault.BadReference) {
		meant := 0
		each(args, func(s string, _ wire.Node) {
			if _, why := Malformed(s); why != "" {
				meant++
			}
		})
		if meant == 0 {
			t.Errorf("%s is refused, and has nothing that was meant as a reference: %v", args, err)
		}
		return
	}
	if err != nil || wire.Valid(out, wire.FromUpstream) != nil {
		t.Errorf("%s becomes %s, %v", args, out, err)
	}
	if got := strings.Count(string(out), mark) - strings.Count(string(args), mark); got != used {
		t.Errorf("%s becomes %s: %d put in, %d used", args, out, got, used)
	}
	// With the marks made harmless, only what was an escape may look active.
	escapes, active := 0, 0
	each(args, func(s string, _ wire.Node) {
		if rest, ok := strings.CutPrefix(s, "@"); ok && grammar.MatchString(rest) {
			escapes++
		}
	})
	each([]byte(strings.ReplaceAll(string(out), mark, `0`)), func(s string, _ wire.Node) {
		if grammar.MatchString(s) {
			active++
		}
	})
	if active != escapes {
		t.Errorf("%s becomes %s: %d strings look active, %d escapes", args, out, active, escapes)
	}
}

// each calls f with every string of raw that is no name.
func each(raw []byte, f func(string, wire.Node)) {
	_ = wire.Walk(raw, func(n wire.Node) wire.Next {
		if n.Kind == '"' {
			s, _ := wire.String(raw[n.Start:n.End])
			f(s, n)
		}
		return wire.Into
	}, nil)
}

func FuzzResolve(f *testing.F) {
	for _, s := range []string{
		`{"a":"@known","b":["@@known",{"$ref":"@known.x[0]"}]}`, `{"$ref":"@a","x":{"$ref":"\u0040b"}}`, `"@@@a"`, `[ "@s:a" , "user@host","@ x"]`, `{"@a":"@a"}`, `{"a":"@x`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if wire.Valid(raw, wire.FromUpstream) != nil {
			if out, _, err := Resolve(raw, 1<<30, func(Reference) ([]byte, error) { return []byte("1"), nil }); HasReference(raw) && err == nil {
				t.Errorf("%q, which is not JSON, becomes %q", raw, out)
			}
			return
		}
		checkRender(t, raw)
		if !strings.Contains(string(raw), mark) {
			checkResolve(t, raw)
		}
	})
}

func BenchmarkResolve(b *testing.B) {
	kb := `{"text":` + string(wire.Quote(strings.Repeat("some words, ", 80))) + `}`
	stored := values(map[string]string{"first": kb, "second": kb, "third": `{"rows":[1,` + kb + `]}`})
	args := []byte(`{"title":"three values","a":"@first","list":["@second.text",{"$ref":"@third.rows[1]"}],"mail":"user@host"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, used, err := Resolve(args, 8<<20, stored); err != nil || used != 3 {
			b.Fatal(used, err)
		}
	}
}

// A path goes on in JSON that is text, as servers answer it; what was meant as a
// reference and cannot be read is refused, and what names nothing is text.
func TestResolveOdd(t *testing.T) {
	stored := values(map[string]string{
		"answer": `{"content":[{"text":"{\"items\":[{\"id\":7},{\"id\":8}]}"}]}`, "odd": `{"a key":1,"ünï":2,"list":[1,2,3]}`, "plain": `"[not json"`,
	})
	for in, want := range map[string]string{
		`["@answer.content[0].text.items[1].id"]`:                                                     `[8]`,
		`["@answer.content[-1].text.items[-1]"]`:                                                      `[{"id":8}]`,
		`["@odd[\"a key\"]","@odd['a key']"]`:                                                         `[1,1]`,
		`["@odd.ünï","@odd.list[-1]"]`:                                                                `[2,3]`,
		`["@odd is down","@odd: down","@odd [urgent] please","@odd, then .x","@odd/x","@odd\u200bx"]`: `["@odd is down","@odd: down","@odd [urgent] please","@odd, then .x","@odd/x","@odd\u200bx"]`,
		`[" @odd is down","\t@nobody","see @odd.list","a @odd"]`:                                      `[" @odd is down","\t@nobody","see @odd.list","a @odd"]`,
		`[" @@odd","\t\u0040@odd.list","@@odd.a key"," @@odd is down"]`:                               `[" @odd","\t@odd.list","@odd.a key"," @@odd is down"]`,
		`["@nobody.list[x]","@media (min-width)"]`:                                                    `["@nobody.list[x]","@media (min-width)"]`,
	} {
		if got, _, err := Resolve([]byte(in), 1<<20, stored); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
	for in, want := range map[string]string{
		`["@odd "]`:             "there is space after it",
		`[" @odd"]`:             "there is space before it",
		`["\t@odd.list"]`:       "there is space before it",
		`["\u200b@odd.list "]`:  "there is space after it",
		`["@odd .ünï"]`:         "there is space in it",
		"[\"@odd\u200b.list\"]": "there is space in it",
		`["@odd [0]"]`:          "there is space in it",
		`["@odd.a key"]`:        `@odd["a key"]`,
		`["@odd.x:y"]`:          `@odd["x:y"]`,
		`["@odd.a/b.c"]`:        `@odd["a/b"].c`,
		`["@odd.a+b"]`:          `@odd["a+b"]`,
		`["@odd.ns#frag"]`:      `@odd["ns#frag"]`,
		`["@odd.100%"]`:         `@odd["100%"]`,
		`["@odd.🙂"]`:            `@odd["🙂"]`,
		`["@odd.👩‍🚀.x"]`:        `@odd["👩‍🚀"].x`,
		`["@odd.list[0] x"]`:    `it cannot be read at " x"`,
		`["@odd.list[x]"]`:      `it cannot be read at "[x]"`,
		`["@odd.list[-4]"]`:     "there is no [-4]: .list is an array of 3 elements",
		`["@odd..x"]`:           `it cannot be read at "..x"`,
		`["@plain.x"]`:          "which has no parts",
		`["@odd[\"other\"]"]`:   "other",
		`["@answer.content."]`:  `it cannot be read at "."`,
	} {
		_, _, err := Resolve([]byte(in), 1<<20, stored)
		f := fault.Of(err)
		if err == nil || f.Kind != fault.BadReference || !strings.Contains(f.Msg, want) && !strings.Contains(f.Advice(), want) {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if faults, _ := f.Data["faults"].([]ReferenceFault); strings.Contains(f.Advice(), "listed") && (len(faults) == 0 || len(faults[0].Allowed) == 0) {
			t.Errorf("%s: the hint speaks of a list, and there is none: %s", in, f.Advice())
		}
	}
}

// Who names no value that exists reads in the sentence which do, however many
// references are wrong.
func TestUnknownNamesTellsWhichThereAre(t *testing.T) {
	st := &state{values: map[string]*item{}}
	look := func(args string) *fault.Error {
		_, _, err := Resolve([]byte(args), 1<<20, func(r Reference) ([]byte, error) { return nil, st.unknown(r.Name) })
		return fault.Of(err)
	}
	for n := range 3 {
		st.values[fmt.Sprint("rep", n)] = &item{}
	}
	one, two := look(`{"k":"@nosuch"}`), look(`{"a":"@nosuch","b":"@rap1"}`)
	if want := `@nosuch: the session holds no value "nosuch"; it holds rep0, rep1, rep2`; one.Text() != want {
		t.Errorf("got %s", one.Text())
	}
	if n := strings.Count(two.Text(), "it holds rep0, rep1, rep2"); n != 2 {
		t.Errorf("two: got %s", two.Text())
	}
	for n := range 30 {
		st.values[fmt.Sprintf("v%02d", n)] = &item{}
	}
	if text := look(`{"k":"@nosuch"}`).Text(); !strings.HasSuffix(text, ", v16 and 13 more") {
		t.Errorf("many: got %s", text)
	}
	for _, e := range []*fault.Error{one, two} {
		if strings.Contains(e.Advice(), "listed") {
			t.Errorf("the hint promises a list: %s", e.Advice())
		}
	}
}
