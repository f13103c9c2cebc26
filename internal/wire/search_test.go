package wire

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func TestContains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ab"]{1,4}`).Draw(t, "text")
		b := []byte(rapid.StringMatching(`[ab"]{0,12}`).Draw(t, "b"))
		rare := rapid.IntRange(0, len(text)-1).Draw(t, "rare")
		if got, want := Contains(b, text, rare), bytes.Contains(b, []byte(text)); got != want {
			t.Fatalf("Contains(%s, %s, %d) = %v", b, text, rare, got)
		}
	})
}
