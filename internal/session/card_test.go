package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stoahub/stoa/internal/wire"
)

// rows is an array of n records.
func rows(n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(`{"id":%d,"name":"row %d","tags":["a","b"],"open":true}`, i, i)
	}
	return "[" + strings.Join(out, ",") + "]"
}

func TestDescribe(t *testing.T) {
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprintf(`"key%02d":%d`, i, i)
	}
	for _, c := range []struct{ in, typ, summary string }{
		{`{}`, "object", "empty object"},
		{` {"a":1,"b":{"x":[]},"c":null} `, "object", "object with 3 keys: a, b, c"},
		{`{"\u0061":1}`, "object", "object with 1 key: a"},
		{"{" + strings.Join(keys, ",") + "}", "object", "object with 100 keys: key00, key01, key02, key03, key04, key05, key06, key07, key08, key09, key10, key11, key12, key13, key14, key15, key16, key17, key18, key19, " +
			"key20, key21, key22, key23, key24, key25, key26, key27, key28, key29, key30, key31, key32, key33, key34, key35, key36, key37, key38, key39, … 60 more"},
		{`[]`, "array", "empty array"},
		{`[1,2,3.5]`, "array", "array of 3 numbers"},
		{`["a"]`, "array", "array of 1 text"},
		{rows(1200), "array", "array of 1,200 objects with keys id, name, tags, open"},
		{`[{"a":1},{"b":1,"a":2},3,null,true,false,"x",[]]`, "array", "array of 8 elements: 2 objects, 1 array, 1 text, 1 number, 2 booleans, 1 null with keys a, b"},
		{`""`, "text", "empty text"},
		{`"a\nb\n"`, "text", "text of 4 characters, 2 lines"},
		{string(wire.Quote(strings.Repeat("größer\n", 1000) + "x")), "text", "text of 7,001 characters, 1,001 lines"},
		{`42`, "number", "number 42"}, {`true`, "boolean", "true"}, {`null`, "null", "null"}, {``, "null", "null"},
		{`[{"type":"image","data":"` + strings.Repeat("A", 4<<10) + `","mimeType":"image/png"}]`, "image/png", "image/png, 3.0 KB"},
		{`{"uri":"x","mimeType":"application/pdf","blob":"` + strings.Repeat("A", 4<<20) + `"}`, "application/pdf", "application/pdf, 3.0 MB"},
		{`{"mimeType":"text/plain","text":"x"}`, "object", "object with 2 keys: mimeType, text"},
	} {
		typ, summary := Describe([]byte(c.in))
		if typ != c.typ || summary != c.summary {
			t.Errorf("%.60s: %s, %s\nwant %s, %s", c.in, typ, summary, c.typ, c.summary)
		}
	}
}

func TestPreview(t *testing.T) {
	text := strings.Repeat("head ", 100) + strings.Repeat("tail ", 100)
	for _, c := range []struct {
		name, in string
		budget   int
		want     string
	}{
		{"it fits", ` {"a": [1, 2]} `, 13, `{"a": [1, 2]}`},
		{"text that fits", `"a\nb"`, 3, "a\nb"},
		{"number", strings.Repeat("1", 100), 20, `"111111111111111…"`},
		{"rows that fit", rows(1200), 200, `[{"id":0,"name":"row 0","tags":["a","b"],"open":true},{"id":1,"name":"row 1","tags":["a","b"],"open":true},{"id":2,"name":"row 2","tags":["a","b"],"open":true},"… 1,197 more"]`},
		{"long rows", `[{"t":` + string(wire.Quote(text)) + `,"n":1},{"t":"b","n":2},` + string(wire.Quote(text)) + `,4]`, 380,
			`[{"t":"` + strings.Repeat("head ", 16) + `h … 879 characters left out … ` + strings.Repeat("tail ", 8) + `","n":1},{"t":"b","n":2},"` +
				strings.Repeat("head ", 18) + `hea … 861 characters left out …  ` + strings.Repeat("tail ", 9) + `","… 1 more"]`},
		{"a long row after a short one", `[1,{"t":` + string(wire.Quote(text)) + `,"n":1}]`, 220,
			`[1,{"t":"` + strings.Repeat("head ", 20) + ` … 850 characters left out … ` + strings.Repeat("tail ", 10) + `","n":1}]`},
		{"keys", `{"a":{"b":{"c":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29]}},"z":null}`, 70,
			`{"a":{"b":{"c":[1,2,3,4,5,6,7,8,9,10,11,"… 18 more"]}},"z":null}`},
		{"more keys than fit", `{"aaaaaaaaaaaaaaa":1,"bbbbbbbbbbbbbbbb":2,"cccccccccccccccc":3,"dddddddddddd":4}`, 70, `{"aaaaaaaaaaaaaaa":1,"bbbbbbbbbbbbbbbb":2,"…":"2 more keys"}`},
		{"what is deep", strings.Repeat(`{"a":`, 12) + `"` + text + `"` + strings.Repeat("}", 12), 300, strings.Repeat(`{"a":`, 8) + `"{… 1 key}"` + strings.Repeat("}", 8)},
		{"little room", rows(10), 20, `"[… 10 elements]"`},
		{"less room", rows(10), 9, `"[…]"`},
		{"least room", rows(10), 5, `"…"`},
		{"no room", rows(10), 4, ``},
	} {
		if got := Preview([]byte(c.in), c.budget); string(got) != c.want || len(got) > c.budget {
			t.Errorf("%s: %d bytes\n%s\nwant\n%s", c.name, len(got), got, c.want)
		}
	}
	lines := strings.Repeat("a line of text\n", 2000)
	got := string(Preview(wire.Quote(lines), 500))
	head, rest, _ := strings.Cut(got, "\n… ")
	note, tail, _ := strings.Cut(rest, " …\n")
	var left int
	if _, err := fmt.Sscanf(strings.ReplaceAll(note, ",", ""), "%d characters left out", &left); err != nil {
		t.Fatal(err, got)
	}
	if !strings.HasPrefix(lines, head) || !strings.HasSuffix(lines, tail) || len(head) < 200 || len(tail) < 100 || len(head)+len(tail)+left != len(lines) || len(got) > 500 {
		t.Errorf("%d left out of %d: %s", left, len(lines), got)
	}
}

