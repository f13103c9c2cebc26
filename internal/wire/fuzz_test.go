package wire

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// The oracle is another parser; it allows more nesting and, where it lets lone
// surrogates pass, invalid UTF-8 as well.
var laxOptions = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

func oracleValid(b []byte, trust Trust) bool {
	if trust == FromUpstream {
		return utf8.Valid(b) && jsontext.Value(b).IsValid(laxOptions...) && depth(b) <= MaxDepth
	}
	return jsontext.Value(b).IsValid() && depth(b) <= MaxDepth
}

func depth(b []byte) (deepest int) {
	d := jsontext.NewDecoder(bytes.NewReader(b), laxOptions...)
	for {
		if _, err := d.ReadToken(); err != nil {
			return deepest
		}
		deepest = max(deepest, d.StackDepth())
	}
}

// A rawMember is a member as it stands in the text.
type rawMember struct{ Name, Value string }

// oracleMembers takes a valid object apart.
func oracleMembers(b []byte) (out []rawMember) {
	d := jsontext.NewDecoder(bytes.NewReader(b), laxOptions...)
	if tok, err := d.ReadToken(); err != nil || tok.Kind() != '{' {
		return nil
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadValue()
		if err != nil {
			return nil
		}
		text := string(name)
		value, err := d.ReadValue()
		if err != nil {
			return nil
		}
		out = append(out, rawMember{text, string(value)})
	}
	return out
}

func unquote(raw string) string {
	out, _ := jsontext.AppendUnquote(nil, raw) // the error tells of surrogates, which are replaced
	return string(out)
}

// oracleMessage says whether b is the JSON that Scan demands.
func oracleMessage(b []byte, trust Trust) bool {
	if trust == FromClient || len(bytes.TrimLeft(b, " \t\r\n")) == 0 || bytes.TrimLeft(b, " \t\r\n")[0] != '{' {
		return oracleValid(b, FromClient)
	}
	if !oracleValid(b, FromUpstream) {
		return false
	}
	seen := map[string]bool{}
	for _, m := range oracleMembers(b) {
		name := unquote(m.Name)
		if seen[name] || !oracleValid([]byte(m.Name), FromClient) {
			return false
		}
		seen[name] = true
		if name != "result" && name != "error" && !oracleValid([]byte(m.Value), FromClient) {
			return false
		}
	}
	return true
}

func FuzzScan(f *testing.F) {
	for _, s := range []string{
		request(`{"name":"x","arguments":{"a":[1,-2.5e3,true,null,"\u00e9\ud83d\ude00"]},"_meta":{"k":1}}`),
		response("result", `{"a":1,"a":"\ud800"}`), response("error", `{"code":-32000,"message":"é"}`),
		`{"n\u0061me":1,"name":2}`, `[{"a":{}}]`, "\ufeff{}", `"` + "\xff" + `"`, ` [1 , 2] `, `{"a":01}`,
		request(manyMembers(30, `,"k\u0033":1`)), nest("[", "]", 1001), nest(`{"a":`, "}", 1000),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		input := bytes.Clone(b)
		for _, trust := range []Trust{FromClient, FromUpstream} {
			if err := Valid(b, trust); (err == nil) != oracleValid(b, trust) {
				t.Errorf("Valid, upstream %v: %v", trust, err)
			}
			var m Message
			err := m.Scan(b, trust)
			if v := judge(err); (v != syntax) != oracleMessage(b, trust) || v != syntax && v != shape && v != accepted {
				t.Errorf("Scan, upstream %v: %v", trust, err)
			}
			if err == nil {
				checkParts(t, b, &m)
			}
		}
		if oracleValid(b, FromUpstream) {
			checkValue(t, b)
		} else if Members(b) != nil {
			t.Error("members of what is not valid")
		}
		if !bytes.Equal(b, input) {
			t.Error("the input was changed")
		}
	})
}

func checkParts(t *testing.T, b []byte, m *Message) {
	want := parts{ID: "-", Params: "-", Result: "-", Error: "-"}
	list := func(raw string) (out []string) {
		for _, f := range oracleMembers([]byte(raw)) {
			out = append(out, unquote(f.Name)+"="+f.Value)
		}
		return out
	}
	for _, f := range oracleMembers(b) {
		switch unquote(f.Name) {
		case "id":
			want.ID = f.Value
		case "method":
			want.Method = unquote(f.Value)
		case "result":
			want.Result = f.Value
		case "error":
			want.Error = f.Value
		case "params":
			want.Params, want.Fields = f.Value, list(f.Value)
			for _, f := range oracleMembers([]byte(f.Value)) {
				if unquote(f.Name) == "_meta" {
					want.Meta = list(f.Value)
				}
			}
		}
	}
	if diff := cmp.Diff(want, partsOf(m)); diff != "" {
		t.Errorf("parts (-oracle +got):\n%s", diff)
	}
}

