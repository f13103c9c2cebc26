package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChatChoices(t *testing.T) {
	for _, tc := range []struct {
		line string
		want choice
	}{
		{"y", choice{"approve", "once"}},
		{" YES ", choice{"approve", "once"}},
		{"yes session", choice{"approve", "session"}},
		{"s", choice{"approve", "session"}},
		{"t", choice{"approve", "tool"}},
		{"v", choice{"approve", "server"}},
		{"n", choice{"deny", "once"}},
		{"no server", choice{"deny", "server"}},
		{"e", choice{"edit", "once"}},
		{"", choice{}},
		{"once", choice{"", "once"}},
		{"yes please", choice{}},
		{"yes tool now", choice{}},
		{"yep", choice{"", "once"}},
	} {
		got := parseChoice(tc.line)
		if got.decision == "" && tc.want.decision == "" {
			continue
		}
		if got != tc.want {
			t.Errorf("%q means %+v, want %+v", tc.line, got, tc.want)
		}
	}
}

func TestChatEditedArguments(t *testing.T) {
	got, err := parseArgs("{\n  \"n\": 12345678901234567890, \"a\": [1]\n}\n")
	if err != nil || string(got) != `{"n":12345678901234567890,"a":[1]}` {
		t.Errorf("%s, %v", got, err)
	}
	for _, text := range []string{"", "null", "[1]", `{"a":}`, `{} {}`} {
		if got, err := parseArgs(text); err == nil || !strings.Contains(err.Error(), "one JSON object") {
			t.Errorf("%q became %s, %v", text, got, err)
		}
	}
}

func TestChatSlashCompletion(t *testing.T) {
	for _, tc := range []struct {
		line, want string
		pos        int
	}{
		{"/to", "/tools ", 3},
		{"/a", "/a", 2},
		{"/age", "/agent", 4},
		{"/nothing", "/nothing", 8},
		{"hello", "hello", 5},
		{"/tools x", "/tools x", 8},
		{"/tools", "/tools", 2},
	} {
		got, pos, ok := completeSlash(tc.line, tc.pos, '\t')
		if !ok || got != tc.want || (got != tc.line && pos != len(got)) {
			t.Errorf("%q at %d becomes %q at %d", tc.line, tc.pos, got, pos)
		}
	}
	if _, _, ok := completeSlash("/to", 3, 'o'); ok {
		t.Error("another key is taken for the tabulator")
	}
}

func TestChatUnknownSlash(t *testing.T) {
	_, err := (&talk{}).slash(context.Background(), "/tolls x")
	if err == nil || !strings.Contains(describe(err).hint, "/tools") {
		t.Errorf("%v", err)
	}
}

func TestChatMeter(t *testing.T) {
	for want, m := range map[string]*contextMeter{
		"the model has not been asked yet": nil,
		"context: [###-----------------] about 1,200 of 8,000 tokens, 15% (system 200, tools 600, history 400)": {Used: 1200, Limit: 8000, System: 200, Tools: 600, History: 400},
		"context: [####################] about 9,000 of 8,000 tokens, 112% (system 0, tools 0, history 9,000)":  {Used: 9000, Limit: 8000, History: 9000},
		"context: about 1,234,567 tokens (system 0, tools 0, history 1,234,567); how many fit is not known":     {Used: 1234567, History: 1234567},
	} {
		if d := cmp.Diff(want, m.String()); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
	}
}
