package policy

import (
	"testing"

	"pgregory.net/rapid"
)

// A resource is denied however its URI is written, and allowed only if every way
// to read it is.
func TestResourcesByAnotherSpelling(t *testing.T) {
	for _, tc := range []struct {
		pattern string
		same    []string // that name the same
		other   []string // that name something else
	}{
		{"mem://b/secret", []string{"mem://b/secret", "mem://b/./secret", "MEM://b/secret", "mem://b/t/../secret", "mem://b/%73ecret", "mem://B/secret",
			"mem://b/secret?", "mem://b/secret#x", "mem://b/secret?a=b", "mem://b/secret#", "mem://b/t/%2e%2E/secret", "mem://b//secret", "mem://b/secret/", "mem://b/%2Fsecret",
			" mem://b/secret", "mem://b/sec\tret\n", "mem://u@b/secret", "mem://b:/secret", "mem://b./secret", `mem://b/t\..\secret`},
			[]string{"mem://b/secrets", "mem://b/t/secret", "mem://c/secret", "mem://b/Secret", "men://b/secret", "mem://b/?secret"}},
		{"file:///etc/*", []string{"file:///etc/passwd", "file:///tmp/../etc/passwd", "file:/etc/passwd", "file://localhost/etc/passwd", "FILE:///etc/passwd", "file:////etc/passwd",
			"file:///%65tc/passwd", "file:///tmp/..%2fetc/passwd", "file:///etc/../etc/./passwd", "file:///etc/../home/a", `file:\\\etc\passwd`, "file:etc/passwd", "file:///etc/my%20file"},
			[]string{"file:///etcetera", "file:///home/etc/passwd"}},
		{"HTTPS://Example.org/a b/*", []string{"https://example.org/a%20b/c", "https://example.org:443/a b/c", "https:example.org/a b/c", "https://example.org./a%20b/c?x"},
			[]string{"https://example.org:8443/a b/c", "https://example.com/a b/c"}},
		{"file://localhost/srv//x/*", []string{"file:///srv/x/a", "file://localhost/srv//x/a"}, nil},
		{"URN:isbn:1*", []string{"urn:isbn:12", "URN:isbn:12", "urn:isbn:%312"}, []string{"urn:isbn:2"}},
		{"mem://b/search?q=secret", []string{"mem://b/search?q=secret", "mem://b/search?q=%73ecret", "mem://b/./search?q=secret"}, []string{"mem://b/search?q=a"}},
		{"mem://b/%2A/*", []string{"mem://b/%2a/x", "mem://b/*/x"}, []string{"mem://b/y/x"}},
	} {
		for _, action := range []Action{Deny, Ask} {
			s := Compile(Rules{Rules: []Rule{{Resources: []string{tc.pattern}, Action: action}}}, nil)
			for _, uri := range tc.same {
				if v := Decide(&Query{Subject: Subject{Kind: KindResource, Tool: uri, Upstream: "up"}}, s); v.Action != action {
					t.Errorf("%s %s: %q gets %+v", action, tc.pattern, uri, v)
				}
			}
			for _, uri := range tc.other {
				if v := Decide(&Query{Subject: Subject{Kind: KindResource, Tool: uri, Upstream: "up"}}, s); v.Action != Allow {
					t.Errorf("%s %s: %q gets %+v", action, tc.pattern, uri, v)
				}
			}
		}
	}
	allowed := Compile(Rules{Default: Deny, Rules: []Rule{{Resources: []string{"file:///work/*", "MEM://B/%73*", "http://h"}, Action: Allow}}}, nil)
	for uri, want := range map[string]Action{
		"file:///work/a": Allow, "file:///work/a?x#y": Allow, "file:///work/b%20c": Allow, "file:///work/./a": Allow, "file:///work/%61": Allow, "MEM://B/%73ecret": Allow, "http://h": Allow,
		"file:///work/../etc/passwd": Deny, "file:///work/%2e%2e/etc/passwd": Deny, "file:///work/..%2fetc/passwd": Deny, "file:///work//../../etc/passwd": Deny,
		`file:///work/..\etc`: Deny, "file:///work/.\t./etc": Deny, "file:///x/../work/a": Deny, "mem://b/other": Deny, "mem://b/secret": Deny,
	} {
		if v := Decide(&Query{Subject: Subject{Kind: KindResource, Tool: uri, Upstream: "up"}}, allowed); v.Action != want {
			t.Errorf("%q gets %+v, want %s", uri, v, want)
		}
	}
}

// What a URI is read as is read as itself.
func TestNormalFormsAreTheirOwn(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringMatching(`(mem|FILE|http):/{0,3}[aB.:@]{0,3}[/a.%2eF?#\\]{0,12}`).Draw(rt, "uri")
		u := parseURI(text)
		normal := u.normal()
		again := parseURI(normal.text())
		if twice := again.normal(); twice.text() != normal.text() {
			rt.Fatalf("%q is %q, which is %q", text, normal.text(), twice.text())
		}
	})
}
