package catalog

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/fault"
)

func TestFind(t *testing.T) {
	c := New(0)
	defer c.Close()
	offer(t, c, "fs", map[Kind][]string{Tool: {"read", "write", "a:b", "odd.name"}, Prompt: {"greet"}})
	offer(t, c, "git", map[Kind][]string{Tool: {"read", "log"}, Prompt: {"review"}})
	odd := Expose("fs", "odd.name")
	for _, tc := range []struct {
		kind    Kind
		name    string
		allowed Sight
		want    string // the Ref, or the error
	}{
		{Tool, "fs__read", All, "fs:read"},
		{Tool, "fs:read", All, "fs:read"},
		{Tool, "mcp:git:read", All, "git:read"},
		{Tool, "log", All, "git:log"},
		{Tool, "fs:a:b", All, "fs:a:b"},
		{Tool, "a:b", All, "fs:a:b"},
		{Tool, "mcp:fs:a:b", All, "fs:a:b"},
		{Tool, odd, All, "fs:odd.name"},
		{Tool, "odd.name", All, "fs:odd.name"},
		{Prompt, "git__review", All, "git:review"},
		{Prompt, "greet", All, "fs:greet"},
		{Tool, "greet", All, "greet: unknown tool"},
		{Tool, "read", All, "read: several upstreams have a tool of that name: fs__read, git__read"},
		{Tool, "read", only("git"), "git:read"},
		{Tool, "fs__read", only("git"), "fs__read: unknown tool"},
		{Tool, "fs:read", only("git"), "fs:read: unknown tool"},
		{Tool, "", All, ": unknown tool"},
		{Tool, "fs:", All, "fs:: unknown tool"},
		{Tool, "mcp:read", only("git"), "mcp:read: unknown tool"},
	} {
		it, err := c.Now().Find(tc.kind, tc.name, tc.allowed)
		got := ""
		if err != nil {
			got = err.Error()
			if !fault.Is(err, fault.UnknownTool) {
				t.Errorf("Find(%s, %q): kind %v", tc.kind, tc.name, fault.Of(err).Kind)
			}
		} else {
			got = it.Ref()
		}
		if strings.TrimPrefix(got, ": ") != strings.TrimPrefix(tc.want, ": ") {
			t.Errorf("Find(%s, %q) = %s, want %s", tc.kind, tc.name, got, tc.want)
		}
	}
}

func TestFindSuggests(t *testing.T) {
	c := New(0)
	defer c.Close()
	offer(t, c, "git", map[Kind][]string{Tool: {"log", "commit", "checkout"}})
	offer(t, c, "secret", map[Kind][]string{Tool: {"commits"}})
	for name, want := range map[string][]string{
		"git__comit": {"git__commit"},
		"comit":      {"git__commit"},
		"git_commit": {"git__commit"},
		"zzzzzzzzz":  nil,
	} {
		_, err := c.Now().Find(Tool, name, only("git"))
		f, ok := errors.AsType[*fault.Error](err)
		if !ok {
			t.Fatalf("%s: %v", name, err)
		}
		got, _ := f.Data["close"].([]string)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("close to %s: %s", name, diff)
		}
		if len(want) > 0 && !strings.Contains(f.Advice(), want[0]) {
			t.Errorf("the hint is %q", f.Advice())
		}
	}
}