func checkPreview(t errorer, raw []byte, budget int) {
	got := Preview(raw, budget)
	if len(got) > max(budget, 0) {
		t.Errorf("%d bytes for a budget of %d: %s", len(got), budget, got)
	}
	if !bytes.Equal(got, Preview(raw, budget)) {
		t.Errorf("two previews of %s differ", raw)
	}
	trimmed := bytes.TrimSpace(raw)
	if text, ok := wire.String(trimmed); ok {
		if !utf8.Valid(got) || len(text) <= budget && string(got) != text {
			t.Errorf("%q is shown as %q", text, got)
		}
		return
	}
	if len(got) == 0 && budget < 5 {
		return
	}
	if err := wire.Valid(got, wire.FromUpstream); err != nil {
		t.Errorf("%s is shown as %s: %v", raw, got, err)
	}
	if len(trimmed) <= budget && !bytes.Equal(got, trimmed) {
		t.Errorf("%s fits %d and is shown as %s", raw, budget, got)
	}
}

// genDocument draws values of all shapes, with long texts and many rows.
func genDocument(depth int) *rapid.Generator[string] {
	text := rapid.Custom(func(t *rapid.T) string {
		piece := rapid.SampledFrom([]string{"word ", "\n", `"`, "\\", "é", "😀", "\x01", "…", "@a"})
		s := strings.Join(rapid.SliceOfN(piece, 0, 6).Draw(t, "pieces"), "")
		return string(wire.Quote(strings.Repeat(s, rapid.IntRange(1, 40).Draw(t, "times"))))
	})
	leaf := rapid.OneOf(text, rapid.SampledFrom([]string{"1", "-2.5e10", "null", "true", "false", "{}", "[]", `"\ud800"`, strings.Repeat("9", 90)}))
	if depth == 0 {
		return leaf
	}
	inner := genDocument(depth - 1)
	return rapid.OneOf(leaf, rapid.Custom(func(t *rapid.T) string {
		row := inner.Draw(t, "row")
		return "[ " + row + strings.Repeat(","+row, rapid.IntRange(0, 30).Draw(t, "rows")) + "]"
	}), rapid.Custom(func(t *rapid.T) string {
		var members []string
		for i := range rapid.IntRange(0, 12).Draw(t, "members") {
			name := strings.Repeat(rapid.SampledFrom([]string{"k", "naïve", "\x02", "a long name of a key "}).Draw(t, "name"), rapid.IntRange(0, 5).Draw(t, "times"))
			members = append(members, string(wire.Quote(fmt.Sprint(name, i)))+": "+inner.Draw(t, "value"))
		}
		return "{" + strings.Join(members, " ,") + "}"
	}))
}

// Every budget is kept to, also those where the last byte decides.
func TestPreviewBudgets(t *testing.T) {
	for _, raw := range []string{
		rows(4), `{"a":1,"bb":"` + strings.Repeat(`x\t`, 50) + `","ccc":[1,2,3],"dddd":{"e":null}}`, `[` + strings.Repeat("1,", 200) + `2]`,
		`{"a":"` + strings.Repeat("a", 60) + `","b":"` + strings.Repeat("b", 60) + `"}`, `["` + strings.Repeat("é", 90) + `",[[["` + strings.Repeat("z", 90) + `"]]]]`,
		`"` + strings.Repeat(`é\n`, 80) + `"`, `{"` + strings.Repeat(`\u0001`, 60) + `":` + rows(2) + `}`,
	} {
		for budget := range len(raw) + 2 {
			checkPreview(t, []byte(raw), budget)
		}
	}
}

