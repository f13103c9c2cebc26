package wire

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// parts is what a test wants of a Message, as strings; "-" stands for nil.
type parts struct {
	ID, Method, Params, Result, Error string
	Fields, Meta                      []string
}

func partsOf(m *Message) parts {
	text := func(b []byte) string {
		if b == nil {
			return "-"
		}
		return string(b)
	}
	list := func(fields []Field) (out []string) {
		for _, f := range fields {
			out = append(out, string(f.Name)+"="+string(f.Value))
		}
		return out
	}
	return parts{text(m.ID), m.Method, text(m.Params), text(m.Result), text(m.Error), list(m.Fields), list(m.Meta)}
}

// inside reports whether part is a subslice of whole, not a copy of it.
func inside(whole, part []byte) bool {
	if len(part) == 0 {
		return true
	}
	at := uintptr(unsafe.Pointer(&part[0])) - uintptr(unsafe.Pointer(&whole[0]))
	return at < uintptr(len(whole)) && at+uintptr(len(part)) <= uintptr(len(whole))
}

func TestScanParts(t *testing.T) {
	var m Message // reused on purpose: nothing of one message may show in the next
	for _, c := range []struct {
		input string
		want  parts
	}{
		{
			`{"jsonrpc":"2.0","id":9223372036854775807,"method":"tools/call","params":{"name":"x","arguments":{"z":1, "a":9223372036854775808,"unknown":[ 1 , 2 ]},"_meta":{"progressToken":1.50,"k/\u0065":{ "b" : 1 }}}}`,
			parts{
				ID: "9223372036854775807", Method: "tools/call", Result: "-", Error: "-",
				Params: `{"name":"x","arguments":{"z":1, "a":9223372036854775808,"unknown":[ 1 , 2 ]},"_meta":{"progressToken":1.50,"k/\u0065":{ "b" : 1 }}}`,
				Fields: []string{`name="x"`, `arguments={"z":1, "a":9223372036854775808,"unknown":[ 1 , 2 ]}`, `_meta={"progressToken":1.50,"k/\u0065":{ "b" : 1 }}`},
				Meta:   []string{`progressToken=1.50`, `k/e={ "b" : 1 }`},
			},
		},
		{
			` { "params" : { } , "method" : "a\u002fb" , "jsonrpc" : "2.0" } `,
			parts{ID: "-", Method: "a/b", Params: "{ }", Result: "-", Error: "-"},
		},
		{
			`{"result":{"b":2,"a":1,"b":"\ud800"},"id":"a\"b","jsonrpc":"2.0"}`,
			parts{ID: `"a\"b"`, Params: "-", Result: `{"b":2,"a":1,"b":"\ud800"}`, Error: "-"},
		},
		{
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x","data":null}}`,
			parts{ID: "null", Params: "-", Result: "-", Error: `{"code":-32700,"message":"x","data":null}`},
		},
		{
			`{"jsonrpc":"2.0","error":{}}`,
			parts{ID: "-", Params: "-", Result: "-", Error: `{}`},
		},
		{
			`{"jsonrpc":"2.0","id":-1.5e3,"method":"m","p\u0061rams":{"n\u0061me":1,"_m\u0065ta":{"x":2}}}`,
			parts{
				ID: "-1.5e3", Method: "m", Result: "-", Error: "-", Params: `{"n\u0061me":1,"_m\u0065ta":{"x":2}}`,
				Fields: []string{"name=1", `_meta={"x":2}`}, Meta: []string{"x=2"},
			},
		},
		{
			`{"jsonrpc":"2.0","method":"m","params":{"_meta":[1],"deep":{"_meta":{"x":1}}},"extra":{"params":{"no":1}}}`,
			parts{
				ID: "-", Method: "m", Result: "-", Error: "-", Params: `{"_meta":[1],"deep":{"_meta":{"x":1}}}`,
				Fields: []string{"_meta=[1]", `deep={"_meta":{"x":1}}`},
			},
		},
	} {
		whole := []byte(c.input)
		if err := m.Scan(whole, FromUpstream); err != nil {
			t.Errorf("%s: %v", c.input, err)
			continue
		}
		if diff := cmp.Diff(c.want, partsOf(&m)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.input, diff)
		}
		values := [][]byte{m.ID, m.Params, m.Result, m.Error}
		for _, f := range append(m.Fields[:len(m.Fields):len(m.Fields)], m.Meta...) {
			values = append(values, f.Value)
		}
		for _, v := range values {
			if !inside(whole, v) {
				t.Errorf("%s: %s is a copy", c.input, v)
			}
		}
	}
}

