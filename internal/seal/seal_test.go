package seal

import (
	"errors"
	"testing"
)

func TestSeal(t *testing.T) {
	type body struct{ A string }
	k := Random()
	s, err := k.Sign("p1.", body{"x"})
	if err != nil {
		t.Fatal(err)
	}
	var got body
	if err := k.Open("p1.", s, &got); err != nil || got.A != "x" {
		t.Fatalf("%+v, %v", got, err)
	}
	other, err := k.Sign("p2.", body{"x"})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"changed":       s[:5] + "A" + s[6:],
		"cut":           s[:len(s)-1],
		"other purpose": "p1." + other[3:],
		"empty":         "",
		"no signature":  "p1.e30",
	} {
		if err := k.Open("p1.", text, &got); !errors.Is(err, ErrBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Random().Open("p1.", s, &got); !errors.Is(err, ErrBroken) {
		t.Errorf("another's key: %v", err)
	}
}
