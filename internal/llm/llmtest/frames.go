package llmtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// API is how the server of a provider speaks, to the byte.
type API struct {
	Name        string
	Path        string            // how the address of a question ends
	Header      map[string]string // what a request has to have, by the beginning of its value
	ContentType string
	About       *About
	Check       func(body []byte) error

	Say     func(Said) []string                       // the frames of an answer
	Refusal func(status int, words string) Reply      // an error instead of one
	Midway  func(status int, words string) (f string) // the frame of an error within one
}

// About is a question about the model, and what is answered to it.
type About struct{ Path, Body string }

// APIs are the four.
func APIs() []API { return []API{Gemini, OpenAI, Anthropic, Ollama} }

// j is JSON, or a panic: what is marshalled here is the tests' own.
func j(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

type obj = map[string]any

// OpenAI speaks as the chat completions of OpenAI do.
var OpenAI = API{
	Name: "openai", Path: "/chat/completions", Header: map[string]string{"Authorization": "Bearer "}, ContentType: "text/event-stream; charset=utf-8",
	Check: CheckOpenAI, Say: sayOpenAI,
	Refusal: func(status int, words string) Reply {
		return Reply{Status: status, Frames: []string{j(obj{"error": openAIError(status, words)})}}
	},
	Midway: func(status int, words string) string {
		return "data: " + j(obj{"error": openAIError(status, words)}) + "\n\n"
	},
}

func openAIError(status int, words string) obj {
	kind := map[int]string{400: "invalid_request_error", 429: "rate_limit_error"}[status]
	if kind == "" {
		kind = "server_error"
	}
	return obj{"message": words, "type": kind, "param": nil, "code": nil}
}

// OpenAIChunk is one event of an answer.
func OpenAIChunk(delta obj, finish any) string {
	return "data: " + j(obj{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "test-model", "system_fingerprint": "fp_1",
		"choices": []obj{{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}}, "usage": nil}) + "\n\n"
}

func sayOpenAI(s Said) []string {
	frames := []string{OpenAIChunk(obj{"role": "assistant", "content": "", "refusal": nil}, nil)}
	for _, r := range s.Reasoning {
		frames = append(frames, OpenAIChunk(obj{"reasoning_content": r}, nil))
	}
	for _, t := range s.Text {
		frames = append(frames, OpenAIChunk(obj{"content": t}, nil))
	}
	for i, c := range s.Calls {
		frames = append(frames, OpenAIChunk(obj{"tool_calls": []obj{{"index": i, "id": c.ID, "type": "function", "function": obj{"name": c.Name, "arguments": ""}}}}, nil))
		for _, a := range c.Args {
			frames = append(frames, OpenAIChunk(obj{"tool_calls": []obj{{"index": i, "function": obj{"arguments": a}}}}, nil))
		}
	}
	frames = append(frames, OpenAIChunk(obj{}, s.reason("stop", "tool_calls", "length")))
	if s.Input+s.Output > 0 {
		frames = append(frames, "data: "+j(obj{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "test-model", "choices": []obj{},
			"usage": obj{"prompt_tokens": s.Input, "completion_tokens": s.Output, "total_tokens": s.Input + s.Output}})+"\n\n")
	}
	return append(frames, "data: [DONE]\n\n")
}

func (s Said) reason(done, calls, cut string) string {
	switch {
	case s.CutOff:
		return cut
	case len(s.Calls) > 0:
		return calls
	}
	return done
}

// Anthropic speaks as the messages of Anthropic do.
var Anthropic = API{
	Name: "anthropic", Path: "/v1/messages", Header: map[string]string{"X-Api-Key": "", "Anthropic-Version": "2023-06-01"}, ContentType: "text/event-stream; charset=utf-8",
	Check: CheckAnthropic, Say: sayAnthropic,
	Refusal: func(status int, words string) Reply {
		return Reply{Status: status, Frames: []string{anthropicError(status, words)}}
	},
	Midway: func(status int, words string) string {
		return "event: error\ndata: " + anthropicError(status, words) + "\n\n"
	},
}

func anthropicError(status int, words string) string {
	kind := map[int]string{400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}[status]
	if kind == "" {
		kind = "api_error"
	}
	return j(obj{"type": "error", "error": obj{"type": kind, "message": words}, "request_id": "req_1"})
}

// AnthropicEvent is one event of an answer; its name is its type.
func AnthropicEvent(kind string, rest obj) string {
	rest["type"] = kind
	return "event: " + kind + "\ndata: " + j(rest) + "\n\n"
}

func sayAnthropic(s Said) []string {
	frames := []string{
		AnthropicEvent("message_start", obj{"message": obj{"id": "msg_1", "type": "message", "role": "assistant", "model": "test-model", "content": []any{}, "stop_reason": nil, "stop_sequence": nil,
			"usage": obj{"input_tokens": s.Input, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}}}),
		AnthropicEvent("ping", obj{}),
	}
	index := 0
	block := func(start obj, deltas ...obj) {
		frames = append(frames, AnthropicEvent("content_block_start", obj{"index": index, "content_block": start}))
		for _, d := range deltas {
			frames = append(frames, AnthropicEvent("content_block_delta", obj{"index": index, "delta": d}))
		}
		frames = append(frames, AnthropicEvent("content_block_stop", obj{"index": index}))
		index++
	}
	if len(s.Reasoning) > 0 {
		var deltas []obj
		for _, r := range s.Reasoning {
			deltas = append(deltas, obj{"type": "thinking_delta", "thinking": r})
		}
		block(obj{"type": "thinking", "thinking": "", "signature": ""}, append(deltas, obj{"type": "signature_delta", "signature": "c2lnbmVk"})...)
	}
	if len(s.Text) > 0 {
		var deltas []obj
		for _, t := range s.Text {
			deltas = append(deltas, obj{"type": "text_delta", "text": t})
		}
		block(obj{"type": "text", "text": ""}, deltas...)
	}
	for _, c := range s.Calls {
		deltas := []obj{{"type": "input_json_delta", "partial_json": ""}}
		for _, a := range c.Args {
			deltas = append(deltas, obj{"type": "input_json_delta", "partial_json": a})
		}
		block(obj{"type": "tool_use", "id": c.ID, "name": c.Name, "input": obj{}}, deltas...)
	}
	return append(frames,
		AnthropicEvent("message_delta", obj{"delta": obj{"stop_reason": s.reason("end_turn", "tool_use", "max_tokens"), "stop_sequence": nil}, "usage": obj{"output_tokens": s.Output}}),
		AnthropicEvent("message_stop", obj{}))
}

// Gemini speaks as streamGenerateContent does, with its lines ending in CRLF.
var Gemini = API{
	Name: "gemini", Path: ":streamGenerateContent?alt=sse", Header: map[string]string{"X-Goog-Api-Key": ""}, ContentType: "text/event-stream",
	Check: CheckGemini, Say: sayGemini,
	Refusal: func(status int, words string) Reply {
		return Reply{Status: status, Frames: []string{j(obj{"error": geminiError(status, words)})}}
	},
	Midway: func(status int, words string) string { return GeminiEvent(obj{"error": geminiError(status, words)}) },
}

func geminiError(status int, words string) obj {
	name := map[int]string{400: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE", 529: "UNAVAILABLE"}[status]
	if name == "" {
		name = "INTERNAL"
	}
	return obj{"code": status, "message": words, "status": name}
}

// GeminiEvent is one event of an answer.
func GeminiEvent(v obj) string { return "data: " + j(v) + "\r\n\r\n" }

// GeminiParts is an event with parts of an answer; finish may be empty.
func GeminiParts(finish string, parts ...obj) string {
	c := obj{"content": obj{"parts": parts, "role": "model"}, "index": 0}
	if finish != "" {
		c["finishReason"] = finish
	}
	return GeminiEvent(obj{"candidates": []obj{c}, "modelVersion": "test-model", "responseId": "r1"})
}

func sayGemini(s Said) []string {
	var frames []string
	for _, r := range s.Reasoning {
		frames = append(frames, GeminiParts("", obj{"text": r, "thought": true}))
	}
	for _, t := range s.Text {
		frames = append(frames, GeminiParts("", obj{"text": t}))
	}
	var calls []obj
	for i, c := range s.Calls {
		call := obj{"functionCall": obj{"name": c.Name, "args": json.RawMessage(strings.Join(c.Args, ""))}}
		if i == 0 { // the first of parallel calls alone carries one
			call["thoughtSignature"] = "c2lnbmVk"
		}
		calls = append(calls, call)
	}
	if len(calls) > 0 {
		frames = append(frames, GeminiParts("", calls...))
	}
	finish := "STOP"
	if s.CutOff {
		finish = "MAX_TOKENS"
	}
	return append(frames, GeminiEvent(obj{
		"candidates":    []obj{{"content": obj{"parts": []obj{{"text": ""}}, "role": "model"}, "finishReason": finish, "index": 0}},
		"usageMetadata": obj{"promptTokenCount": s.Input, "candidatesTokenCount": s.Output, "totalTokenCount": s.Input + s.Output}, "modelVersion": "test-model", "responseId": "r1",
	}))
}

// Ollama speaks as /api/chat does.
var Ollama = API{
	Name: "ollama", Path: "/api/chat", ContentType: "application/x-ndjson",
	About: &About{Path: "/api/show", Body: `{"model_info":{"general.architecture":"llama","llama.context_length":131072},"capabilities":["completion","tools"]}`},
	Check: CheckOllama, Say: sayOllama,
	Refusal: func(status int, words string) Reply {
		return Reply{Status: status, Frames: []string{j(obj{"error": words})}}
	},
	Midway: func(_ int, words string) string { return j(obj{"error": words}) + "\n" },
}

// OllamaLine is one line of an answer.
func OllamaLine(message obj, more obj) string {
	message["role"] = "assistant"
	if message["content"] == nil {
		message["content"] = ""
	}
	line := obj{"model": "test-model", "created_at": "2026-01-02T03:04:05.678901Z", "message": message, "done": false}
	for k, v := range more {
		line[k] = v
	}
	return j(line) + "\n"
}

func sayOllama(s Said) []string {
	var frames []string
	for _, r := range s.Reasoning {
		frames = append(frames, OllamaLine(obj{"thinking": r}, nil))
	}
	for _, t := range s.Text {
		frames = append(frames, OllamaLine(obj{"content": t}, nil))
	}
	for i, c := range s.Calls {
		call := obj{"function": obj{"index": i, "name": c.Name, "arguments": json.RawMessage(strings.Join(c.Args, ""))}}
		if c.ID != "" {
			call["id"] = c.ID
		}
		frames = append(frames, OllamaLine(obj{"tool_calls": []obj{call}}, nil))
	}
	return append(frames, OllamaLine(obj{}, obj{"done": true, "done_reason": s.reason("stop", "stop", "length"),
		"total_duration": 5000000, "load_duration": 1000000, "prompt_eval_count": s.Input, "prompt_eval_duration": 2000000, "eval_count": s.Output, "eval_duration": 2000000}))
}

// Limited is the refusal of a request for its rate, with headers as name and
// value in turn.
func (a API) Limited(headers ...string) Reply {
	r := a.Refusal(http.StatusTooManyRequests, "slow down")
	r.Header = map[string]string{}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header[headers[i]] = headers[i+1]
	}
	return r
}

// Answer is a reply that says s.
func (a API) Answer(s Said) Reply { return Reply{Frames: a.Say(s)} }

// String makes tables read well.
func (a API) String() string { return fmt.Sprintf("API of %s", a.Name) }
