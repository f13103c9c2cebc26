package wire

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// genSpace is what may stand between tokens.
func genSpace() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"", "", "", " ", "\n", "\t \r\n"})
}

// genText is the inside of a JSON string, odd but valid, for an upstream at least.
func genText() *rapid.Generator[string] {
	piece := rapid.SampledFrom([]string{
		"a", "b", "name", "_meta", "é", "😀", ",", "{", "]", ":", `\"`, `\\`, `\/`, `\n`, `\u0061`, `\u00e9`, `\ud83d\ude00`, `\ud800`, `\udc00`,
		"a long run of plain letters",
	})
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(piece, 0, 3).Draw(t, "text"), "")
	})
}

func genValue(depth int) *rapid.Generator[string] {
	scalar := rapid.SampledFrom([]string{"null", "true", "0", "-1.50e+3", "9223372036854775807", `""`, `"x\ud800"`, "[]", "{ }"})
	if depth == 0 {
		return scalar
	}
	return rapid.OneOf(scalar, genObject(depth-1), rapid.Custom(func(t *rapid.T) string {
		return "[" + joined(t, rapid.SliceOfN(genValue(depth-1), 0, 3).Draw(t, "elements")) + "]"
	}))
}

func genObject(depth int) *rapid.Generator[string] {
	member := rapid.Custom(func(t *rapid.T) string {
		return `"` + genText().Draw(t, "name") + `"` + genSpace().Draw(t, "space") + ":" + genSpace().Draw(t, "space") + genValue(depth).Draw(t, "value")
	})
	return rapid.Custom(func(t *rapid.T) string {
		return "{" + joined(t, rapid.SliceOfN(member, 0, 5).Draw(t, "members")) + "}"
	})
}

func joined(t *rapid.T, items []string) string {
	for i := range items {
		items[i] = genSpace().Draw(t, "before") + items[i] + genSpace().Draw(t, "after")
	}
	return strings.Join(items, ",")
}

func TestPropertyValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := []byte(genSpace().Draw(t, "before") + genValue(4).Draw(t, "value") + genSpace().Draw(t, "after"))
		for _, trust := range []Trust{FromClient, FromUpstream} {
			if err := Valid(raw, trust); (err == nil) != oracleValid(raw, trust) {
				t.Errorf("upstream %v: %v", trust, err)
			}
		}
		elements, ok := Elements(raw)
		if !ok {
			return
		}
		// Put together again, they are the same array.
		rest := string(raw)
		for _, e := range elements {
			_, after, found := strings.Cut(rest, string(e))
			if !found {
				t.Fatalf("%s is not in %s", e, rest)
			}
			if Valid(e, FromUpstream) != nil {
				t.Errorf("element %s is not valid", e)
			}
			rest = after
		}
		if strings.Trim(rest, "[] \t\r\n") != "" && len(elements) > 0 {
			t.Errorf("left over: %s", rest)
		}
	})
}

func TestPropertyEdit(t *testing.T) {
	change := rapid.Custom(func(t *rapid.T) Change {
		name := unquote(`"` + genText().Draw(t, "name") + `"`)
		value := rapid.SampledFrom([]string{"", "1", `{"set":[true]}`, `"x"`}).Draw(t, "value")
		if value == "" {
			return Change{Name: name}
		}
		return Change{name, []byte(value)}
	})
	rapid.Check(t, func(t *rapid.T) {
		obj := []byte(genObject(2).Draw(t, "object"))
		changes := rapid.SliceOfN(change, 0, 4).Draw(t, "changes")
		checkEdit(t, obj, changes...)
		edited := Edit(nil, obj, changes...)
		if again := Edit(nil, edited, changes...); string(again) != string(edited) {
			t.Errorf("a second edit changes %s to %s", edited, again)
		}
		for _, f := range Members(edited) {
			if got := Get(edited, string(f.Name)); got == nil {
				t.Errorf("%q is not found in %s", f.Name, edited)
			}
		}
		// EditFields agrees but for the bytes between and the spelling of names.
		var got, want []string
		for _, f := range Members(EditFields(nil, Members(obj), changes...)) {
			got = append(got, string(f.Name)+"="+string(f.Value))
		}
		for _, f := range Members(edited) {
			want = append(want, string(f.Name)+"="+string(f.Value))
		}
		if strings.Join(got, "\x00") != strings.Join(want, "\x00") {
			t.Errorf("EditFields gives %q, Edit %q", got, want)
		}
	})
}

// Setting values touches no byte outside of them.
func TestPropertyEditInPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		obj := genObject(2).Draw(t, "object")
		raw := []byte(obj)
		fields := Members(raw)
		if len(fields) == 0 {
			return
		}
		f := fields[rapid.IntRange(0, len(fields)-1).Draw(t, "which")]
		for _, other := range fields {
			if string(other.Name) == string(f.Name) && &other.Value[0] != &f.Value[0] {
				return
			}
		}
		at := cap(raw) - cap(f.Value)
		want := obj[:at] + "NEW" + obj[at+len(f.Value):]
		if got := string(Edit(nil, raw, Change{string(f.Name), []byte("NEW")})); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestPropertyString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[\x00-\x7f"\\é😀]*`)).Draw(t, "s")
		raw := AppendString(nil, s)
		if err := Valid(raw, FromClient); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if got, ok := String(raw); !ok || got != s {
			t.Errorf("%q comes back as %q, %v", s, got, ok)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
		got, ok := String(AppendString(nil, string(b)))
		if want := string([]rune(string(b))); !ok || got != want || !utf8.ValidString(got) {
			t.Errorf("%q comes back as %q, %v, want %q", b, got, ok, want)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		raw := `"` + genText().Draw(t, "text") + `"`
		if got, ok := String([]byte(raw)); !ok || got != unquote(raw) {
			t.Errorf("%s gives %q, the oracle %q", raw, got, unquote(raw))
		}
	})
}
