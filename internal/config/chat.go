package config

import (
	"time"
)

// Chat says how the chat host behaves.
type Chat struct {
	Enabled      bool
	Model        string // "": Models.Default
	SystemPrompt string // "": the model's, else the hub's own
	Temperature  *float64

	MaxHistoryLength int           // messages that the model is given; 0: all that fit
	RetryAttempts    int           // of a model that does not say
	RetryDelay       time.Duration // of a model that does not say

	MaxTokenCount          int      // what a model may be given; 0: the model's own
	SummarizationThreshold *float64 // nil: never; up to 1 a share of MaxTokenCount, above it tokens
	RetainNewestMessages   int

	MaxSteps  int      // answers of the model in one turn
	Parallel  int      // calls at once
	Queue     int      // inputs that wait for the running turn
	Tools     []string // patterns; empty: all
	Approvals Rules
	Texts     Texts
}

// Texts are what is said in fixed words; "" means the hub's own.
type Texts struct {
	Welcome, ToolError, RateLimited, Maintenance, LLMError string
}

func defaultChat() Chat {
	return Chat{Enabled: true, RetryAttempts: 3, RetryDelay: time.Second, RetainNewestMessages: 10, MaxSteps: 25, Parallel: 5, Queue: 8}
}

const toolsDoc = "Which tools it may use: patterns of the name as it is offered (`files__*`), of `server:tool`, or the name of a server alone. Left out, all."

func chatFields() []field[Chat] {
	return []field[Chat]{
		boolField("enabled", "False serves neither a chat nor agents.", func(c *Chat) *bool { return &c.Enabled }),
		textField("model", "The name of the model, of `models` or a provider's; left out, `models.default`.", asWritten, func(c *Chat) *string { return &c.Model }, nil),
		textField("systemPrompt", "What the model is told first; the rules of the hub, the tools and the guidance of the servers follow. Left out, that of the model, then the hub's own.", asWritten, func(c *Chat) *string { return &c.SystemPrompt }, nil),
		numberField("temperature", "How freely the model chooses its words; left out, as the model's `temperature` says.", 0, 2, func(c *Chat) **float64 { return &c.Temperature }),
		openInt("maxHistoryLength", "How many of the newest messages the model is given; left out, all that fit into `maxTokenCount`.", 2, 1_000_000, func(c *Chat) *int { return &c.MaxHistoryLength }),
		intField("retryAttempts", "How often a model is asked again that failed and may succeed later; `maxRetries` of a model wins.", 0, 20, func(c *Chat) *int { return &c.RetryAttempts }),
		delayField("retryDelay", "The wait before that where the provider names none: milliseconds, or a duration; `retryDelay` of a model wins.", func(c *Chat) *time.Duration { return &c.RetryDelay }),
		openInt("maxTokenCount", "How many tokens a model may be given, system prompt, tools and history together; above it old results of tools are left out. Left out, `MAX_TOKEN_COUNT` decides, then the model's own.", 256, 100_000_000, func(c *Chat) *int { return &c.MaxTokenCount }),
		numberField("summarizationThreshold", "Sum old messages up from so many tokens on; up to 1, it is a share of `maxTokenCount`. Left out, never.", 0, 100_000_000, func(c *Chat) **float64 { return &c.SummarizationThreshold }),
		intField("retainNewestMessages", "The newest messages, which are left as they are when others are pruned or summed up.", 1, 1000, func(c *Chat) *int { return &c.RetainNewestMessages }),
		intField("maxSteps", "Answers of the model within one turn; then the turn ends.", 1, 1000, func(c *Chat) *int { return &c.MaxSteps }),
		intField("parallel", "Calls of read-only or idempotent tools at once.", 1, 64, func(c *Chat) *int { return &c.Parallel }),
		intField("queue", "Messages that may wait while a turn runs; one more is refused.", 0, 1000, func(c *Chat) *int { return &c.Queue }),
		textsField("tools", toolsDoc, asWritten, true, func(c *Chat) *[]string { return &c.Tools }, checkGlob),
		rulesField("approvals", "Which calls of the model need a person's approval, before the rules of `policy`. Where neither applies, read-only and non-destructive tools run, and everything else needs approval.", func(c *Chat) *Rules { return &c.Approvals }),
		objectField("texts", "What is said in fixed words, in place of the hub's own.", func(c *Chat) *Texts { return &c.Texts }, textFields()),
	}
}

func textFields() []field[Texts] {
	one := func(key, doc string, p func(*Texts) *string) field[Texts] {
		return textField(key, doc, asWritten, p, nil)
	}
	return []field[Texts]{
		one("welcome", "To a new conversation.", func(t *Texts) *string { return &t.Welcome }),
		one("toolError", "When a tool failed.", func(t *Texts) *string { return &t.ToolError }),
		one("rateLimited", "When there are more messages than may wait.", func(t *Texts) *string { return &t.RateLimited }),
		one("maintenance", "When the hub stops.", func(t *Texts) *string { return &t.Maintenance }),
		one("llmError", "When the model gave no answer; `{error}` is why, and is said after the text where it has none.", func(t *Texts) *string { return &t.LLMError }),
	}
}
