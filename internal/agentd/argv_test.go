package agentd

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// line puts a command together as the manifest's `command` says; ok is false
// if an argument was refused.
func line(t rapid.TB, groups [][]string, vars values) (out []string, ok bool) {
	t.Helper()
	c := &command{program: "prog"}
	for _, group := range groups {
		var compiled []template
		for _, element := range group {
			tpl, err := parseTemplate(element)
			if err != nil {
				t.Fatal(err)
			}
			compiled = append(compiled, tpl)
		}
		c.groups = append(c.groups, compiled)
	}
	j, err := c.job("tool", []byte("{}"), vars)
	if err != nil {
		return nil, false
	}
	return j.argv[1:], true
}

func TestOptionsAreTheManifests(t *testing.T) {
	flat := func(elements ...string) (out [][]string) {
		for _, e := range elements {
			out = append(out, []string{e})
		}
		return out
	}
	grep := [][]string{{"-e", "{{a}}"}, {"{{b}}"}}
	words := func(pairs ...string) values {
		out := values{}
		for pair := range slices.Chunk(pairs, 2) {
			out[pair[0]] = value{pair[1], true}
		}
		return out
	}
	for name, tc := range map[string]struct {
		groups [][]string
		vars   values
		want   string // "" if it is refused
	}{
		"a caller's -- ends nothing":              {grep, words("a", "--", "b", "-r"), ""},
		"the value of an option":                  {grep, words("a", "-r", "b", "f"), "-e -r f"},
		"a -- alone":                              {flat("{{a}}", "{{b}}"), words("a", "--", "b", "f"), ""},
		"a - alone":                               {flat("{{a}}"), words("a", "-"), ""},
		"a negative number":                       {flat("{{a}}"), values{"a": {text: "-5"}}, ""},
		"the second of a group":                   {[][]string{{"in", "{{a}}"}}, words("a", "-r"), ""},
		"the second value of an option":           {[][]string{{"-e", "{{a}}", "{{b}}"}}, words("a", "x", "b", "-r"), ""},
		"after an option with its value":          {[][]string{{"--mode=x", "{{a}}"}}, words("a", "-r"), ""},
		"after an option with a caller's value":   {[][]string{{"-m{{b}}", "{{a}}"}}, words("a", "-r", "b", "x"), ""},
		"after a -":                               {[][]string{{"-", "{{a}}"}}, words("a", "-r"), ""},
		"glued to an option":                      {flat("--mode={{a}}", "-m{{a}}"), words("a", "-r"), "--mode=-r -m-r"},
		"an empty value before":                   {flat("{{b}}{{a}}"), words("a", "-r", "b", ""), ""},
		"an empty value before a literal -":       {flat("{{b}}-r"), words("b", ""), ""},
		"the manifest's --":                       {flat("--", "{{a}}"), words("a", "-r"), "-- -r"},
		"the manifest's -- in a group":            {[][]string{{"--", "{{a}}", "{{b}}"}}, words("a", "-r", "b", "--"), "-- -r --"},
		"a -- that is an option's value":          {[][]string{{"-e", "--"}, {"{{a}}"}}, words("a", "-r"), ""},
		"a -- that an option takes as its value":  {flat("-n", "{{b}}", "--", "{{a}}"), words("a", "-r"), ""},
		"an option that another takes":            {[][]string{{"-n"}, {"{{b}}"}, {"-e", "{{a}}"}}, words("a", "-r"), ""},
		"a -- after an option that was left out":  {flat("-v", "{{?b}}-u", "--", "{{a}}"), words("a", "-r"), "-v -- -r"},
		"a -- after an option that has its value": {flat("-n", "{{b}}", "--", "{{a}}"), words("a", "-r", "b", "5"), "-n 5 -- -r"},
		"a flag": {flat("{{?a}}-v"), words("a", "-r"), "-v"},
	} {
		got, ok := line(t, tc.groups, tc.vars)
		if ok != (tc.want != "") || ok && strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// said is one argument of a command line, and whether it begins with what a
// caller said.
type said struct {
	text   string
	caller bool
}

// hostile are values with which a caller would change what a command does.
var hostile = []string{"-r", "--", "-", "--exec=sh", "-e", "", "-\n", "--\n--", "x", "-x y", "@f"}

// A manifest whose options take values as its lists say. The program looks for
// options in the order of GNU's getopt: everywhere up to "--".
func TestNoCallerWritesOptions(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		vars := values{}
		for _, name := range []string{"a", "b", "c"} {
			if rapid.IntRange(0, 3).Draw(rt, "given") > 0 {
				vars[name] = value{rapid.SampledFrom(hostile).Draw(rt, name), rapid.Bool().Draw(rt, "string")}
			}
		}
		groups, valued := drawCommand(rt)
		got, ok := line(rt, groups, vars)
		if !ok {
			// A value that is empty may let a dash of the manifest's own come first, which is refused too.
			suspicious := func(name string) bool {
				v, given := vars[name]
				return given && (v.text == "" || strings.Contains(v.text, "-"))
			}
			if !slices.ContainsFunc([]string{"a", "b", "c"}, suspicious) {
				rt.Fatalf("%q with %v is refused", groups, vars)
			}
			return
		}
		all := spelled(rt, groups, vars)
		if len(all) != len(got) {
			rt.Fatalf("%q with %v became %q", groups, vars, got)
		}
		for i := 0; i < len(all) && (all[i].text != "--" || all[i].caller); i++ {
			if all[i].caller && strings.HasPrefix(all[i].text, "-") {
				rt.Fatalf("%q with %v: %q, the element %d of %q, is read as an option", groups, vars, all[i].text, i, got)
			}
			if valued[all[i].text] && !all[i].caller {
				i++ // its value
			}
		}
	})
}

