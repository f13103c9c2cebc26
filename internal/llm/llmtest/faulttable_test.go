package llmtest_test

import (
	"time"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/llmtest"
)

const (
	two    = "a fs/read {\"path\":\"1\"}\nb fs/read {\"path\":\"2\"}\n"
	madeUp = "call_1 fs/read {\"path\":\"1\"}\ncall_2 fs/read {\"path\":\"2\"}\n"
)

var (
	halfCall = llmtest.Said{Calls: []llmtest.Called{{ID: "a", Name: "fs_read", Args: []string{`{"path":`, `"within"}`}}}}
	lost     = llm.Usage{Input: 7, Output: 2}
	all      = []string{"1s", "1s", "1s"}
)

// faults is the table: each fault for each provider that can have it.
var faults = []fault{
	{name: "none", replies: always(func(a llmtest.API) llmtest.Reply { return a.Answer(fine) }), text: "Fine."},

	{name: "429", replies: then(limited()), waits: []string{"1s"}, text: "Fine."},
	{name: "429 four times", replies: always(limited()), waits: all, cause: llm.RateLimited},
	{name: "429 with another delay and number", replies: always(limited()), o: llm.Options{RetryDelay: 250 * time.Millisecond, MaxRetries: 1}, waits: []string{"250ms"}, cause: llm.RateLimited},
	{name: "429 and no retries", replies: always(limited()), o: llm.Options{MaxRetries: -1}, cause: llm.RateLimited},
	{name: "429 with retry-after", replies: then(limited("Retry-After", "7")), waits: []string{"7s"}, text: "Fine."},
	{name: "429 with retry-after-ms", replies: then(limited("Retry-After-Ms", "1500", "Retry-After", "2")), waits: []string{"1.5s"}, text: "Fine."},
	{name: "429 with a date", replies: then(limited("Retry-After", "Sat, 01 Jan 2000 00:00:20 GMT")), waits: []string{"20s"}, text: "Fine."},
	{name: "429 with a wait that nobody wants", replies: always(limited("Retry-After", "300")), cause: llm.RateLimited},
	{name: "429 with RetryInfo", only: "gemini", replies: then(retryInfo), waits: []string{"3.5s"}, text: "Fine."},
	{name: "529", replies: then(refused(529)), waits: []string{"1s"}, text: "Fine."},
	{name: "529 four times", replies: always(refused(529)), waits: all, cause: llm.Overloaded},
	{name: "503", replies: then(refused(503)), waits: []string{"1s"}, text: "Fine."},
	{name: "400", replies: always(refused(400)), cause: llm.BadRequest},
	{name: "401", replies: always(refused(401)), cause: llm.Auth},
	{name: "404", replies: always(refused(404)), cause: llm.NotFound},

	{name: "cut before anything was said", replies: then(cutShort(fine, "Fi")), waits: []string{"1s"}, text: "Fine."},
	{name: "cut before anything was said, always", replies: always(cutShort(fine, "Fi")), waits: all, cause: llm.Network},
	{name: "cut within JSON", replies: always(cutShort(fine, "ne.")), text: "Fi", cause: llm.Network},
	// A call that was not said to its end is not in the answer.
	{name: "cut within a call", only: "openai anthropic", replies: always(cutShort(halfCall, "within")), cause: llm.Network},
	{name: "cut within a call", only: "gemini ollama", replies: then(cutShort(halfCall, "within")), waits: []string{"1s"}, text: "Fine."},
	{name: "no JSON", replies: then(func(a llmtest.API) llmtest.Reply {
		if a.Name == "ollama" {
			return llmtest.Reply{Frames: []string{"{oops\n"}}
		}
		return llmtest.Reply{Frames: []string{"data: {oops\n\n"}}
	}), waits: []string{"1s"}, text: "Fine."},
	{name: "nothing at all", replies: then(frames()), waits: []string{"1s"}, text: "Fine."},

	{name: "duplicate index", only: "openai", calls: two, replies: always(frames(
		llmtest.OpenAIChunk(obj{"tool_calls": []obj{{"index": 0, "id": "a", "type": "function", "function": obj{"name": "fs_read", "arguments": `{"path":"1"}`}}}}, nil),
		llmtest.OpenAIChunk(obj{"tool_calls": []obj{{"index": 0, "id": "b", "type": "function", "function": obj{"name": "fs_read", "arguments": `{"path":`}}}}, nil),
		llmtest.OpenAIChunk(obj{"tool_calls": []obj{{"index": 0, "function": obj{"arguments": `"2"}`}}}}, nil),
		llmtest.OpenAIChunk(obj{}, "tool_calls"), "data: [DONE]\n\n"))},
	{name: "duplicate index", only: "anthropic", calls: two, replies: always(frames(
		llmtest.AnthropicEvent("content_block_start", obj{"index": 0, "content_block": obj{"type": "tool_use", "id": "a", "name": "fs_read", "input": obj{}}}),
		llmtest.AnthropicEvent("content_block_delta", obj{"index": 0, "delta": obj{"type": "input_json_delta", "partial_json": `{"path":"1"}`}}),
		llmtest.AnthropicEvent("content_block_start", obj{"index": 0, "content_block": obj{"type": "tool_use", "id": "b", "name": "fs_read", "input": obj{}}}),
		llmtest.AnthropicEvent("content_block_delta", obj{"index": 0, "delta": obj{"type": "input_json_delta", "partial_json": `{"path":"2"}`}}),
		llmtest.AnthropicEvent("content_block_stop", obj{"index": 0}),
		llmtest.AnthropicEvent("message_delta", obj{"delta": obj{"stop_reason": "tool_use"}}), llmtest.AnthropicEvent("message_stop", obj{})))},
	{name: "duplicate index", only: "ollama", calls: two, replies: always(frames(
		llmtest.OllamaLine(obj{"tool_calls": []obj{{"id": "a", "function": obj{"index": 0, "name": "fs_read", "arguments": obj{"path": "1"}}}}}, nil),
		llmtest.OllamaLine(obj{"tool_calls": []obj{{"id": "b", "function": obj{"index": 0, "name": "fs_read", "arguments": obj{"path": "2"}}}}}, obj{"done": true, "done_reason": "stop"})))},
	{name: "missing ids", replies: always(func(a llmtest.API) llmtest.Reply {
		return a.Answer(llmtest.Said{Calls: []llmtest.Called{{Name: "fs_read", Args: []string{`{"path":"1"}`}}, {Name: "fs_read", Args: []string{`{"path":`, `"2"}`}}}})
	}), calls: madeUp},
	{name: "missing index", only: "openai", calls: two, replies: always(frames(
		llmtest.OpenAIChunk(obj{"tool_calls": []obj{{"id": "a", "function": obj{"name": "fs_read", "arguments": `{"path":`}}}}, nil),
		llmtest.OpenAIChunk(obj{"tool_calls": []obj{{"function": obj{"arguments": `"1"}`}}}}, nil),
		llmtest.OpenAIChunk(obj{"tool_calls": []obj{{"id": "b", "function": obj{"name": "fs_read", "arguments": `{"path":"2"}`}}}}, nil),
		llmtest.OpenAIChunk(obj{}, "stop"), "data: [DONE]\n\n"))},
	{name: "missing index", only: "anthropic", calls: two, replies: always(frames(
		llmtest.AnthropicEvent("content_block_start", obj{"content_block": obj{"type": "tool_use", "id": "a", "name": "fs_read", "input": obj{}}}),
		llmtest.AnthropicEvent("content_block_delta", obj{"delta": obj{"type": "input_json_delta", "partial_json": `{"path":"1"}`}}),
		llmtest.AnthropicEvent("content_block_stop", obj{}),
		llmtest.AnthropicEvent("content_block_start", obj{"content_block": obj{"type": "tool_use", "id": "b", "name": "fs_read", "input": obj{"path": "2"}}}),
		llmtest.AnthropicEvent("content_block_stop", obj{}),
		llmtest.AnthropicEvent("message_delta", obj{"delta": obj{"stop_reason": "tool_use"}}), llmtest.AnthropicEvent("message_stop", obj{})))},
	{name: "missing index", only: "ollama", calls: two, replies: always(frames(
		llmtest.OllamaLine(obj{"tool_calls": []obj{{"id": "a", "function": obj{"name": "fs_read", "arguments": obj{"path": "1"}}}, {"id": "b", "function": obj{"name": "fs_read", "arguments": obj{"path": "2"}}}}}, obj{"done": true, "done_reason": "stop"})))},
	{name: "arguments that end early", only: "openai anthropic", replies: always(func(a llmtest.API) llmtest.Reply {
		return a.Answer(llmtest.Said{Calls: []llmtest.Called{{ID: "a", Name: "fs_read", Args: []string{`{"path":`}}}})
	}), calls: "a fs/read {}{\"path\":\n"},

	{name: "MALFORMED_FUNCTION_CALL", only: "gemini", replies: then(finish("MALFORMED_FUNCTION_CALL")), waits: []string{"1s"}, text: "Fine.", used: lost},
	{name: "MALFORMED_FUNCTION_CALL, always", only: "gemini", replies: always(finish("MALFORMED_FUNCTION_CALL")), waits: all, cause: llm.BadAnswer, used: llm.Usage{Input: 28, Output: 8}},
	{name: "UNEXPECTED_TOOL_CALL", only: "gemini", replies: then(finish("UNEXPECTED_TOOL_CALL")), waits: []string{"1s"}, text: "Fine.", used: lost},
	{name: "UNEXPECTED_TOOL_CALL, always", only: "gemini", replies: always(finish("UNEXPECTED_TOOL_CALL")), waits: all, cause: llm.BadAnswer},
	{name: "MALFORMED_FUNCTION_CALL after words", only: "gemini", text: "So", cause: llm.BadAnswer, replies: always(frames(
		llmtest.GeminiParts("", obj{"text": "So"}), llmtest.GeminiEvent(obj{"candidates": []obj{{"finishReason": "MALFORMED_FUNCTION_CALL"}}})))},
	{name: "empty candidate", only: "gemini openai ollama", replies: then(empty), waits: []string{"1s"}, text: "Fine.", used: lost},
	{name: "empty candidate, always", only: "gemini openai ollama", replies: always(empty), waits: all, cause: llm.BadAnswer, used: llm.Usage{Input: 28, Output: 8}},
	// Claude may have nothing to add to results, and says so by its stop reason.
	{name: "empty candidate", only: "anthropic", replies: always(empty)},
	{name: "no candidates", only: "gemini", replies: then(frames(llmtest.GeminiEvent(obj{"usageMetadata": obj{"promptTokenCount": 7}}))), waits: []string{"1s"}, text: "Fine."},
	{name: "no choices", only: "openai", replies: then(frames("data: {\"choices\":[]}\n\n", "data: [DONE]\n\n")), waits: []string{"1s"}, text: "Fine."},

	{name: "error at the start of a stream", replies: then(midway(529, llmtest.Said{})), waits: []string{"1s"}, text: "Fine."},
	{name: "error at the start of a stream, always", replies: always(midway(529, llmtest.Said{})), waits: all, cause: llm.Overloaded},
	{name: "error in the midst of a stream", replies: always(midway(529, llmtest.Said{Text: []string{"So"}})), text: "So", cause: llm.Overloaded},
	{name: "limit in the midst of a stream", only: "gemini openai anthropic", replies: always(midway(429, llmtest.Said{Text: []string{"So"}})), text: "So", cause: llm.RateLimited},
	{name: "refusal at the start of a stream", only: "gemini openai anthropic", replies: always(midway(400, llmtest.Said{})), cause: llm.BadRequest},

	{name: "slow drip", replies: always(paced(10*time.Millisecond, false)), text: "Fine.", took: -1},
	{name: "drip without end", replies: always(paced(10*time.Second, false)), o: llm.Options{MaxTime: 35 * time.Second, MaxRetries: 1}, waits: []string{"1s"}, cause: llm.TimedOut, took: 71 * time.Second},
	{name: "silence", replies: always(func(llmtest.API) llmtest.Reply { return llmtest.Reply{Hang: true} }), o: llm.Options{Timeout: 5 * time.Second}, waits: all, cause: llm.TimedOut, took: 23 * time.Second},
	{name: "silence after words", replies: always(func(a llmtest.API) llmtest.Reply {
		r := cutShort(fine, "ne.")(a)
		r.Cut, r.Hang = false, true
		return r
	}), o: llm.Options{Timeout: 5 * time.Second}, text: "Fi", cause: llm.TimedOut, took: 5 * time.Second},
}