func TestPropertyPreview(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkPreview(t, []byte(genDocument(3).Draw(t, "document")), rapid.IntRange(0, 600).Draw(t, "budget"))
	})
}

func FuzzPreview(f *testing.F) {
	f.Add([]byte(rows(5)), uint16(100))
	f.Add([]byte(`{"a":[1,[2,{"b":"\u0000\ud800 text text text text text text text text text text"}]],"":{}}`), uint16(40))
	f.Add([]byte(`"`+strings.Repeat(`\n\"é`, 50)+`"`), uint16(90))
	f.Add([]byte(`[`+strings.Repeat("1234567890,", 40)+`0]`), uint16(31))
	f.Fuzz(func(t *testing.T, raw []byte, budget uint16) {
		if wire.Valid(raw, wire.FromUpstream) != nil {
			_ = Preview(raw, int(budget)) // must come back
			return
		}
		checkPreview(t, raw, int(budget))
		Describe(raw)
		NewCard("x", 1, raw, int(budget))
	})
}

// A preview of what is deep or long is made in one go per level.
func TestPreviewIsLinear(t *testing.T) {
	deep := []byte(strings.Repeat(`[{"a":`, 499) + string(wire.Quote(strings.Repeat("x", 4<<20))) + strings.Repeat("}]", 499))
	if got := Preview(deep, 4000); len(got) == 0 || wire.Valid(got, wire.FromClient) != nil {
		t.Errorf("%s", got)
	}
	wide := []byte(rows(50_000))
	if got := allocated(func() { Preview(wide, 2000) }); got > 200_000 {
		t.Errorf("%d bytes allocated to show 2,000", got)
	}
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestCard(t *testing.T) {
	c := NewCard("issues", 3, []byte(rows(1200)), 80)
	want := `The whole result is kept as @issues, version 3.
Type: array, 66 KB
Shape: array of 1,200 objects with keys id, name, tags, open
Preview:
[{"id":0,"name":"row 0","tags":["a","b"],"open":true},"… 1,199 more"]
To read more, call context_get with {"name":"issues","path":"[0].id"} for a part, with "offset" and "limit" for a range, or with "grep":"a regular expression" for the texts in it that match.
To pass it on, give "@issues" or a part, "@issues[0].id", as an argument of any tool: the value is put in its place.`
	if diff := cmp.Diff(want, CardText(c)); diff != "" {
		t.Errorf("card (-want +got):\n%s", diff)
	}
	const asJSON = `{"name":"issues","reference":"@issues","type":"array","summary":"array of 1,200 objects with keys id, name, tags, open","size":68581,"version":3,` +
		`"example":"@issues[0].id","preview":[{"id":0,"name":"row 0","tags":["a","b"],"open":true},"… 1,199 more"]}`
	if got := string(c.JSON()); got != asJSON {
		t.Error(got)
	}

	c = NewCard("log", 0, wire.Quote(strings.Repeat("all is well\n", 5000)), 60)
	c.Session = "other"
	text := CardText(c)
	for _, part := range []string{"kept as @other:log.\n", "text of 60,000 characters, 5,000 lines\n", `{"name":"log","offset":0,"limit":100,"unit":"lines"}`, `give "@other:log" as an argument`} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
	var form struct{ Session, Preview string }
	if err := json.Unmarshal(c.JSON(), &form); err != nil || form.Session != "other" || form.Preview != string(c.Preview) {
		t.Error(err, form)
	}

	c = NewCard("shot", 1, []byte(`{"type":"image","mimeType":"image/png","data":"iVBORw0KGgo="}`), 0)
	if c.Preview != nil || !strings.Contains(CardText(c), "Shape: image/png, 9 bytes\nTo read more") || json.Unmarshal(c.JSON(), &form) != nil {
		t.Error(CardText(c))
	}
}

func TestCardExample(t *testing.T) {
	for in, want := range map[string]string{
		`{}`: "", `[]`: "", `"x"`: "", `1`: "",
		`{"a":1}`: ".a", `{"a":{}}`: ".a", `{"a":{"b":{"c":1}}}`: ".a.b", `[[1,2]]`: "[0][0]", `[{"bad key":1,"ok":2}]`: "[0].ok",
		`{"bad key":{"x":1},"ok":[7]}`: ".ok[0]", `{"bad key":1}`: "", `[{"bad key":1}]`: "[0]",
	} {
		if got := exampleOf([]byte(in)); got != want {
			t.Errorf("%s: %q", in, got)
		}
	}
}
