package catalog

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var portable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

func TestExpose(t *testing.T) {
	for _, tc := range []struct{ upstream, name, want string }{
		{"github", "create_issue", "github__create_issue"},
		{"g", "a-b_C9", "g__a-b_C9"},
		{"github", strings.Repeat("x", 40), "github__" + strings.Repeat("x", 40)},
		{"github", strings.Repeat("x", 41), "github__" + strings.Repeat("x", 33) + "_tu3bqz"},
		{"fs", "read.file", "fs__read_file_gevqya"},
		{"fs", "read/file", "fs__read_file_oxubxz"},
		{"fs", "größe", "fs__gr__e_sja5ac"},
		{"fs", "a b", "fs__a_b_tkkp5o"},
		{"fs", "a:b", "fs__a_b_u7qo7h"},
	} {
		if got := Expose(tc.upstream, tc.name); got != tc.want {
			t.Errorf("Expose(%q, %q) = %q, want %q", tc.upstream, tc.name, got, tc.want)
		}
	}
}

func TestExposeHoldsForAnyName(t *testing.T) {
	names := rapid.OneOf(rapid.StringN(1, 80, -1), rapid.StringMatching(`[A-Za-z0-9_.:/-]{1,60}`),
		rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOfN(rapid.Byte(), 1, 60).Draw(t, "bytes")) }))
	rapid.Check(t, func(t *rapid.T) {
		upstream := rapid.StringMatching(`[a-z][a-z0-9-]{0,19}`).Draw(t, "upstream")
		name, other := names.Draw(t, "name"), names.Draw(t, "other")
		got := Expose(upstream, name)
		if !portable.MatchString(got) || len(got) > maxName {
			t.Fatalf("%q is not portable", got)
		}
		if got != Expose(upstream, name) {
			t.Fatal("two names for one tool")
		}
		if name != other && got == Expose(upstream, other) {
			t.Fatalf("%q and %q are both %q", name, other, got)
		}
		full := upstream + separator + name
		if keeps := portable.MatchString(full) && len(full) <= maxName; keeps != (got == full) {
			t.Fatalf("%q became %q", full, got)
		}
		if got != full && !regexp.MustCompile(`_[a-z2-7]{6}$`).MatchString(got) {
			t.Fatalf("%q was changed to %q without a hash", full, got)
		}
	})
}