// checkValue compares the readers of single values on a valid one.
func checkValue(t *testing.T, b []byte) {
	var want []string
	members := oracleMembers(b)
	for _, f := range members {
		want = append(want, unquote(f.Name)+"="+f.Value)
	}
	if diff := cmp.Diff(want, partsOf(&Message{Fields: Members(b)}).Fields); diff != "" {
		t.Errorf("members (-oracle +got):\n%s", diff)
	}
	raw := bytes.Trim(b, " \t\r\n")
	text, ok := String(raw)
	if ok != (raw[0] == '"') || ok && text != unquote(string(raw)) {
		t.Errorf("String(%s) = %q, %v", raw, text, ok)
	}
	if _, ok := Elements(b); ok != (raw[0] == '[') {
		t.Errorf("Elements(%s): %v", raw, ok)
	}
	if raw[0] != '{' {
		return
	}
	if got := Edit(nil, b); !bytes.Equal(got, b) {
		t.Errorf("Edit of nothing gives %s", got)
	}
	for _, m := range members {
		checkEdit(t, b, Change{Name: unquote(m.Name)})
		checkEdit(t, b, Change{unquote(m.Name), []byte(`{"new":true}`)}, Change{"added", []byte("0")})
	}
}

// checkEdit holds Edit against the members that the oracle sees.
func checkEdit(t interface{ Errorf(string, ...any) }, obj []byte, changes ...Change) {
	last := map[string][]byte{}
	for _, c := range changes {
		last[c.Name] = c.Value
	}
	var want []rawMember
	done := map[string]bool{}
	for _, m := range oracleMembers(obj) {
		name := unquote(m.Name)
		value, changed := last[name]
		switch {
		case !changed:
			want = append(want, m)
		case value != nil && !done[name]:
			want = append(want, rawMember{m.Name, string(value)})
		}
		done[name] = done[name] || changed
	}
	for i, c := range changes {
		overruled := false
		for _, later := range changes[i+1:] {
			overruled = overruled || later.Name == c.Name
		}
		if c.Value != nil && !overruled && !done[c.Name] {
			want = append(want, rawMember{string(Quote(c.Name)), string(c.Value)})
		}
	}
	got := Edit(nil, obj, changes...)
	if diff := cmp.Diff(want, oracleMembers(got)); diff != "" || !oracleValid(got, FromUpstream) {
		t.Errorf("Edit(%s, %q) = %s (-want +got):\n%s", obj, changes, got, diff)
	}
}

// chunked reads b in pieces of random length, sometimes of none.
func chunked(b []byte, seed uint64) io.Reader {
	rnd := rand.New(rand.NewPCG(seed, 0))
	var parts []io.Reader
	for len(b) > 0 {
		n := min(len(b), rnd.IntN(40))
		parts = append(parts, bytes.NewReader(b[:n]))
		b = b[n:]
	}
	return io.MultiReader(parts...)
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nbc\r\n\n  \nabcdef\n{}\nxyz"), uint16(4), uint64(1))
	f.Add([]byte(strings.Repeat("x", 40_000)+"\ny\n"), uint16(39_999), uint64(2))
	f.Fuzz(func(t *testing.T, b []byte, limit uint16, seed uint64) {
		want := lineOracle(b, int(limit))
		for name, r := range map[string]io.Reader{
			"whole": bytes.NewReader(b), "byte by byte": iotest.OneByteReader(bytes.NewReader(b)), "chunked": chunked(b, seed),
		} {
			if diff := cmp.Diff(want, frames(NewLineReader(r, int(limit)))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	})
}

func lineOracle(b []byte, limit int) (out []string) {
	lines := strings.Split(string(b), "\n")
	rest := lines[len(lines)-1]
	for _, line := range lines[:len(lines)-1] {
		line = strings.TrimSuffix(line, "\r")
		switch {
		case len(line) > limit:
			out = append(out, tooLong)
		case strings.Trim(line, " \t\r") != "":
			out = append(out, line)
		}
	}
	if strings.Trim(rest, " \t\r") == "" && len(rest) <= limit+2 {
		return append(out, eof)
	}
	return append(out, cutOff)
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte("\ufeffevent: message\r\nid: 1\rdata: {}\ndata\n\n: c\r\r\ndata:x\n\n"), uint16(10), uint64(1))
	f.Add([]byte("data: "+strings.Repeat("x", 9000)+"\ndata: y\nid: 2\n\n"), uint16(9002), uint64(2))
	f.Fuzz(func(t *testing.T, b []byte, limit uint16, seed uint64) {
		want := eventOracle(string(b), int(limit))
		for name, r := range map[string]io.Reader{
			"whole": bytes.NewReader(b), "byte by byte": iotest.OneByteReader(bytes.NewReader(b)), "chunked": chunked(b, seed),
		} {
			got := events(NewEventReader(r, int(limit)))
			if i := len(got) - 1; strings.HasPrefix(got[i], "!event stream: ") {
				got[i] = tooLong
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	})
}

// eventOracle does the same with the whole text at hand.
func eventOracle(text string, limit int) (out []string) {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(text, "\n")
	var name, id string
	var data []string
	for i, line := range lines {
		whole := i < len(lines)-1
		size := len(strings.Join(data, "\n"))
		if !strings.HasPrefix(line, ":") && !strings.HasPrefix(line, "data:") && len(line) > limit+otherLine ||
			!whole && strings.HasPrefix(line, "data:") && len(line) > limit-size+len("data: ") {
			return append(out, tooLong)
		}
		if !whole {
			break
		}
		if i == 0 {
			line = strings.TrimPrefix(line, byteOrderMark)
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if data != nil {
				out = append(out, name+"|"+id+"|"+strings.Join(data, "\n"))
			}
			name, data = "", nil
		case field == "event":
			name = value
		case field == "id" && !strings.Contains(value, "\x00"):
			id = value
		case field == "data":
			if data = append(data, value); len(strings.Join(data, "\n")) > limit {
				return append(out, tooLong)
			}
		}
	}
	return append(out, eof)
}
