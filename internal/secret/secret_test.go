package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

const plain = "ghp_sesame"

func TestNothingPrintsIt(t *testing.T) {
	s := New(plain)
	type holder struct {
		Token String
		Map   map[string]String
		list  []String
		ptr   *String
	}
	h := holder{Token: s, Map: map[string]String{"k": s}, list: []String{s}, ptr: &s}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t"} {
		fmt.Fprintf(&out, verb+"\n", s)
		fmt.Fprintf(&out, verb+"\n", h)
		fmt.Fprintf(&out, verb+"\n", &h)
	}
	for _, v := range []any{s, h, map[string]any{"a": s}} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("text", "s", s, "h", h)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("json", "s", s, "h", h)
	text := out.String()
	for _, leak := range []string{plain, fmt.Sprintf("%x", plain), fmt.Sprintf("%X", plain), fmt.Sprintf("%d", []byte(plain))} {
		if strings.Contains(text, leak) {
			t.Errorf("the secret leaked as %q in\n%s", leak, text)
		}
	}
	if !strings.Contains(text, Dots) {
		t.Error("no dots in the output")
	}
}

func TestReveal(t *testing.T) {
	if got := New(plain).Reveal(); got != plain {
		t.Errorf("Reveal = %q", got)
	}
	var zero String
	if got := zero.Reveal(); got != "" || zero.String() != Dots {
		t.Errorf("the zero secret reveals %q and prints %q", got, zero.String())
	}
	if !New("a").Equal(New("a")) || New("a").Equal(New("b")) || !zero.Equal(New("")) {
		t.Error("Equal does not compare the texts")
	}
}
