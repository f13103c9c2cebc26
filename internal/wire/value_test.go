package wire

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMembers(t *testing.T) {
	for _, c := range []struct {
		obj  string
		want []string
	}{
		{`{}`, nil},
		{` { "b" : 1 , "a" : [ 2 ] } `, []string{"b=1", "a=[ 2 ]"}},
		{`{"a":1,"\u0061":2}`, []string{"a=1", "a=2"}},
		{`{"\ud800":"\udc00"}`, []string{"\ufffd=\"\\udc00\""}},
		{``, nil},
		{`[]`, nil},
		{`"{}"`, nil},
		{`{"a":1`, nil},
		{`{"a":1} x`, nil},
		{`{"a":1,}`, nil},
	} {
		if diff := cmp.Diff(c.want, partsOf(&Message{Fields: Members([]byte(c.obj))}).Fields); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.obj, diff)
		}
	}
}

func TestGet(t *testing.T) {
	for _, c := range []struct{ obj, name, want string }{
		{`{"a":1,"b":{"a":3},"a":2}`, "a", "1"},
		{`{"x":{"a":3},"\u0061":null}`, "a", "null"},
		{`{"A":1}`, "a", ""},
		{`{"":7}`, "", "7"},
		{`{"a":1`, "a", ""},
		{`[{"a":1}]`, "a", ""},
		{``, "a", ""},
	} {
		if got := Get([]byte(c.obj), c.name); string(got) != c.want || (got == nil) != (c.want == "") {
			t.Errorf("Get(%s, %q) = %q, want %q", c.obj, c.name, got, c.want)
		}
	}
	obj := []byte(manyMembers(1000, ""))
	if n := testing.AllocsPerRun(10, func() { Get(obj, "k999") }); n != 0 {
		t.Errorf("Get allocates %v times", n)
	}
}

func TestElements(t *testing.T) {
	for _, c := range []struct {
		arr  string
		want []string
		ok   bool
	}{
		{`[]`, nil, true},
		{` [ 1 , "a,]" , [ 2, 3 ] , {} ] `, []string{"1", `"a,]"`, "[ 2, 3 ]", "{}"}, true},
		{`[1,]`, nil, false},
		{`[1] 2`, nil, false},
		{`[1`, nil, false},
		{`{}`, nil, false},
		{``, nil, false},
	} {
		got, ok := Elements([]byte(c.arr))
		var text []string
		for _, e := range got {
			text = append(text, string(e))
		}
		if diff := cmp.Diff(c.want, text); diff != "" || ok != c.ok {
			t.Errorf("%s: %v (-want +got):\n%s", c.arr, ok, diff)
		}
	}
}

func TestString(t *testing.T) {
	for _, c := range []struct {
		raw, want string
		ok        bool
	}{
		{`""`, "", true},
		{`"a"`, "a", true},
		{`"\"\\\/\b\f\n\r\t\u0041\u00e9"`, "\"\\/\b\f\n\r\tAé", true},
		{`"\ud83d\ude00"`, "😀", true},
		{`"\ud83dx\ude00"`, "\ufffdx\ufffd", true},
		{`"\ud83d\ud83d\ude00\ude00"`, "\ufffd😀\ufffd", true},
		{`"\ud800\u0041"`, "\ufffdA", true},
		{`"\\u0041"`, `\u0041`, true},
		{`"a"b"`, "", false},
		{`"\"`, "", false},
		{`"`, "", false},
		{``, "", false},
		{`a`, "", false},
		{`1`, "", false},
		{` "a"`, "", false},
		{`"\x"`, "", false},
		{"\"\xff\"", "", false},
		{`null`, "", false},
	} {
		if got, ok := String([]byte(c.raw)); got != c.want || ok != c.ok {
			t.Errorf("String(%s) = %q, %v, want %q, %v", c.raw, got, ok, c.want, c.ok)
		}
	}
}

func TestAppendString(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", `""`},
		{"a\"\\/\b\f\n\r\t\x00\x1f\x7f", `"a\"\\/\u0008\u000c\n\r\t\u0000\u001f` + "\x7f" + `"`},
		{"é😀\u2028\ufffd", "\"é😀\u2028\ufffd\""},
		{"a\xffb\xed\xa0\x80", "\"a\ufffdb\ufffd\ufffd\ufffd\""},
	} {
		if got := string(AppendString([]byte("x"), c.in)); got != "x"+c.want {
			t.Errorf("AppendString(%q) = %s, want %s", c.in, got, c.want)
		}
		if got := string(Quote(c.in)); got != c.want {
			t.Errorf("Quote(%q) = %s, want %s", c.in, got, c.want)
		}
	}
}

