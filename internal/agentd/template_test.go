package agentd

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTemplate(t *testing.T) {
	args := values{"a": {"A", true}, "no": {text: "false"}, "word": {"false", true}, "b-1": {"", true}}
	for in, want := range map[string]string{
		"":                  "",
		"x":                 "x",
		"{{a}}":             "A",
		"x{{ a }}y{{a}}":    "xAyA",
		"{{{{a}}":           "{{a}}",
		"{{{{{{a}}":         "{{A",
		"}}{ {":             "}}{ {",
		"{{b-1}}":           "",
		"{{?a}}-x":          "-x",
		"{{?word}}-x{{a}}":  "-xA",
		"{{?no}}-x":         "(left out)",
		"{{no}}":            "false",
		"{{none}}":          "(left out)",
		"{{a}}{{none}}":     "(left out)",
		"{{?none}}constant": "(left out)",
	} {
		tpl, err := parseTemplate(in)
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		got, ok := tpl.fill(args)
		if !ok {
			got = "(left out)"
		}
		if got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	for _, bad := range []string{"{{", "{{a", "{{a}", "{{}}", "{{ }}", "{{1}}", "{{a.b}}", "{{a b}}", "{{??a}}", "{{a{{b}}"} {
		if _, err := parseTemplate(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// An element is one element, whatever the argument holds, and what an argument
// holds is never read as a template.
func TestTemplateIsTransparent(t *testing.T) {
	tpl, err := parseTemplate("a{{x}}b")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		v := rapid.String().Draw(rt, "value")
		if got, ok := tpl.fill(values{"x": {v, true}}); !ok || got != "a"+v+"b" {
			rt.Fatalf("%q became %q", v, got)
		}
	})
}

// What is output and what is progress does not depend on how a stream is cut.
func TestSieve(t *testing.T) {
	sift := func(cuts func() int, text string) (out string, told int) {
		s := sieve{rest: func(b []byte) { out += string(b) }, told: func(step) { told++ }}
		for text != "" {
			n := min(len(text), max(1, cuts()))
			s.write([]byte(text[:n]))
			text = text[n:]
		}
		s.end()
		return out, told
	}
	rapid.Check(t, func(rt *rapid.T) {
		line := rapid.SampledFrom([]string{"::progress 1/2 x", "::progress 3%", "::progress x", ":", "::prog", "::progress ", "", "text", "x ::progress 1", "::progress 1" + strings.Repeat(" long", 300)})
		lines := rapid.SliceOf(line).Draw(rt, "lines")
		end := rapid.SampledFrom([]string{"", "\n"}).Draw(rt, "end")
		var want strings.Builder
		steps := 0
		for i, l := range lines {
			nl := "\n"
			if i == len(lines)-1 {
				nl = end
			}
			if _, ok := parseStep(l); ok && len(l) < longestMark {
				steps++
			} else {
				want.WriteString(l + nl)
			}
		}
		text := strings.Join(lines, "\n")
		if len(lines) > 0 {
			text += end
		}
		out, told := sift(func() int { return rapid.IntRange(1, 40).Draw(rt, "cut") }, text)
		if out != want.String() || told != steps {
			rt.Fatalf("%q gave %q and %d steps, want %q and %d", text, out, told, want.String(), steps)
		}
	})
}
