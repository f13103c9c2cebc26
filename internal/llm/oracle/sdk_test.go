package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	claude "github.com/anthropics/anthropic-sdk-go"
	claudeoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/ollama/ollama/api"
	gpt "github.com/openai/openai-go/v3"
	gptoption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
	"google.golang.org/genai"

	"github.com/stoahub/stoa/internal/llm/llmtest"
)

// sdks ask the conversation of talk, each by a provider's own SDK, and say what
// it understood.
var sdks = map[string]func(ctx context.Context, base string, c *http.Client) (read, error){
	"openai": byOpenAI, "anthropic": byAnthropic, "gemini": byGemini, "ollama": byOllama,
}

var properties = map[string]any{"path": map[string]any{"type": "string", "description": "Which."}}

func openAIParams() gpt.ChatCompletionNewParams {
	call := func(id, args string) gpt.ChatCompletionMessageToolCallUnionParam {
		return gpt.ChatCompletionMessageToolCallUnionParam{OfFunction: &gpt.ChatCompletionMessageFunctionToolCallParam{
			ID: id, Function: gpt.ChatCompletionMessageFunctionToolCallFunctionParam{Name: "fs_read", Arguments: args}}}
	}
	return gpt.ChatCompletionNewParams{
		Model: model,
		Messages: []gpt.ChatCompletionMessageParamUnion{
			gpt.SystemMessage("Be brief."), gpt.UserMessage("Read both."),
			{OfAssistant: &gpt.ChatCompletionAssistantMessageParam{
				Content:   gpt.ChatCompletionAssistantMessageParamContentUnion{OfString: gpt.String("I will.")},
				ToolCalls: []gpt.ChatCompletionMessageToolCallUnionParam{call("c1", `{"path":"a"}`), call("c2", `{"path":"b"}`)},
			}},
			gpt.ToolMessage("AAA", "c1"), gpt.ToolMessage("Error: no such file", "c2"), gpt.UserMessage("And now?"),
		},
		Tools: []gpt.ChatCompletionToolUnionParam{gpt.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: "fs_read", Description: gpt.String("Read a file."), Parameters: shared.FunctionParameters{"type": "object", "properties": properties, "required": []string{"path"}},
		})},
		Temperature: gpt.Float(0.5), MaxTokens: gpt.Int(100),
		StreamOptions: gpt.ChatCompletionStreamOptionsParam{IncludeUsage: gpt.Bool(true)},
	}
}

func byOpenAI(ctx context.Context, base string, c *http.Client) (read, error) {
	client := gpt.NewClient(gptoption.WithBaseURL(base), gptoption.WithAPIKey(llmtest.Key), gptoption.WithHTTPClient(c), gptoption.WithMaxRetries(0))
	stream := client.Chat.Completions.NewStreaming(ctx, openAIParams())
	defer func() { _ = stream.Close() }()
	var all gpt.ChatCompletionAccumulator
	var r read
	for stream.Next() {
		chunk := stream.Current()
		if !all.AddChunk(chunk) {
			return r, fmt.Errorf("the SDK cannot add %s", chunk.RawJSON())
		}
		for _, choice := range chunk.Choices { // other servers' addition, which the SDK keeps beside
			var text string
			if json.Unmarshal([]byte(choice.Delta.JSON.ExtraFields["reasoning_content"].Raw()), &text) == nil {
				r.Reasoning += text
			}
		}
	}
	if stream.Err() != nil || len(all.Choices) == 0 {
		return r, fmt.Errorf("no answer: %w", stream.Err())
	}
	message := all.Choices[0].Message
	r.Text, r.Cut = message.Content, all.Choices[0].FinishReason == "length"
	r.Input, r.Output = int(all.Usage.PromptTokens), int(all.Usage.CompletionTokens)
	for _, c := range message.ToolCalls {
		r.Calls = append(r.Calls, fmt.Sprintf("%s %s %s", c.ID, c.Function.Name, c.Function.Arguments))
	}
	return r, nil
}

func anthropicParams() claude.MessageNewParams {
	use := func(id, path string) claude.ContentBlockParamUnion {
		return claude.NewToolUseBlock(id, map[string]any{"path": path}, "fs_read")
	}
	return claude.MessageNewParams{
		Model: model, MaxTokens: 100, Temperature: claude.Float(0.5), System: []claude.TextBlockParam{{Text: "Be brief."}},
		Messages: []claude.MessageParam{
			claude.NewUserMessage(claude.NewTextBlock("Read both.")),
			claude.NewAssistantMessage(claude.NewTextBlock("I will."), use("c1", "a"), use("c2", "b")),
			claude.NewUserMessage(claude.NewToolResultBlock("c1", "AAA", false), claude.NewToolResultBlock("c2", "no such file", true), claude.NewTextBlock("And now?")),
		},
		Tools: []claude.ToolUnionParam{{OfTool: &claude.ToolParam{
			Name: "fs_read", Description: claude.String("Read a file."), InputSchema: claude.ToolInputSchemaParam{Properties: properties, Required: []string{"path"}},
		}}},
	}
}