func TestEdit(t *testing.T) {
	set := func(name, value string) Change { return Change{name, []byte(value)} }
	drop := func(name string) Change { return Change{Name: name} }
	for _, c := range []struct {
		name, obj    string
		changes      []Change
		want, fields string // fields is the result of EditFields, if another
	}{
		{"nothing", ` { "a" : 1 } `, nil, ` { "a" : 1 } `, `{"a":1}`},
		{"set", `{"a": 1, "b":2}`, []Change{set("a", "9")}, `{"a": 9, "b":2}`, `{"a":9,"b":2}`},
		{"set the last", `{"a":1,"b":2 }`, []Change{set("b", "{}")}, `{"a":1,"b":{} }`, `{"a":1,"b":{}}`},
		{"add", `{"a":1}`, []Change{set("c", "3"), set("b", "2")}, `{"a":1,"c":3,"b":2}`, ``},
		{"add before space", `{"a":1 }`, []Change{set("b", "2")}, `{"a":1,"b":2 }`, `{"a":1,"b":2}`},
		{"add to empty", `{ }`, []Change{set(`a"b`, "1")}, `{"a\"b":1 }`, `{"a\"b":1}`},
		{"nil object", ``, []Change{set("a", "1")}, `{"a":1}`, ``},
		{"no object", `[1]`, []Change{set("a", "1")}, `{"a":1}`, ``},
		{"broken object", `{"b":1`, []Change{set("a", "1")}, `{"a":1}`, ``},
		{"drop the first", `{ "a":1, "b":2}`, []Change{drop("a")}, `{ "b":2}`, `{"b":2}`},
		{"drop the middle", `{"a":1, "b":2 ,"c":3}`, []Change{drop("b")}, `{"a":1 ,"c":3}`, `{"a":1,"c":3}`},
		{"drop the last", `{"a":1, "b":2 }`, []Change{drop("b")}, `{"a":1 }`, `{"a":1}`},
		{"drop the first two", `{"a":1,"b":2,"c":3}`, []Change{drop("a"), drop("b")}, `{"c":3}`, ``},
		{"drop all", `{"a":1,"b":2}`, []Change{drop("a"), drop("b")}, `{}`, ``},
		{"drop all and add", `{"a":1,"b":2}`, []Change{drop("a"), drop("b"), set("c", "3")}, `{"c":3}`, ``},
		{"drop first, set second", `{"a":1,"b":2}`, []Change{drop("a"), set("b", "3")}, `{"b":3}`, ``},
		{"drop what is not there", `{"a":1}`, []Change{drop("x")}, `{"a":1}`, ``},
		{"last change counts", `{"a":1}`, []Change{set("a", "2"), set("b", "3"), set("b", "4"), drop("a")}, `{"b":4}`, ``},
		{"set, then not, a new one", `{"a":1}`, []Change{set("b", "2"), drop("b")}, `{"a":1}`, ``},
		{"duplicates that change", `{"a":1,"b":2,"a":3}`, []Change{set("a", "9")}, `{"a":9,"b":2}`, ``},
		{"duplicates dropped", `{"a":1,"b":2,"a":3}`, []Change{drop("a")}, `{"b":2}`, ``},
		{"duplicates that do not", `{"a":1,"b":2,"a":3}`, []Change{set("b", "9")}, `{"a":1,"b":9,"a":3}`, ``},
		{"escaped names", `{"n\u0061me":1,"\u0062":2}`, []Change{set("b", "9")}, `{"n\u0061me":1,"\u0062":9}`, `{"name":1,"b":9}`},
		{"lone surrogates", `{"\ud800":"\ud800","b":1}`, []Change{drop("b")}, `{"\ud800":"\ud800"}`, "{\"\ufffd\":\"\\ud800\"}"},
		{"big numbers", `{"n":9223372036854775807,"f":1.10}`, []Change{set("x", "1")}, `{"n":9223372036854775807,"f":1.10,"x":1}`, ``},
		{"commas in strings", `{"a,":",","b,":",","c":","}`, []Change{drop("b,")}, `{"a,":",","c":","}`, ``},
	} {
		if got := string(Edit([]byte("x"), []byte(c.obj), c.changes...)); got != "x"+c.want {
			t.Errorf("%s: Edit gives %s, want x%s", c.name, got, c.want)
		}
		if c.fields == "" {
			c.fields = c.want
		}
		if got := string(EditFields([]byte("x"), Members([]byte(c.obj)), c.changes...)); got != "x"+c.fields {
			t.Errorf("%s: EditFields gives %s, want x%s", c.name, got, c.fields)
		}
	}
}

func TestOneLine(t *testing.T) {
	in := []byte("{\r\n\t\"a\\n\": 1\n}\r")
	if got := string(OneLine(in)); got != "{  \t\"a\\n\": 1 } " || string(in) != got {
		t.Errorf("%q", got)
	}
	if got := string(OneLine([]byte(strings.Repeat("\n", 3)))); got != "   " {
		t.Errorf("%q", got)
	}
}

func TestEditAllocatesNothing(t *testing.T) {
	obj, dst := []byte(`{"a":1,"b":{"c":[2]},"_meta":{}}`), make([]byte, 0, 256)
	fields := Members(obj)
	value := []byte(`{"x":1}`)
	n := testing.AllocsPerRun(10, func() {
		dst = Edit(dst[:0], obj, Change{"_meta", value}, Change{Name: "a"}, Change{"new", value})
		dst = EditFields(dst[:0], fields, Change{"_meta", value}, Change{Name: "a"}, Change{"new", value})
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
