package catalog

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCompare(t *testing.T) {
	lists := func(defs ...string) *Lists {
		l := &Lists{}
		for _, def := range defs {
			it, err := Parse(Tool, "up", []byte(def))
			if err != nil {
				t.Fatal(err)
			}
			l.Items[Tool] = append(l.Items[Tool], it)
		}
		return l
	}
	a := lists(`{"name":"same"}`, `{"name":"new","title":"old"}`, `{"name":"gone"}`)
	b := lists(`{"name":"new","title":"new"}`, `{"name":"b"}`, `{"name":"same"}`, `{"name":"a"}`)
	for _, tc := range []struct {
		what string
		a, b *Lists
		n    int
		want Delta
	}{
		{"all ways", a, b, 10, Delta{Added: []string{"a", "b"}, Removed: []string{"gone"}, Changed: []string{"new"}}},
		{"the first list", nil, b, 2, Delta{Added: []string{"a", "b"}, More: 2}},
		{"the last list", a, nil, 10, Delta{Removed: []string{"gone", "new", "same"}}},
		{"another order", lists(`{"name":"x"}`, `{"name":"y"}`), lists(`{"name":"y"}`, `{"name":"x"}`), 10, Delta{}},
	} {
		got := Compare(Tool, tc.a, tc.b, tc.n)
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s: %s", tc.what, d)
		}
		if got.Empty() != (tc.what == "another order") {
			t.Errorf("%s: empty is %v", tc.what, got.Empty())
		}
	}
}