func TestScanIDs(t *testing.T) {
	for _, c := range []struct {
		id                        string
		asRequest, asResult, asID verdict
	}{
		{`1`, accepted, accepted, accepted},
		{`0`, accepted, accepted, accepted},
		{`-7`, accepted, accepted, accepted},
		{`1.5`, accepted, accepted, accepted}, // handed back as it came, so nothing is lost
		{`1e400`, accepted, accepted, accepted},
		{`123456789012345678901234567890`, accepted, accepted, accepted},
		{`""`, accepted, accepted, accepted},
		{`"x"`, accepted, accepted, accepted},
		{`null`, shape, accepted, accepted},
		{`true`, shape, shape, shape},
		{`false`, shape, shape, shape},
		{`{}`, shape, shape, shape},
		{`[1]`, shape, shape, shape},
	} {
		for kind, want := range map[string]verdict{`"method":"m"`: c.asRequest, `"result":1`: c.asResult, `"error":{}`: c.asID} {
			input := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, c.id, kind)
			var m Message
			if got := judge(m.Scan([]byte(input), FromClient)); got != want {
				t.Errorf("%s is %s, want %s", input, got, want)
			}
			wantID := c.id
			if want != accepted {
				wantID = ""
			}
			if string(m.ID) != wantID {
				t.Errorf("%s has the id %q", input, m.ID)
			}
		}
	}
}

// An answer can be sent even where the message is no good.
func TestScanKeepsIDOfShapeErrors(t *testing.T) {
	for _, input := range []string{
		`{"id":7,"method":"m"}`,
		`{"jsonrpc":"2.0","method":5,"id":7}`,
		`{"id":7,"method":5}`,
		`{"jsonrpc":"2.0","id":7}`,
		request(`[]`),
	} {
		var m Message
		err := m.Scan([]byte(strings.Replace(input, `"id":1`, `"id":7`, 1)), FromClient)
		if judge(err) != shape || string(m.ID) != "7" {
			t.Errorf("%s: %v, id %q", input, err, m.ID)
		}
		if m.Method != "" && m.Method != "m" {
			t.Errorf("%s: method %q", input, m.Method)
		}
	}
}

// What could be read of a broken message may be its id, if it is one.
func TestScanOfBrokenMessages(t *testing.T) {
	for input, want := range map[string]string{
		`{"id":7,"method"`:                    `7`,
		`{"id":"x",}`:                         `"x"`,
		`{"id":{},"method"`:                   ``,
		`{"id":[1],"method":`:                 ``,
		`{"id":true`:                          ``,
		`{"jsonrpc":"2.0","id":{}} trailing`:  ``,
		`{"jsonrpc":"2.0","id":"y"} trailing`: `"y"`,
	} {
		var m Message
		if err := m.Scan([]byte(input), FromClient); err == nil || string(m.ID) != want {
			t.Errorf("%s: id %s, %v", input, m.ID, err)
		}
	}
}

func TestMessageKinds(t *testing.T) {
	for _, c := range []struct {
		input                           string
		request, notification, response bool
	}{
		{request(`{}`), true, false, false},
		{`{"jsonrpc":"2.0","method":"m"}`, false, true, false},
		{response("result", `1`), false, false, true},
		{response("error", `{}`), false, false, true},
		{`{"jsonrpc":"2.0","error":{}}`, false, false, true},
	} {
		var m Message
		if err := m.Scan([]byte(c.input), FromClient); err != nil {
			t.Fatal(err)
		}
		if m.IsRequest() != c.request || m.IsNotification() != c.notification || m.IsResponse() != c.response {
			t.Errorf("%s: %v %v %v", c.input, m.IsRequest(), m.IsNotification(), m.IsResponse())
		}
	}
	var m Message
	if err := m.Scan([]byte(request(`{"name":"x","_meta":{"k":1}}`)), FromClient); err != nil {
		t.Fatal(err)
	}
	if string(m.Param("name")) != `"x"` || m.Param("Name") != nil || string(m.MetaValue("k")) != "1" || m.MetaValue("name") != nil {
		t.Errorf("lookups in %v %v", m.Fields, m.Meta)
	}
}

