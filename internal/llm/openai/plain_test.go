package openai

import (
	"encoding/json"
	"testing"
)

func TestPlainText(t *testing.T) {
	for event, want := range map[string]string{
		`{"choices":[{"index":0,"delta":{"content":"Grüße \u00fc\n"},"logprobs":null,"finish_reason":null}],"usage":null}`: "Grüße ü\n",
		`{"id":"x","choices":[{"delta":{"role":"assistant","content":"a","refusal":null}}],"obfuscation":"zz"}`:            "a",
		`{"choices":[{"delta":{"content":""}}]}`:                              "",
		`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`:      "not plain",
		`{"choices":[{"delta":{"content":"a","tool_calls":[]}}]}`:             "not plain",
		`{"choices":[{"delta":{"content":"a","reasoning_content":"b"}}]}`:     "not plain",
		`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":1}}`: "not plain",
		`{"choices":[{"delta":{"content":"a"}}],"error":{"message":"x"}}`:     "not plain",
		`{"choices":[{"delta":{"content":null}}]}`:                            "not plain",
		`{"choices":[{"delta":{"content":["a"]}}]}`:                           "not plain",
		`{"choices":[{"delta":{}}]}`:                                          "not plain",
		`{"choices":[]}`:                                                      "not plain",
		`{"choices":[{"delta":{"content":"a"}},{"delta":{"content":"b"}}]}`:   "not plain",
		`{"choices":[{"delta":{"content":"a"}}]`:                              "not plain",
		`{"choices":[{"delta":{"content":"a"}`:                                "not plain",
		`oops`:                                                                "not plain",
	} {
		text, ok := plainText([]byte(event))
		if !ok {
			text = "not plain"
		}
		if text != want {
			t.Errorf("%s: %q, want %q", event, text, want)
		}
		// What is plain says the same when it is read as a whole.
		var c chunk
		if err := json.Unmarshal([]byte(event), &c); ok && (err != nil || c.Choices[0].Delta.Content != text) {
			t.Errorf("%s: %q, and %q as a whole: %v", event, text, c.Choices[0].Delta.Content, err)
		}
	}
}

func FuzzPlainText(f *testing.F) {
	f.Add([]byte(`{"choices":[{"index":0,"delta":{"role":"assistant","content":"a\u00fc"},"finish_reason":null}],"usage":null,"error":null}`))
	f.Fuzz(func(t *testing.T, event []byte) {
		text, ok := plainText(event)
		if !ok || !json.Valid(event) {
			return
		}
		var c chunk
		if err := json.Unmarshal(event, &c); err != nil || len(c.Choices) != 1 {
			return // names that differ in case, or occur twice, are read otherwise there
		}
		if len(text) > 0 && c.Choices[0].Delta.Content == "" {
			t.Errorf("%q, and nothing as a whole", text)
		}
	})
}