// drawCommand makes up the command of a manifest, and says which of its options
// take a value. An option that takes one stands in a list with it, or before an
// argument.
func drawCommand(rt *rapid.T) (groups [][]string, valued map[string]bool) {
	valued = map[string]bool{"-e": true, "--opt": true}
	place := rapid.SampledFrom([]string{"{{a}}", "{{b}}{{c}}", "{{?a}}{{b}}", "in={{c}}", "--glued={{a}}", "{{c}}-x"})
	for range rapid.IntRange(1, 6).Draw(rt, "groups") {
		option := rapid.SampledFrom([]string{"-e", "--opt"}).Draw(rt, "option")
		switch rapid.IntRange(0, 5).Draw(rt, "kind") {
		case 0:
			groups = append(groups, []string{option, place.Draw(rt, "value"), place.Draw(rt, "more")})
		case 1:
			groups = append(groups, []string{option}, []string{rapid.SampledFrom([]string{"{{a}}", "{{b}}", "x{{c}}"}).Draw(rt, "value")})
		case 2:
			groups = append(groups, []string{rapid.SampledFrom([]string{"-v", "{{?b}}-v", "--long=x", "word", "-"}).Draw(rt, "fixed")})
		case 3:
			groups = append(groups, []string{"--"})
		case 4:
			groups = append(groups, []string{option, "--", place.Draw(rt, "more")})
		default:
			groups = append(groups, []string{place.Draw(rt, "place")})
		}
	}
	return groups, valued
}

// spelled is the command line with who said what, put together here without
// what is under test.
func spelled(t rapid.TB, groups [][]string, vars values) (out []said) {
	t.Helper()
	for _, group := range groups {
		var elements []said
		for _, element := range group {
			tpl, err := parseTemplate(element)
			if err != nil {
				t.Fatal(err)
			}
			text, ok := tpl.fill(vars)
			if !ok {
				elements = nil
				break
			}
			written := element
			for strings.HasPrefix(written, "{{?") {
				_, written, _ = strings.Cut(written, "}}")
			}
			elements = append(elements, said{text, strings.HasPrefix(written, "{{")})
		}
		out = append(out, elements...)
	}
	return out
}
