package mcp

import "testing"

func TestDefine(t *testing.T) {
	for name, tc := range map[string]struct{ tool, legacy, modern string }{
		"plain":         {`{ "name":"t", "inputSchema":{"type":"object"} }`, "", ""},
		"object output": {`{"name":"t","outputSchema":{"type":"object","properties":{}}}`, "", ""},
		"array output":  {`{"name":"t","outputSchema":{"type":"array"},"x":1}`, `{"name":"t","x":1}`, ""},
		"any output":    {`{"outputSchema":{"anyOf":[]},"name":"t"}`, `{"name":"t"}`, ""},
		"types":         {`{"name":"t","outputSchema":{"type":["object","null"]}}`, `{"name":"t"}`, ""},
		"true":          {`{"name":"t","outputSchema":true}`, `{"name":"t"}`, ""},
		"execution":     {`{"name":"t","execution":{"taskSupport":"optional"},"title":"T"}`, "", `{"name":"t","title":"T"}`},
		"title, icons":  {`{"name":"t","title":"T","icons":[{"src":"x"}],"_meta":{"a":1}}`, "", ""},
		"no object":     {`7`, "", ""},
	} {
		for era, want := range map[Era]string{Legacy: tc.legacy, Modern: tc.modern} {
			if want == "" {
				want = tc.tool
			}
			if got := string(Define(era, []byte(tc.tool))); got != want {
				t.Errorf("%s to %s: %s, want %s", name, era, got, want)
			}
		}
	}
}

func TestPlain(t *testing.T) {
	const link = `{"type":"resource_link","uri":"file:///a","name":"a","description":"the A","mimeType":"x/y","annotations":{"priority":1}}`
	const text = `{"type":"text","annotations":{"priority":1},"text":"a: file:///a\nthe A"}`
	call := func(block string) string {
		return `{"content":[{"type":"text","text":"hi"},` + block + `],"isError":false}`
	}
	prompt := func(block string) string { return `{"messages":[{"role":"user","content":` + block + `}]}` }
	old := &Client{Era: Legacy, Version: "2025-03-26", Connection: "c"}
	for name, tc := range map[string]struct {
		method, result, want string
		client               *Client
	}{
		"call":             {"tools/call", call(link), call(text), old},
		"prompt":           {"prompts/get", prompt(link), prompt(text), old},
		"oldest":           {"tools/call", call(link), call(text), &Client{Era: Legacy, Version: "2024-11-05", Connection: "c"}},
		"new enough":       {"tools/call", call(link), call(link), &Client{Era: Legacy, Version: "2025-06-18", Connection: "c"}},
		"nothing agreed":   {"tools/call", call(link), call(link), &Client{Era: Legacy, Version: "2025-03-26"}},
		"modern":           {"tools/call", call(link), call(link), &Client{Era: Modern, Version: ModernVersion, Connection: "c"}},
		"nobody":           {"tools/call", call(link), call(link), nil},
		"only mentioned":   {"tools/call", `{ "content":[{"type":"text","text":"\"resource_link\""}],"x":"resource_link" }`, `{ "content":[{"type":"text","text":"\"resource_link\""}],"x":"resource_link" }`, old},
		"another method":   {"resources/read", call(link), call(link), old},
		"content no array": {"tools/call", `{"content":` + link + `}`, `{"content":` + link + `}`, old},
	} {
		if got := string(Plain(tc.method, Response{Result: []byte(tc.result)}, tc.client).Result); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, tc.want)
		}
	}
}
