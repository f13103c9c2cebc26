package modules

import "testing"

func TestGlob(t *testing.T) {
	for _, tc := range []struct {
		pattern, name string
		want          bool
	}{
		{"*.go", "a/b.go", true}, {"*.go", "a/b.goo", false}, {"?.go", "é.go", true}, {"?.go", "ab.go", false},
		{"a/**", "a/b/c", true}, {"a/**", "b/a/c", false}, {"**/c", "c", true}, {"**/c", "a/b/c", true}, {"**/c", "a/bc", false},
		{"a/*/c", "a/b/c", true}, {"a/*/c", "a/b/b/c", false}, {"[a-c]x", "bx", true}, {"[!a-c]x", "bx", false}, {"[!a-c]x", "dx", true},
		{"a.b", "axb", false}, {"a+(b)", "a+(b)", true}, {`\*`, "*", true}, {`\*`, "a", false}, {"[]]", "]", true}, {"a,b", "a,b", true},
	} {
		g, err := newGlob(tc.pattern)
		if err != nil {
			t.Errorf("%s: %v", tc.pattern, err)
		} else if g.match(tc.name) != tc.want {
			t.Errorf("%s with %s: %v", tc.pattern, tc.name, !tc.want)
		}
	}
}
