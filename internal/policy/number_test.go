package policy

import (
	"cmp"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestNumbersThatAreNone(t *testing.T) {
	for _, s := range []string{"", "-", "1.", ".5", "1e", "1e+", "1e--1", "+1", "0x1", "1_0", "NaN", "Inf", "1 ", "1e1.5"} {
		if n, ok := parseNumber(s); ok {
			t.Errorf("%q is %+v", s, n)
		}
	}
}

func TestNumbersCompareExactly(t *testing.T) {
	draw := rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?`)
	rapid.Check(t, func(rt *rapid.T) {
		a, b := draw.Draw(rt, "a"), draw.Draw(rt, "b")
		x, ok := parseNumber(a)
		y, ok2 := parseNumber(b)
		p, _ := new(big.Rat).SetString(a)
		q, _ := new(big.Rat).SetString(b)
		if !ok || !ok2 || cmp.Compare(x.compare(&y), 0) != p.Cmp(q) {
			rt.Fatalf("%s and %s: %d, want %d", a, b, x.compare(&y), p.Cmp(q))
		}
	})
}
