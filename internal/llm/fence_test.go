package llm

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// through sends the parts through a Fence; neighbouring texts are one.
func through(parts ...string) (out string) {
	var f Fence
	var pieces []Piece
	for _, p := range parts {
		pieces = append(pieces, f.Write(p)...)
	}
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			out += fmt.Sprintf("text %q\n", text.String())
			text.Reset()
		}
	}
	for _, p := range append(pieces, f.Close()...) {
		if p.Call == nil {
			text.WriteString(p.Text)
			continue
		}
		flush()
		out += fmt.Sprintf("call %s %s", p.Call.Name, p.Call.Args)
		if p.Call.Malformed != "" {
			out += fmt.Sprintf(" malformed %q", p.Call.Malformed)
		}
		out += "\n"
	}
	flush()
	return out
}

var fences = []struct{ name, in, want string }{
	{"text", "just text", "text \"just text\"\n"},
	{"empty", "", ""},
	{"call", "```tool\n{\"tool\": \"a:b\", \"arguments\": {\"x\": 1}}\n```", "call a:b {\"x\": 1}\n"},
	{"text around", "So:\n```tool\n{\"tool\":\"a\"}\n```\nDone.", "text \"So:\\n\"\ncall a {}\ntext \"Done.\"\n"},
	{"two calls", "```tool\n{\"tool\":\"a\"}\n```\n\n```tool\n{\"tool\":\"b\"}\n```\n", "call a {}\ntext \"\\n\"\ncall b {}\n"},
	{"on one line", "```tool {\"tool\":\"a\"}```", "call a {}\n"},
	{"no space", "```tool{\"tool\":\"a\"}```x", "call a {}\ntext \"x\"\n"},
	{"indented, CRLF", "  ```tool\r\n{\"tool\":\"a\"}\r\n  ```\r\nok", "text \"  \"\ncall a {}\ntext \"ok\"\n"},
	{"fence within a string", "```tool\n{\"tool\":\"w\",\"arguments\":{\"text\":\"```go\\nx```\"}}\n```", "call w {\"text\":\"```go\\nx```\"}\n"},
	{"braces within a string", "```tool\n{\"tool\":\"w\",\"arguments\":{\"t\":\"}\\\"}```\"}}```", "call w {\"t\":\"}\\\"}```\"}\n"},
	{"another language", "```toolbox\nx\n```\n", "text \"```toolbox\\nx\\n```\\n\"\n"},
	{"code", "```go\nfmt.Println()\n```", "text \"```go\\nfmt.Println()\\n```\"\n"},
	{"not at the start of a line", "say ```tool\n{}\n```", "text \"say ```tool\\n{}\\n```\"\n"},
	{"not closed", "```tool\n{\"tool\":\"a\"}\n", "call  {} malformed \"\\n{\\\"tool\\\":\\\"a\\\"}\\n\"\n"},
	{"not opened whole", "```too", "text \"```too\"\n"},
	{"no JSON", "```tool\nread a file\n```after", "call  {} malformed \"\\nread a file\\n\"\ntext \"after\"\n"},
	{"no name", "```tool\n{\"arguments\":{}}\n```", "call  {} malformed \"\\n{\\\"arguments\\\":{}}\\n\"\n"},
	{"arguments no object", "```tool\n{\"tool\":\"a\",\"arguments\":[1]}\n```", "call a {} malformed \"\\n{\\\"tool\\\":\\\"a\\\",\\\"arguments\\\":[1]}\\n\"\n"},
	{"ticks that close nothing", "```tool\n`` ```x\n```", "call  {} malformed \"\\n`` ```x\\n\"\n"},
	{"at once closed", "```tool\n```", "call  {} malformed \"\\n\"\n"},
	{"characters of four bytes", "🙂```tool\n🙂", "text \"🙂```tool\\n🙂\"\n"},
	{"runs of ticks", "````\n`````tool\n```tool\n{\"tool\":\"a\"}````", "text \"````\\n`````tool\\n\"\ncall a {}\ntext \"`\"\n"},
}

func TestFence(t *testing.T) {
	for _, tc := range fences {
		t.Run(tc.name, func(t *testing.T) {
			if got := through(tc.in); got != tc.want {
				t.Fatalf("got\n%swant\n%s", got, tc.want)
			}
			for i := range len(tc.in) + 1 {
				if got := through(tc.in[:i], tc.in[i:]); got != tc.want {
					t.Errorf("cut at %d: got\n%swant\n%s", i, got, tc.want)
				}
			}
			if got := through(strings.Split(tc.in, "")...); got != tc.want {
				t.Errorf("in characters: got\n%s", got)
			}
		})
	}
}

// Text that cannot be part of a block does not wait for what follows it.
func TestFenceHoldsLittle(t *testing.T) {
	var f Fence
	for _, tc := range []struct{ in, out string }{
		{"Hello", "Hello"}, {" `code` and", " `code` and"}, {"\n``", "\n"}, {"`g", "```g"}, {"\n```tool", "\n"}, {"s", "```tools"}, {"\xf0\x9f", ""}, {"\x99\x82", "🙂"},
	} {
		got := ""
		for _, p := range f.Write(tc.in) {
			got += p.Text
			if !utf8.ValidString(p.Text) {
				t.Errorf("half a character in %q", p.Text)
			}
		}
		if got != tc.out {
			t.Errorf("after %q: %q, want %q", tc.in, got, tc.out)
		}
	}
}

func TestFenceBound(t *testing.T) {
	var f Fence
	f.Write("```tool\n")
	calls := 0
	for range 3 {
		for _, p := range f.Write(strings.Repeat("x", maxFence/2)) {
			if p.Call != nil && p.Call.Malformed != "" {
				calls++
			}
		}
	}
	if calls != 1 {
		t.Errorf("%d malformed calls, want the block to end once it is too long", calls)
	}
}

func checkCuts(t interface{ Errorf(string, ...any) }, s string, cuts []int) {
	whole := through(s)
	var parts []string
	at := 0
	for _, c := range cuts {
		n := min(len(s)-at, max(0, c))
		parts = append(parts, s[at:at+n])
		at += n
	}
	if got := through(append(parts, s[at:])...); got != whole {
		t.Errorf("%q cut as %q:\n%swhole:\n%s", s, parts, got, whole)
	}
}

func TestFenceCuts(t *testing.T) {
	word := rapid.SampledFrom([]string{"`", "``", "```", "```tool", "\n", " ", "\r\n", "{", "}", `"`, `\`, `{"tool":"a"}`, `{"tool":"a","arguments":{"t":"`, `"}}`, "ü", "🙂", "\xff", "x"})
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(word, 0, 30).Draw(t, "words"), "")
		checkCuts(t, s, rapid.SliceOfN(rapid.IntRange(0, 9), 0, 40).Draw(t, "cuts"))
	})
}

func FuzzFence(f *testing.F) {
	for _, tc := range fences {
		f.Add(tc.in, uint8(1))
	}
	f.Fuzz(func(t *testing.T, s string, size uint8) {
		cuts := make([]int, 0, len(s))
		for range s {
			cuts = append(cuts, int(size)%7+1)
		}
		checkCuts(t, s, cuts)
	})
}
