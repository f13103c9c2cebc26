// Package secret owns the type of values that must not be seen: tokens,
// passwords, the environment and headers handed to servers.
//
// A String prints as dots however it is printed, logged or encoded; only
// Reveal gives the bytes, so every use of them can be found by that name. It
// does not protect memory: the bytes are an ordinary Go string.
package secret

import (
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
)

// Dots is what every secret looks like.
const Dots = "•••"

// String is a text that prints as dots. The zero value is the empty secret;
// it prints as dots too, so that its length is not told.
type String struct {
	// A pointer, not the text: reflection-based printers that ignore the
	// methods below show an address, and == compares identity, never content.
	text *string
}

// New returns s as a secret.
func New(s string) String { return String{&s} }

// Reveal returns the text itself. Call it only where the text is handed to
// whom it is for.
func (s String) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Equal reports whether both hold the same text, for comparing configurations.
// It is not constant-time: do not check a caller's token with it.
func (s String) Equal(o String) bool { return s.Reveal() == o.Reveal() }

func (s String) String() string               { return Dots }
func (s String) GoString() string             { return Dots }
func (s String) LogValue() slog.Value         { return slog.StringValue(Dots) }
func (s String) MarshalText() ([]byte, error) { return []byte(Dots), nil }
func (s String) MarshalJSON() ([]byte, error) { return []byte(`"` + Dots + `"`), nil }

// Format answers every verb with dots, also those that String does not serve
// (%d, %x).
func (s String) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Dots) }

var (
	_ fmt.Formatter          = String{}
	_ fmt.GoStringer         = String{}
	_ slog.LogValuer         = String{}
	_ encoding.TextMarshaler = String{}
	_ json.Marshaler         = String{}
)