func byAnthropic(ctx context.Context, base string, c *http.Client) (read, error) {
	client := claude.NewClient(claudeoption.WithBaseURL(base), claudeoption.WithAPIKey(llmtest.Key), claudeoption.WithHTTPClient(c), claudeoption.WithMaxRetries(0))
	stream := client.Messages.NewStreaming(ctx, anthropicParams())
	defer func() { _ = stream.Close() }()
	var all claude.Message
	for stream.Next() {
		if err := all.Accumulate(stream.Current()); err != nil {
			return read{}, err
		}
	}
	if stream.Err() != nil {
		return read{}, stream.Err()
	}
	r := read{Input: int(all.Usage.InputTokens), Output: int(all.Usage.OutputTokens), Cut: all.StopReason == claude.StopReasonMaxTokens}
	for _, b := range all.Content {
		switch b := b.AsAny().(type) {
		case claude.TextBlock:
			r.Text += b.Text
		case claude.ThinkingBlock:
			r.Reasoning += b.Thinking
		case claude.ToolUseBlock:
			r.Calls = append(r.Calls, fmt.Sprintf("%s %s %s", b.ID, b.Name, b.Input))
		}
	}
	return r, nil
}

func geminiParams() ([]*genai.Content, *genai.GenerateContentConfig) {
	call := func(path, signature string) *genai.Part {
		return &genai.Part{FunctionCall: &genai.FunctionCall{Name: "fs_read", Args: map[string]any{"path": path}}, ThoughtSignature: []byte(signature)}
	}
	result := func(key, text string) *genai.Part {
		return &genai.Part{FunctionResponse: &genai.FunctionResponse{Name: "fs_read", Response: map[string]any{key: text}}}
	}
	return []*genai.Content{
			genai.NewContentFromText("Read both.", genai.RoleUser),
			{Role: genai.RoleModel, Parts: []*genai.Part{{Text: "I will."}, call("a", "signed"), call("b", "")}},
			{Role: genai.RoleUser, Parts: []*genai.Part{result("output", "AAA"), result("error", "no such file")}},
			genai.NewContentFromText("And now?", genai.RoleUser),
		}, &genai.GenerateContentConfig{
			SystemInstruction: &genai.Content{Parts: []*genai.Part{{Text: "Be brief."}}}, Temperature: genai.Ptr(float32(0.5)), MaxOutputTokens: 100,
			Tools: []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: "fs_read", Description: "Read a file.", Parameters: &genai.Schema{
				Type: genai.TypeObject, Properties: map[string]*genai.Schema{"path": {Type: genai.TypeString, Description: "Which."}}, Required: []string{"path"},
			}}}}},
		}
}

func byGemini(ctx context.Context, base string, c *http.Client) (read, error) {
	client, err := genai.NewClient(ctx, &genai.ClientConfig{APIKey: llmtest.Key, Backend: genai.BackendGeminiAPI, HTTPClient: c, HTTPOptions: genai.HTTPOptions{BaseURL: base}})
	if err != nil {
		return read{}, err
	}
	contents, config := geminiParams()
	var r read
	for res, err := range client.Models.GenerateContentStream(ctx, model, contents, config) {
		if err != nil {
			return r, err
		}
		for _, candidate := range res.Candidates {
			for _, p := range candidate.Content.Parts {
				switch {
				case p.FunctionCall != nil:
					args, _ := json.Marshal(p.FunctionCall.Args)
					r.Calls = append(r.Calls, fmt.Sprintf("%s %s %s", p.FunctionCall.ID, p.FunctionCall.Name, args))
				case p.Thought:
					r.Reasoning += p.Text
				default:
					r.Text += p.Text
				}
			}
			r.Cut = candidate.FinishReason == genai.FinishReasonMaxTokens
		}
		if u := res.UsageMetadata; u != nil {
			r.Input, r.Output = int(u.PromptTokenCount), int(u.CandidatesTokenCount)
		}
	}
	return r, nil
}

func ollamaParams() (*api.ChatRequest, error) {
	call := func(path string) api.ToolCall {
		args := api.NewToolCallFunctionArguments()
		args.Set("path", path)
		return api.ToolCall{Function: api.ToolCallFunction{Name: "fs_read", Arguments: args}}
	}
	req := &api.ChatRequest{
		Model: model, Stream: new(true), Truncate: new(false),
		Messages: []api.Message{
			{Role: "system", Content: "Be brief."}, {Role: "user", Content: "Read both."},
			{Role: "assistant", Content: "I will.", ToolCalls: []api.ToolCall{call("a"), call("b")}},
			{Role: "tool", ToolName: "fs_read", Content: "AAA"}, {Role: "tool", ToolName: "fs_read", Content: "Error: no such file"},
			{Role: "user", Content: "And now?"},
		},
		Options: map[string]any{"num_ctx": 8192, "num_predict": 100, "temperature": 0.5},
		Tools:   api.Tools{{Type: "function", Function: api.ToolFunction{Name: "fs_read", Description: "Read a file."}}},
	}
	schema, err := json.Marshal(map[string]any{"type": "object", "properties": properties, "required": []string{"path"}})
	if err != nil {
		return nil, err
	}
	return req, json.Unmarshal(schema, &req.Tools[0].Function.Parameters)
}

func byOllama(ctx context.Context, base string, c *http.Client) (read, error) {
	at, err := url.Parse(base)
	if err != nil {
		return read{}, err
	}
	req, err := ollamaParams()
	if err != nil {
		return read{}, err
	}
	var r read
	err = api.NewClient(at, c).Chat(ctx, req, func(res api.ChatResponse) error {
		r.Text += res.Message.Content
		r.Reasoning += res.Message.Thinking
		for _, c := range res.Message.ToolCalls {
			r.Calls = append(r.Calls, fmt.Sprintf("%s %s %s", c.ID, c.Function.Name, c.Function.Arguments.String()))
		}
		if res.Done {
			r.Input, r.Output, r.Cut = res.PromptEvalCount, res.EvalCount, res.DoneReason == "length"
		}
		return nil
	})
	return r, err
}
