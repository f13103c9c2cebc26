package session

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

func TestPageOf(t *testing.T) {
	const doc = `{"list":[1, "two" ,{"x":3},[4]],"obj":{"a":1,"b" : "x","c":{}},"text":"grün\nblau\n\nrot","n":1.50,"none":[],"empty":""}`
	for _, c := range []struct {
		path string
		r    Range
		want Page
	}{
		{"list", Range{}, Page{Data: []byte(`[1,"two",{"x":3},[4]]`), Total: 4, Unit: Elements}},
		{"list", Range{Limit: 2}, Page{Data: []byte(`[1,"two"]`), Total: 4, Next: 2, Unit: Elements}},
		{"list", Range{Offset: 2, Limit: 2}, Page{Data: []byte(`[{"x":3},[4]]`), Total: 4, Offset: 2, Unit: Elements}},
		{"list", Range{Offset: 4}, Page{Data: []byte(`[]`), Total: 4, Offset: 4, Unit: Elements}},
		{"list[3]", Range{Unit: Elements}, Page{Data: []byte(`[4]`), Total: 1, Unit: Elements}},
		{"obj", Range{Limit: 2}, Page{Data: []byte(`{"a":1,"b" : "x"}`), Total: 3, Next: 2, Unit: Members}},
		{"obj", Range{Offset: 2, Limit: 5}, Page{Data: []byte(`{"c":{}}`), Total: 3, Offset: 2, Unit: Members}},
		{"text", Range{}, Page{Data: []byte(`"grün\nblau\n\nrot"`), Total: 14, Unit: Characters}},
		{"text", Range{Offset: 2, Limit: 4}, Page{Data: []byte(`"ün\nb"`), Total: 14, Offset: 2, Next: 6, Unit: Characters}},
		{"text", Range{Offset: 1, Limit: 2, Unit: Lines}, Page{Data: []byte(`"blau\n\n"`), Total: 4, Offset: 1, Next: 3, Unit: Lines}},
		{"text", Range{Offset: 3, Unit: Lines}, Page{Data: []byte(`"rot"`), Total: 4, Offset: 3, Unit: Lines}},
		{"n", Range{}, Page{Data: []byte(`1.50`), Total: 1, Unit: Whole}},
		{"none", Range{}, Page{Data: []byte(`[]`), Unit: Elements}},
		{"empty", Range{Unit: Lines}, Page{Data: []byte(`""`), Unit: Lines}},
	} {
		path, err := ParsePath(c.path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := PageOf([]byte(doc), path, c.r)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s %+v: %v (-want +got):\n%s", c.path, c.r, err, diff)
		}
	}
	for _, c := range []struct {
		path string
		r    Range
		kind fault.Kind
		want string
	}{
		{"list", Range{Offset: 5}, fault.InvalidArguments, "offset: 5 is past the end: the value has 4 elements"},
		{"text", Range{Offset: 5, Unit: Lines}, fault.InvalidArguments, "offset: 5 is past the end: the value has 4 lines"},
		{"text", Range{Offset: 15}, fault.InvalidArguments, "offset: 15 is past the end: the value has 14 characters"},
		{"list", Range{Offset: -1}, fault.InvalidArguments, "offset and limit cannot be negative"},
		{"list", Range{Unit: Lines}, fault.InvalidArguments, `unit: "lines" cannot be counted in this value: use elements, or leave it out`},
		{"text", Range{Unit: "words"}, fault.InvalidArguments, `unit: "words" cannot be counted in this value: use characters or lines, or leave it out`},
		{"lst", Range{}, fault.BadReference, `did you mean "list"?`},
	} {
		path, _ := ParsePath(c.path)
		_, err := PageOf([]byte(doc), path, c.r)
		if !fault.Is(err, c.kind) || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s %+v: %v", c.path, c.r, err)
		}
	}
}

