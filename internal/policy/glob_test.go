package policy

import (
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestGlob(t *testing.T) {
	for _, tc := range []struct {
		pattern, yes, no string // texts separated by spaces
		how              byte
	}{
		{"fs__read", "fs__read", "fs__rea fs__reads xfs__read", matchExact},
		{"fs__*", "fs__ fs__a fs__a/b", "fs_ xfs__a", matchPrefix},
		{"*_delete", "_delete a_delete a/b_delete", "_deletes delete", matchSuffix},
		{"*admin*", "admin xadminy /admin/", "admi", matchInner},
		{"*", "a a/b ü", "", matchAll},
		{"**", "a a/b", "", matchAll},
		{"**a**", "a xay", "x", matchInner},
		{"f?", "fs fü f/", "f fss", matchTokens},
		{"[a-c]x", "ax cx", "dx x", matchTokens},
		{"[^a-c]x", "dx /x", "ax", matchTokens},
		{"[a\\-]x", "ax -x", "bx", matchTokens},
		{"a*b*c", "abc axbyc aabbcc abcbc a/b/c", "ab acb abcd", matchTokens},
		{"a*bc*bd", "abcbd abcbcbd axbcybd", "abcb abd", matchTokens},
		{`\*a`, "*a", "a xa", matchExact},
		{`a\[b`, "a[b", "ab", matchExact},
		{"file:///etc/*", "file:///etc/passwd file:///etc/a/b", "file:///et", matchPrefix},
	} {
		g, err := compileGlob(tc.pattern)
		if err != nil || g.how != tc.how {
			t.Errorf("%s: %v, matches as %d", tc.pattern, err, g.how)
		}
		for _, s := range strings.Fields(tc.yes) {
			if !g.match(s) {
				t.Errorf("%s does not match %s", tc.pattern, s)
			}
		}
		for _, s := range strings.Fields(tc.no) {
			if g.match(s) {
				t.Errorf("%s matches %s", tc.pattern, s)
			}
		}
	}
	if g, err := compileGlob(""); err != nil || !g.match("") || g.match("a") {
		t.Errorf("the empty pattern: %v", err)
	}
	if (&glob{}).match("") {
		t.Error("the zero glob matches")
	}
}

// Where there is no slash the patterns are those of path.Match, and so is what
// is no pattern.
func TestGlobIsPathMatch(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		pattern := rapid.StringOf(rapid.SampledFrom([]rune("ab*?[]^-\\cü"))).Draw(rt, "pattern")
		s := rapid.StringOfN(rapid.SampledFrom([]rune("abcü-^")), 0, 6, -1).Draw(rt, "s")
		want, wantErr := path.Match(pattern, s)
		_, wantErr2 := path.Match(pattern, "")
		g, err := compileGlob(pattern)
		if (err != nil) != (wantErr != nil || wantErr2 != nil) {
			rt.Fatalf("%q: %v, path.Match has %v, %v", pattern, err, wantErr, wantErr2)
		}
		if err == nil && g.match(s) != want {
			rt.Fatalf("%q and %q: %v, path.Match has %v", pattern, s, !want, want)
		}
	})
}
