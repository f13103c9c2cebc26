package sample

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/llm"
)

func TestRequestForAModel(t *testing.T) {
	half := 0.5
	const hello = `"messages":[{"role":"user","content":{"type":"text","text":"Hello"}}]`
	ask := []llm.Message{llm.Say(llm.User, "Hello")}
	const neutral = "You answer the request of a program."
	use := func(id, args string) llm.Part {
		return llm.Part{Call: &llm.ToolCall{ID: id, Name: "add", Args: json.RawMessage(args)}}
	}
	got := func(id, text string, bad bool) llm.Part {
		return llm.Part{Result: &llm.ToolResult{ID: id, Name: "add", Content: text, IsError: bad}}
	}
	for name, tc := range map[string]struct {
		params string
		want   llm.Request
	}{
		"least":        {hello + `,"maxTokens":7`, llm.Request{System: neutral, Messages: ask, MaxTokens: 7}},
		"too many":     {hello + `,"maxTokens":700`, llm.Request{System: neutral, Messages: ask, MaxTokens: 100}},
		"none said":    {hello, llm.Request{System: neutral, Messages: ask, MaxTokens: 100}},
		"all":          {hello + `,"maxTokens":7,"systemPrompt":"Be brief","temperature":0.5,"includeContext":"allServers","metadata":{"x":1}`, llm.Request{System: "Be brief", Temperature: &half, Messages: ask, MaxTokens: 7}},
		"a list":       {`"messages":[{"role":"user","content":[{"type":"text","text":"Hel"},{"type":"text","text":"lo"}]}]`, llm.Request{System: neutral, MaxTokens: 100, Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: "Hel"}, {Text: "lo"}}}}}},
		"tools":        {hello + `,"tools":[{"name":"add","description":"d","inputSchema":{"type":"object"}}],"toolChoice":{"mode":"required"}`, llm.Request{System: neutral, MaxTokens: 100, Messages: ask, ToolChoice: llm.Always, Tools: []llm.Tool{{Name: "add", Description: "d", Schema: json.RawMessage(`{"type":"object"}`)}}}},
		"tools unused": {hello + `,"tools":[{"name":"add"}],"toolChoice":{"mode":"none"}`, llm.Request{System: neutral, MaxTokens: 100, Messages: ask, ToolChoice: llm.None, Tools: []llm.Tool{{Name: "add"}}}},
		"results in another order": {`"messages":[{"role":"user","content":{"type":"text","text":"Hello"}},
			{"role":"assistant","content":[{"type":"text","text":"I add"},{"type":"tool_use","id":"1","name":"add","input":{"a":1}},{"type":"tool_use","id":"2","name":"add","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","toolUseId":"2","content":[],"structuredContent":{"sum":3},"isError":true},
				{"type":"tool_result","toolUseId":"1","content":[{"type":"text","text":"a"},{"type":"resource_link","name":"n","uri":"file:///f"},{"type":"resource","resource":{"uri":"file:///g","text":"g"}}]}]}]`,
			llm.Request{System: neutral, MaxTokens: 100, Messages: []llm.Message{ask[0],
				{Role: llm.Assistant, Parts: []llm.Part{{Text: "I add"}, use("1", `{"a":1}`), use("2", `{}`)}},
				{Role: llm.FromTool, Parts: []llm.Part{got("1", "a\nn file:///f\ng", false), got("2", `{"sum":3}`, true)}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, req, err := read([]byte("{"+tc.params+"}"), 100)
			if diff := cmp.Diff(tc.want, req); err != nil || diff != "" {
				t.Errorf("%v, -want +got\n%s", err, diff)
			}
		})
	}
}

func TestRequestsThatCannotBeAnswered(t *testing.T) {
	user := func(content string) string { return `{"messages":[{"role":"user","content":` + content + `}]}` }
	const use = `{"role":"assistant","content":{"type":"tool_use","id":"1","name":"add","input":{}}}`
	for params, want := range map[string]string{
		`[]`:                   "not as the protocol has them",
		`{}`:                   "no messages",
		`{"messages":"hello"}`: "not as the protocol has them",
		`{"messages":[{"role":"system","content":{"type":"text","text":"x"}}]}`:                                                                                         `the role "system"`,
		user(`{"type":"image","data":"AA==","mimeType":"image/png"}`):                                                                                                   `"image"`,
		user(`{"type":"audio","data":"AA==","mimeType":"audio/wav"}`):                                                                                                   `"audio"`,
		user(`[{"type":"text","text":"x"},{"type":"image","data":"AA==","mimeType":"image/png"}]`):                                                                      `"image"`,
		user(`{"type":"tool_use","id":"1","name":"add","input":{}}`):                                                                                                    "has a tool_use",
		user(`{"type":"tool_result","toolUseId":"1","content":[]}`):                                                                                                     "does not use",
		`{"messages":[` + use + `]}`:                                                                                                                                    "Tool result missing in request",
		`{"messages":[` + use + `,{"role":"user","content":{"type":"text","text":"x"}}]}`:                                                                               "Tool result missing in request",
		`{"messages":[` + use + `,{"role":"user","content":[{"type":"tool_result","toolUseId":"1","content":[]},{"type":"text","text":"x"}]}]}`:                         "Tool results mixed with other content",
		`{"messages":[` + use + `,{"role":"user","content":{"type":"tool_result","toolUseId":"1","content":[{"type":"image","data":"AA==","mimeType":"image/png"}]}}]}`: `"image"`,
		`{"messages":[{"role":"assistant","content":{"type":"tool_use","id":"1","name":"add"}}]}`:                                                                       "lacks its id",
		strings.TrimSuffix(user(`{"type":"text","text":"x"}`), "}") + `,"stopSequences":[""]}`:                                                                          "stop sequence",
		strings.TrimSuffix(user(`{"type":"text","text":"x"}`), "}") + `,"toolChoice":{"mode":"add"}}`:                                                                   "auto, required or none",
		strings.TrimSuffix(user(`{"type":"text","text":"x"}`), "}") + `,"tools":[{"description":"d"}]}`:                                                                 "no name",
	} {
		if _, _, err := read([]byte(params), 100); !fault.Is(err, fault.InvalidParams) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", params, err, want)
		}
	}
}

// What a provider wants back with a use of a tool comes back by the server.
func TestOpaqueComesBack(t *testing.T) {
	opaque := &llm.Opaque{Provider: "p", Data: json.RawMessage(`{"signature":"s"}`)}
	out, err := result(llm.Answer{Stop: llm.Calls, Message: llm.Message{Role: llm.Assistant, Parts: []llm.Part{
		{Reasoning: "secret thoughts"}, {Call: &llm.ToolCall{ID: "1", Name: "add", Args: json.RawMessage(`{"a":1}`)}, Opaque: opaque}}}}, "m", false)
	if err != nil || strings.Contains(string(out), "thoughts") {
		t.Fatalf("%s, %v", out, err)
	}
	var said struct{ Content json.RawMessage }
	if err := json.Unmarshal(out, &said); err != nil {
		t.Fatal(err)
	}
	_, req, err := read([]byte(`{"messages":[{"role":"assistant","content":`+string(said.Content)+`},{"role":"user","content":{"type":"tool_result","toolUseId":"1","content":[]}}]}`), 1)
	if err != nil || len(req.Messages) != 2 {
		t.Fatalf("%+v, %v", req, err)
	}
	if diff := cmp.Diff(opaque, req.Messages[0].Parts[0].Opaque); diff != "" {
		t.Error(diff)
	}
}