func TestRoute(t *testing.T) {
	c := New(0)
	defer c.Close()
	offer(t, c, "fs", map[Kind][]string{Resource: {"file:///a", "both://x", "git+ssh://host/r"}, Template: {"file:///logs/{name}", "q://{+path}{?a,b}"}})
	offer(t, c, "git", map[Kind][]string{Resource: {"both://x", "repo://main"}, Template: {"repo://{owner}/{name}{/path*}"}})
	offer(t, c, "secret", map[Kind][]string{Template: {"hidden://{id}"}})
	but := sight(func(u string) bool { return u != "secret" })
	for _, tc := range []struct {
		uri     string
		allowed Sight
		want    string
	}{
		{"file:///a", All, "fs file:///a"},
		{"both://x", All, "fs both://x"},
		{"both://x", only("git"), "git both://x"},
		{"git+both://x", All, "git both://x"},
		{"fs+both://x", All, "fs both://x"},
		{"fs+both://x", only("git"), "resource_not_found"},
		{"git+repo://dynamic", All, "git repo://dynamic"},
		{"git+ssh://host/r", All, "fs git+ssh://host/r"},
		{"git+ssh://host/other", All, "git ssh://host/other"},
		{"file:///logs/today", All, "fs file:///logs/today"},
		{"q://a/b/c?a=1&b=2", All, "fs q://a/b/c?a=1&b=2"},
		{"repo://o/n", All, "git repo://o/n"},
		{"repo://o/n/src/main.go", All, "git repo://o/n/src/main.go"},
		{"file:///elsewhere/deep", All, "fs file:///elsewhere/deep"}, // the only one with that scheme
		{"hidden://1", All, "secret hidden://1"},
		{"hidden://1", but, "resource_not_found"},
		{"hidden://{id}", but, "resource_not_found"},
		{"hidden://{id}", All, "secret hidden://{id}"},
		{"both://unlisted", All, "resource_not_found"}, // two with that scheme
		{"nosuch://x", All, "resource_not_found"},
		{"", All, "resource_not_found"},
	} {
		up, own, err := c.Now().Route(tc.uri, tc.allowed)
		got := up + " " + own
		if err != nil {
			got = fault.Of(err).Kind.String()
		}
		if got != tc.want {
			t.Errorf("Route(%q) = %s, want %s", tc.uri, got, tc.want)
		}
	}
}

func TestTemplates(t *testing.T) {
	for _, tc := range []struct {
		template string
		fits     []string
		not      []string
	}{
		{"a://{x}", []string{"a://1"}, []string{"a://", "a://1/2", "b://1", "xa://1"}},
		{"a://{x}/{y}", []string{"a://1/2"}, []string{"a://1"}},
		{"a://{+x}", []string{"a://1/2?3#4"}, []string{"a://"}},
		{"a://b{#x}", []string{"a://b", "a://b#c"}, []string{"a://bc"}},
		{"a://b{/x*}", []string{"a://b", "a://b/c/d"}, []string{"a://bc"}},
		{"a://b{.x}", []string{"a://b", "a://b.c"}, []string{"a://b/c"}},
		{"a://b{;x,y}", []string{"a://b", "a://b;x=1;y=2"}, []string{"a://b?x"}},
		{"a://b{?x,y}", []string{"a://b", "a://b?x=1&y=2"}, []string{"a://bx"}},
		{"a://b?k=1{&x}", []string{"a://b?k=1", "a://b?k=1&x=2"}, []string{"a://b"}},
		{"a://{x,y}", []string{"a://1,2"}, nil},
		{"a://{x:3}", []string{"a://123"}, nil},
		{"a://(.*)", []string{"a://(.*)"}, []string{"a://x"}},
		{"a://{x", nil, []string{"a://x"}},
		{"a://{}", nil, []string{"a://x"}},
	} {
		it := item(t, Template, "u", `{"uriTemplate":"`+tc.template+`"}`)
		if (it.pattern == nil) != (len(it.Notes) > 0) {
			t.Errorf("%s: notes %q", tc.template, it.Notes)
		}
		for _, uri := range tc.fits {
			if it.pattern == nil || !it.pattern.MatchString(uri) {
				t.Errorf("%s does not fit %s", uri, tc.template)
			}
		}
		for _, uri := range tc.not {
			if it.pattern != nil && it.pattern.MatchString(uri) {
				t.Errorf("%s fits %s", uri, tc.template)
			}
		}
	}
}