// What is too large for a page is shown in part, and the next page goes on.
func TestPageNotes(t *testing.T) {
	big := string(wire.Quote(strings.Repeat("word ", 2000)))
	doc := []byte(`{"rows":[1,` + big + `,2],"by name":{"a":1,"big":` + big + `}}`)
	p, err := PageOf(doc, []Step{Member("rows")}, Range{Bytes: 1000})
	if err != nil || string(p.Data) != "[1]" || p.Next != 1 || p.Note != "" {
		t.Errorf("%+v, %v", p, err)
	}
	p, err = PageOf(doc, []Step{Member("rows")}, Range{Offset: 1, Bytes: 1000})
	if err != nil || len(p.Data) > 1000 || p.Next != 2 || p.Note != ".rows[1] has 9.8 KB and is shown in part: read it with that path" || !strings.Contains(string(p.Data), "characters left out") {
		t.Errorf("%+v, %v", p, err)
	}
	p, err = PageOf(doc, []Step{Member("by name")}, Range{Offset: 1, Bytes: 300})
	if err != nil || !strings.HasPrefix(string(p.Data), `{"big":"word `) || len(p.Data) > 300 || p.Next != 0 || !strings.HasPrefix(p.Note, `["by name"].big has`) {
		t.Errorf("%s\n%+v, %v", p.Data, p, err)
	}
	p, err = PageOf(wire.Quote("a\n"+strings.Repeat("é", 500)+"\nb"), nil, Range{Offset: 1, Bytes: 300, Unit: Lines})
	if err != nil || string(p.Data) != `"`+strings.Repeat("é", 149)+`"` || p.Next != 2 || p.Note != "line 2 has 501 characters and is shown in part: read it in characters" {
		t.Errorf("%s\n%+v, %v", p.Data, p, err)
	}
	p, err = PageOf([]byte(strings.Repeat("7", 5000)), nil, Range{Bytes: 300})
	if err != nil || len(p.Data) > 300 || p.Note != "the number has 5,000 digits and is shown in part" {
		t.Errorf("%s\n%+v, %v", p.Data, p, err)
	}
}

// No page is larger than it may be, also where the last byte decides.
func TestPageBytes(t *testing.T) {
	tabs := strings.Repeat("\t", 7)
	docs := map[Unit]string{
		Elements: "[" + strings.Repeat("1,", 300) + "2]", Members: "{" + strings.Repeat(`"k":1,`, 300) + `"z":2}`,
		Characters: string(wire.Quote(strings.Repeat(tabs+"é", 90))), Lines: string(wire.Quote(strings.Repeat(tabs+"é\n", 90))),
	}
	for unit, doc := range docs {
		for size := minPage; size < minPage+30; size++ {
			p, err := PageOf([]byte(doc), nil, Range{Unit: unit, Bytes: size})
			if err != nil || len(p.Data) > size || len(p.Data) < size-20 || p.Note != "" {
				t.Errorf("%s in %d bytes: %d, %s %v", unit, size, len(p.Data), p.Note, err)
			}
		}
	}
}

// Pages put together give the whole.
func TestPropertyPages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := []byte(genDocument(2).Draw(t, "document"))
		r := Range{Bytes: rapid.IntRange(256, 5000).Draw(t, "bytes"), Limit: rapid.IntRange(0, 20).Draw(t, "limit")}
		if raw[0] == '"' {
			r.Unit = rapid.SampledFrom([]Unit{Characters, Lines}).Draw(t, "unit")
		}
		var data [][]byte
		var text strings.Builder
		noted := false
		for turn := 0; ; turn++ {
			p, err := PageOf(raw, nil, r)
			if err != nil || len(p.Data) > r.Bytes || wire.Valid(p.Data, wire.FromUpstream) != nil {
				t.Fatalf("%+v, %v", p, err)
			}
			if p.Next != 0 && p.Next <= r.Offset || turn > len(raw) {
				t.Fatalf("from %d to %d", r.Offset, p.Next)
			}
			noted = noted || p.Note != ""
			data = append(data, p.Data)
			s, _ := wire.String(p.Data)
			text.WriteString(s)
			if r.Offset = p.Next; p.Next == 0 {
				break
			}
		}
		if noted {
			return
		}
		if s, ok := wire.String(raw); ok {
			if text.String() != s {
				t.Errorf("%q was read as %q", s, text.String())
			}
			return
		}
		if diff := cmp.Diff(parts(raw), partsOfAll(data)); diff != "" {
			t.Errorf("parts (-want +got):\n%s", diff)
		}
	})
}

// parts are the children of a container, or the value itself.
func parts(raw []byte) (out []string) {
	kids, _ := childrenOf(raw, len(raw))
	for _, k := range kids {
		out = append(out, string(k.name)+"="+string(k.value))
	}
	if raw[0] != '[' && raw[0] != '{' {
		return []string{string(raw)}
	}
	return out
}

func partsOfAll(all [][]byte) (out []string) {
	for _, p := range all {
		out = append(out, parts(p)...)
	}
	return out
}

