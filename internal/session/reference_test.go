package session

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stoahub/stoa/internal/fault"
)

// grammar is the one of the manual; ParseReference is held against it.
var grammar = regexp.MustCompile(`^@([A-Za-z0-9_]+:)?[A-Za-z_][A-Za-z0-9_-]{0,63}(\.[\pL\p{Nd}\pM0-9_-]+|\[\d+\]|\[-[1-9]\d{0,17}\]|\["(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*"\]|\['(?:[^']|'+[^'\]])*'*'\])*$`)

func TestParseReference(t *testing.T) {
	long := strings.Repeat("x", 64)
	for _, c := range []struct {
		in   string
		want Reference
	}{
		{"@a", Reference{Name: "a"}},
		{"@_", Reference{Name: "_"}},
		{"@" + long, Reference{Name: long}},
		{"@a-b_2", Reference{Name: "a-b_2"}},
		{"@s:a", Reference{Session: "s", Name: "a"}},
		{"@01_x:a", Reference{Session: "01_x", Name: "a"}},
		{"@a.b.c", Reference{Name: "a", Path: []Step{Member("b"), Member("c")}}},
		{"@a[0][12].b", Reference{Name: "a", Path: []Step{At(0), At(12), Member("b")}}},
		{"@a.0.-", Reference{Name: "a", Path: []Step{Member("0"), Member("-")}}},
		{"@a[-1].b", Reference{Name: "a", Path: []Step{At(-1), Member("b")}}},
		{`@a["odd key"]`, Reference{Name: "a", Path: []Step{Member("odd key")}}},
		{"@a[007]", Reference{Name: "a", Path: []Step{{Member: "007", Index: 7, IsIndex: true}}}},
		{"@a[99999999999999999999]", Reference{Name: "a", Path: []Step{{Member: "99999999999999999999", Index: 1<<63 - 1, IsIndex: true}}}},
	} {
		got, ok := ParseReference(c.in)
		if diff := cmp.Diff(c.want, got); !ok || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", c.in, ok, diff)
		}
		if got.String() != c.in {
			t.Errorf("%s is written as %s", c.in, got)
		}
	}
	for _, in := range []string{
		"", "@", "a", "@@a", "@1", "@-a", "@a.", "@a..b", "@a[", "@a[]", "@a[x]", "@a[-0]", "@a[-01]", "@a[0", "@a b", "@a\n", "@é", "@a.é!", " @a", "@a:", "@:a", "@s-1:a",
		"@s:1", "@a:b:c", "@x" + long, "@a/b", "@a['b'", `@a["b]`, `@a["\x"]`, "@a[1]b", "@types/node", "user@host", "@octocat!", "@a[１]",
	} {
		if got, ok := ParseReference(in); ok {
			t.Errorf("%q is read as %v", in, got)
		}
	}
}

func checkGrammar(t interface{ Errorf(string, ...any) }, s string) {
	ref, ok := ParseReference(s)
	if !utf8.ValidString(s) {
		return // no message has such a text
	}
	if ok != grammar.MatchString(s) {
		t.Errorf("%q: %v, unlike the grammar", s, ok)
	}
	if again, well := ParseReference(ref.String()); ok && (!well || !cmp.Equal(again, ref)) {
		t.Errorf("%q is written as %q, which is read as %v", s, ref, again)
	}
	if again, err := ParsePath(FormatPath(ref.Path)); err != nil || !cmp.Equal(again, ref.Path) {
		t.Errorf("the path of %q comes back as %v, %v", s, again, err)
	}
	if ok && ValidName(ref.Name) != nil {
		t.Errorf("%q refers to a name that no value can have", s)
	}
}

func TestPropertyGrammar(t *testing.T) {
	piece := rapid.SampledFrom([]string{"@", "@", "a", "B", "_", "-", "0", "19", ".", ".x", "[", "]", "[3]", "[003]", ":", "s:", "é", "\n", " ", `"`, strings.Repeat("y", 31)})
	rapid.Check(t, func(t *rapid.T) {
		checkGrammar(t, "@"+strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "pieces"), ""))
	})
}

func FuzzParseReference(f *testing.F) {
	for _, s := range []string{"@a", "@s:a.b[0]", "@@a", "@a[007].x-y", "user@host", "@a[", "@s:", "@_-9[18446744073709551616]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		checkGrammar(t, s)
		path, err := ParsePath(s)
		if err != nil {
			return
		}
		if again, err := ParsePath(FormatPath(path)); err != nil || !cmp.Equal(again, path) {
			// Only invalid UTF-8 cannot be written.
			if strings.ToValidUTF8(s, "\ufffd") == s {
				t.Errorf("path %q is written as %s and read as %v, %v", s, FormatPath(path), again, err)
			}
		}
	})
}