// The method outlives the bytes it came in, and is not mixed up by reuse.
func TestMethodIsOwned(t *testing.T) {
	var m Message
	var got []string
	buf := make([]byte, 0, 256)
	for _, raw := range []string{"a/b", "a/b", "c/d", `c\/d`, `c\/d`, "a/b"} {
		buf = append(buf[:0], `{"jsonrpc":"2.0","method":"`+raw+`"}`...)
		if err := m.Scan(buf, FromClient); err != nil {
			t.Fatal(err)
		}
		got = append(got, m.Method)
		clear(buf)
	}
	if diff := cmp.Diff([]string{"a/b", "a/b", "c/d", "c/d", "c/d", "a/b"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	for _, in := range scanInputs {
		var m Message
		n := testing.AllocsPerRun(10, func() {
			if err := m.Scan(in.input, in.trust); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", in.name, n)
		}
	}
}

// allocated is how many bytes f allocates, freed or not.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// Hostile messages cost memory in proportion to their size at most, and a
// Message does not hold on to it.
func TestScanMemoryIsLinear(t *testing.T) {
	escaped := func(n int) string {
		var b strings.Builder
		b.WriteString(`{"\u006b":0`)
		for i := range n {
			fmt.Fprintf(&b, `,"\u006b%d":0`, i)
		}
		return b.String() + "}"
	}
	for _, c := range []struct {
		name  string
		build func(n int) string
		trust Trust
		per   int64 // bytes per byte of input; growing slices are counted whole
	}{
		{"names", func(n int) string { return request(manyMembers(n, "")) }, FromClient, 50},
		{"escaped names", func(n int) string { return request(escaped(n)) }, FromClient, 50},
		{"escaped names upstream", func(n int) string { return response("result", escaped(n)) }, FromUpstream, 0},
		{"names upstream", func(n int) string { return response("result", manyMembers(n, "")) }, FromUpstream, 0},
		{"escapes", func(n int) string { return request(`{"a":"` + strings.Repeat(`\u0041`, n) + `"}`) }, FromClient, 0},
		{"objects", func(n int) string { return request(`{"a":[{"b":0}` + strings.Repeat(`,{"b":0}`, n) + `]}`) }, FromClient, 0},
	} {
		input := []byte(c.build(20_000))
		got := allocated(func() {
			var m Message
			if err := m.Scan(input, c.trust); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		})
		if limit := c.per*int64(len(input)) + 4096; got > limit {
			t.Errorf("%s: %d bytes for %d of input, want at most %d", c.name, got, len(input), limit)
		}
	}
	var m Message
	if err := m.Scan([]byte(request(manyMembers(100_000, ""))), FromClient); err != nil {
		t.Fatal(err)
	}
	if len(m.Fields) != 100_000 {
		t.Errorf("%d fields", len(m.Fields))
	}
	if err := m.Scan([]byte(request(`{}`)), FromClient); err != nil {
		t.Fatal(err)
	}
	if cap(m.Fields) > 1024 || cap(m.s.names) > 1024 {
		t.Errorf("kept %d fields and %d names", cap(m.Fields), cap(m.s.names))
	}
}

func TestAppendFrames(t *testing.T) {
	id, object := []byte("7"), []byte(`{"a":1}`)
	for want, got := range map[string][]byte{
		`x{"jsonrpc":"2.0","id":7,"method":"a\"b","params":{"a":1}}`: AppendRequest([]byte("x"), id, `a"b`, object),
		`{"jsonrpc":"2.0","method":"m"}`:                             AppendRequest(nil, nil, "m", nil),
		`{"jsonrpc":"2.0","id":7,"result":{"a":1}}`:                  AppendResult(nil, id, object),
		`{"jsonrpc":"2.0","id":7,"error":{"a":1}}`:                   AppendError(nil, id, object),
		`{"jsonrpc":"2.0","id":null,"error":{"a":1}}`:                AppendError(nil, nil, object),
	} {
		if string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
		var m Message
		if err := m.Scan(bytes.TrimPrefix(got, []byte("x")), FromClient); err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
}