func TestGrep(t *testing.T) {
	const doc = `{"title":"Error in parser","log":"ok\nerror: no file\r\nok\nerror: gone","rows":[{"msg":"fine"},{"msg":"an error"}],"error":1,"a b":["Error"]}`
	for _, c := range []struct {
		name, in, pattern string
		s                 Search
		want              []Match
		more              bool
	}{
		{"text", `"one\ntwo\nthree\n"`, "^t", Search{}, []Match{{Line: 2, Text: "two"}, {Line: 3, Text: "three"}}, false},
		{"text of one line", `"one"`, "n", Search{}, []Match{{Line: 1, Text: "one"}}, false},
		{"nothing", `"one\ntwo"`, "four", Search{}, nil, false},
		{"empty text", `""`, "^$", Search{}, []Match{{Line: 1}}, false},
		{"leaves", doc, "(?i)error", Search{}, []Match{
			{Path: ".title", Text: "Error in parser"}, {Path: ".log", Line: 2, Text: "error: no file"}, {Path: ".log", Line: 4, Text: "error: gone"},
			{Path: ".rows[1].msg", Text: "an error"}, {Path: `["a b"][0]`, Text: "Error"},
		}, false},
		{"a part", doc, "error", Search{Path: []Step{Member("rows")}}, []Match{{Path: ".rows[1].msg", Text: "an error"}}, false},
		{"a text within", doc, "error", Search{Path: []Step{Member("log")}}, []Match{{Path: ".log", Line: 2, Text: "error: no file"}, {Path: ".log", Line: 4, Text: "error: gone"}}, false},
		{"as many as allowed", doc, "error", Search{Max: 3}, []Match{{Path: ".log", Line: 2, Text: "error: no file"}, {Path: ".log", Line: 4, Text: "error: gone"}, {Path: ".rows[1].msg", Text: "an error"}}, false},
		{"more than allowed", doc, "error", Search{Max: 1}, []Match{{Path: ".log", Line: 2, Text: "error: no file"}}, true},
		{"numbers and keys are not texts", doc, "^1$|^title$", Search{}, nil, false},
		{"escapes count as what they mean", `["\u0065rror"]`, "^error$", Search{}, []Match{{Path: "[0]", Text: "error"}}, false},
	} {
		got, more, err := Grep([]byte(c.in), c.pattern, c.s)
		if diff := cmp.Diff(c.want, got); err != nil || more != c.more || diff != "" {
			t.Errorf("%s: %v, %v (-want +got):\n%s", c.name, more, err, diff)
		}
	}
	for _, c := range []struct {
		pattern string
		s       Search
		kind    fault.Kind
		want    string
	}{
		{"a(", Search{}, fault.InvalidArguments, "grep: the pattern cannot be read: missing closing ): `a(`"},
		{`(a)\1`, Search{}, fault.InvalidArguments, "grep: the pattern cannot be read: invalid escape sequence: `\\1`"},
		{strings.Repeat("a", 1001), Search{}, fault.InvalidArguments, "grep: the pattern has 1001 bytes; the limit is 1000"},
		{"a", Search{Path: []Step{Member("x")}}, fault.BadReference, "there is no .x: the value is an object with 5 keys: title, log, rows, error, a b"},
	} {
		if _, _, err := Grep([]byte(doc), c.pattern, c.s); !fault.Is(err, c.kind) || fault.Of(err).Text() != c.want {
			t.Errorf("%.20s: %v", c.pattern, err)
		}
	}
}

// Of a long line what is around the match is shown.
func TestGrepLongLines(t *testing.T) {
	long := strings.Repeat("é", 2000)
	for _, c := range []string{long + "HERE" + long, "HERE" + long, long + "HERE", strings.Repeat("HERE", 1000)} {
		got, _, err := Grep(wire.Quote(c), "HERE", Search{})
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		text := strings.Trim(got[0].Text, "…")
		if !strings.Contains(text, "HERE") || !strings.Contains(c, text) || len(text) > matchText+4 || len(text) < matchText-4 {
			t.Errorf("%d bytes: %s", len(text), got[0].Text)
		}
	}
	if got, _, err := Grep(wire.Quote(long), "é+", Search{}); err != nil || len(got) != 1 || len(got[0].Text) > 2*matchText {
		t.Errorf("%v, %v", got, err)
	}
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprint("hit ", i)
	}
	raw, _ := json.Marshal(many)
	if got, more, err := Grep(raw, "hit", Search{}); err != nil || len(got) != 50 || !more || got[49].Path != "[49]" {
		t.Errorf("%d matches, %v, %v", len(got), more, err)
	}
}
