package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// What a model or a tool may say to do something to a terminal or to the
// person before it.
var hostile = []struct{ name, text, visible, exact string }{
	{"plain", "a ü 猫 👩‍💻\n\tb", "a ü 猫 👩‍💻\n\tb", "a ü 猫 👩\\u200d💻\n\\tb"},
	{"colour", "\x1b[31mred", `\u001b[31mred`, `\u001b[31mred`},
	{"title", "\x1b]0;mine\x07", `\u001b]0;mine\u0007`, `\u001b]0;mine\u0007`},
	{"clipboard", "\x1b]52;c;cm0gLXJm\x1b\\", `\u001b]52;c;cm0gLXJm\u001b\`, `\u001b]52;c;cm0gLXJm\u001b\`},
	{"one-byte escape", "\u009b2J", `\u009b2J`, `\u009b2J`},
	{"over the line", "safe\rrm -rf", `safe\rrm -rf`, `safe\rrm -rf`},
	{"backspace", "no\b\byes", `no\u0008\u0008yes`, `no\u0008\u0008yes`},
	{"turned around", "a\u202eb\u2066c\u061c", `a\u202eb\u2066c\u061c`, `a\u202eb\u2066c\u061c`},
	{"invisible", "a\u200bb\ufeffc\u2060", `a\u200bb\ufeffc\u2060`, `a\u200bb\ufeffc\u2060`},
	{"tags", "x\U000e0041", `x\udb40\udc41`, `x\udb40\udc41`},
	{"other spaces", "a\u00a0b\u3000c", "a\u00a0b\u3000c", `a\u00a0b\u3000c`},
	{"line separator", "a\u2028b", `a\u2028b`, `a\u2028b`},
	{"no UTF-8", "a\xff\xc3", `a\xff\xc3`, `a\xff\xc3`},
	{"null and delete", "\x00\x7f", `\u0000\u007f`, `\u0000\u007f`},
}

func TestChatHostileText(t *testing.T) {
	for _, tc := range hostile {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.visible, visible(tc.text)); d != "" {
				t.Errorf("visible: -want +got:\n%s", d)
			}
			if d := cmp.Diff(tc.exact, exact(tc.text)); d != "" {
				t.Errorf("exact: -want +got:\n%s", d)
			}
		})
	}
}

// Whatever is said in whatever pieces, on a terminal it is characters that can
// be seen, and the same ones as if it had been said at once.
func TestChatStreamIsSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"\x1b[2J", "\r", "é", "\xc3", "\u202e", "👩‍💻"}))).Draw(t, "text"), "")
		var b bytes.Buffer
		p := &pane{w: &b, tty: true}
		v := newView(p, p, true)
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			v.say("text", rest[:n])
			rest = rest[n:]
		}
		v.close()
		want := visible(text)
		if want != "" && !strings.HasSuffix(want, "\n") {
			want += "\n"
		}
		if d := cmp.Diff(want, b.String()); d != "" {
			t.Fatalf("-want +got:\n%s", d)
		}
		for _, r := range b.String() {
			if unicode.IsControl(r) && r != '\n' && r != '\t' {
				t.Fatalf("%q reached the terminal", r)
			}
		}
	})
}

// A person decides about arguments: what is shown has to be what is meant.
func TestChatExactKeepsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(map[string]string{rapid.String().Draw(t, "key"): rapid.String().Draw(t, "value")})
		if err != nil {
			t.Fatal(err)
		}
		var was, is map[string]string
		if json.Unmarshal(raw, &was) != nil || json.Unmarshal([]byte(exactLine(string(raw))), &is) != nil || !cmp.Equal(was, is) {
			t.Fatalf("%s was shown as %s", raw, exact(string(raw)))
		}
	})
}

// No line of ours is longer than the terminal, and none has more than a line.
func TestChatLinesFit(t *testing.T) {
	for _, tc := range hostile {
		p := &pane{w: io.Discard, tty: true}
		if got := p.fit(strings.Repeat(tc.text, 300), 2); strings.ContainsAny(got, "\n\x1b\r") || len([]rune(got)) > 400 {
			t.Errorf("%s: %q", tc.name, got)
		}
	}
}