func TestParsePath(t *testing.T) {
	for in, want := range map[string][]Step{
		"":                      nil,
		"a":                     {Member("a")},
		".a.b[0]":               {Member("a"), Member("b"), At(0)},
		"a.b[0]":                {Member("a"), Member("b"), At(0)},
		"[2].x":                 {At(2), Member("x")},
		`["key with.dots"].a`:   {Member("key with.dots"), Member("a")},
		`a["x\"]y"][1]`:         {Member("a"), Member(`x"]y`), At(1)},
		`['it is']`:             {Member("it is")},
		`[""]`:                  {Member("")},
		`["\u00e9"]`:            {Member("é")},
		"some key.größe":        {Member("some key"), Member("größe")},
		"$defs.@id":             {Member("$defs"), Member("@id")},
		`["a"]["b"]`:            {Member("a"), Member("b")},
		".a[12345678901234567]": {Member("a"), At(12345678901234567)},
	} {
		got, err := ParsePath(in)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", in, err, diff)
		}
		again, err := ParsePath(FormatPath(got))
		if diff := cmp.Diff(want, again); err != nil || diff != "" {
			t.Errorf("%s is written as %s: %v\n%s", in, FormatPath(got), err, diff)
		}
	}
	for in, at := range map[string]string{
		".": `"."`, "a..b": `"..b"`, "a[": `"["`, "a[x]": `"[x]"`, "a]": `"]"`, `["a`: `"[\"a"`, `["a"`: `"[\"a\""`, `["\x"]`: `"[\"\\x\"]"`, "a[0]b": `"b"`, "[-0]": `"[-0]"`, `["a\`: `"[\"a\\"`,
	} {
		_, err := ParsePath(in)
		if !fault.Is(err, fault.InvalidArguments) || !strings.Contains(err.Error(), "at "+at) {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func TestValidName(t *testing.T) {
	for _, name := range []string{"a", "_", "A-1_b", strings.Repeat("n", 64)} {
		if err := ValidName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "1a", "-a", "a.b", "a b", "é", "a:b", strings.Repeat("n", 65)} {
		err := ValidName(name)
		if !fault.Is(err, fault.InvalidArguments) || !strings.Contains(fault.Of(err).Advice(), "1 to 64") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestHasReference(t *testing.T) {
	for in, want := range map[string]bool{
		`{}`: false, `{"a":"b"}`: false, `{"mail":"user@host"}`: false, `{"a":"x \u0040"}`: false,
		`{"a":"@b"}`: true, `{"a":"@@b"}`: true, `{"a":"\u0040b"}`: true, `{"$ref":"@b"}`: true, `["@"]`: true,
		`[" @b"]`: true, `["\t \u200b@b"]`: true, "[\"\u200b\u00a0@b\"]": true, `["\u0009\u0040b"]`: true, `["x @b"]`: false, `["\tx\u0040"]`: false, `["\\u0009@"]`: false,
	} {
		if got := HasReference([]byte(in)); got != want {
			t.Errorf("%s: %v", in, got)
		}
	}
}

func TestDig(t *testing.T) {
	const doc = ` {"user": {"name":"Ada","tags":["x", "y" ,{"deep":[[1,2],[3]]}],"e\u006dpty":{},"":0},"rows":[{"id":1},{"id":2}],"user2":null,"rows":"again","n":1.50} `
	for path, want := range map[string]string{
		"":                       strings.TrimSpace(doc),
		"user.name":              `"Ada"`,
		"user.tags":              `["x", "y" ,{"deep":[[1,2],[3]]}]`,
		"user.tags[1]":           `"y"`,
		"user.tags[2].deep[1]":   `[3]`,
		"user.tags.2.deep.0.1":   `2`,
		"user.tags[002].deep[0]": `[1,2]`,
		"user.empty":             `{}`,
		`user[""]`:               `0`,
		"rows":                   `[{"id":1},{"id":2}]`,
		"rows[1].id":             `2`,
		"user2":                  "null",
		"n":                      "1.50",
		"rows[-1].id":            `2`,
		"user.tags[-1].deep[-2]": `[1,2]`,
	} {
		steps, err := ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Dig([]byte(doc), steps); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", path, got, err)
		}
	}
	for path, want := range map[string]string{
		"user.nmae":                  `there is no .nmae: .user is an object with 4 keys: name, tags, empty, ; did you mean "name"?`,
		"usr":                        `there is no .usr: the value is an object with 5 keys: user, rows, user2, rows, n; did you mean "user"?`,
		"[0]":                        `there is no [0]: the value is an object with 5 keys: user, rows, user2, rows, n`,
		"rows[2]":                    `there is no [2]: .rows is an array of 2 elements, [0] to [1]`,
		"rows.id":                    `there is no .id: .rows is an array of 2 elements, [0] to [1]`,
		"rows[0].id.x":               `there is no .x: .rows[0].id is a number, which has no parts`,
		"user.name[0]":               `there is no [0]: .user.name is text, which has no parts`,
		"user.empty.x":               `there is no .x: .user.empty is an empty object`,
		"user2.x":                    `there is no .x: .user2 is null, which has no parts`,
		"user.tags[1][1]":            `there is no [1]: .user.tags[1] is text, which has no parts`,
		"rows[99999999999999999999]": `there is no [99999999999999999999]: .rows is an array of 2 elements, [0] to [1]`,
	} {
		steps, err := ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Dig([]byte(doc), steps)
		if !fault.Is(err, fault.BadReference) || fault.Of(err).Text() != want {
			t.Errorf("%s: %v\nwant %s", path, err, want)
		}
	}
	_, err := Dig([]byte(doc), []Step{Member("rows"), At(7)})
	if fault.Of(err).Data["length"] != 2 {
		t.Errorf("the fault has the data %v", fault.Of(err).Data)
	}
	_, err = Dig([]byte(doc), []Step{Member("user"), Member("Name")})
	if diff := cmp.Diff(map[string]any{"allowed": []string{"name", "tags", "empty", ""}, "close": []string{"name"}}, fault.Of(err).Data); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
}

// A path as long as a value may be deep costs one walk, not one per step.
func TestDigDeep(t *testing.T) {
	const depth = 999
	doc := strings.Repeat(`{"a":[`, depth/2) + `"x"` + strings.Repeat(`]}`, depth/2)
	path := make([]Step, 0, depth)
	for range depth / 2 {
		path = append(path, Member("a"), At(0))
	}
	if got, err := Dig([]byte(doc), path); err != nil || string(got) != `"x"` {
		t.Errorf("%s, %v", got, err)
	}
	if allocs := testing.AllocsPerRun(10, func() { _, _ = Dig([]byte(doc), path) }); allocs > 20 {
		t.Errorf("%v allocations", allocs)
	}
}
