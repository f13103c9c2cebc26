package config

import (
	"time"

	"github.com/stoahub/stoa/internal/secret"
)

// modelFields are the keys of one model, in the manual's order.
func modelFields() []field[Model] {
	return []field[Model]{
		enumField("provider", "Whose protocol the model speaks; left out, the model's own name says it. `openai` is every server that speaks its chat completions, `script` needs no network.", func(m *Model) *Provider { return &m.Provider }, "gemini", "openai", "anthropic", "ollama", "script"),
		textField("model", "The provider's name of the model; left out, the provider's default. Ollama and servers at a `baseUrl` have none. `${VAR}` is filled in.", expanded, func(m *Model) *string { return &m.Model }, nil),
		secretField("apiKey", "The key. Left out, it is that of the environment: `GEMINI_API_KEY`, `OPENAI_API_KEY`, `ANTHROPIC_API_KEY`; but never for a `baseUrl` that the file says, which gets only the key written here. It is never shown. `${VAR}` is filled in.", func(m *Model) *secret.String { return &m.APIKey }),
		textField("baseUrl", "Where the provider is asked; left out, at its own address, or what `OPENAI_BASE_URL` and `OLLAMA_HOST` say. `${VAR}` is filled in.", expanded, func(m *Model) *string { return &m.BaseURL }, nil),
		numberField("temperature", "How freely the model chooses its words; left out, as the provider does. `temperature` of `chat` and of agents wins.", 0, 2, func(m *Model) **float64 { return &m.Temperature }),
		textField("systemPrompt", "What the model is told before all else where neither `chat` nor the agent has a `systemPrompt`.", asWritten, func(m *Model) *string { return &m.SystemPrompt }, nil),
		openInt("maxTokens", "The longest answer, in tokens; left out, as the provider does.", 1, 10_000_000, func(m *Model) *int { return &m.MaxTokens }),
		openInt("maxTokenCount", "How many tokens the model may be given, system prompt, tools and history together. Left out, `chat.maxTokenCount`, then what is known of the provider; with both, the smaller.", 256, 100_000_000, func(m *Model) *int { return &m.MaxTokenCount }),
		openInt("thinking", "How many tokens the model may reason with, where that can be asked for; left out, as the provider does.", 1, 1_000_000, func(m *Model) *int { return &m.Thinking }),
		wholeField("maxRetries", "How often a request is sent again that failed and may succeed later; left out, `chat.retryAttempts`.", 0, 20, func(m *Model) **int { return &m.MaxRetries }),
		delayField("retryDelay", "The wait before that where the provider names none: milliseconds, or a duration; left out, `chat.retryDelay`.", func(m *Model) *time.Duration { return &m.RetryDelay }),
		millisField("timeoutMs", "How many milliseconds the provider may be silent.", func(m *Model) *time.Duration { return &m.Timeout }),
		secretsField("headers", "HTTP headers for every request. They are never shown. `${VAR}` is filled in.", false, func(m *Model) *map[string]secret.String { return &m.Headers }),
		priceField(),
		boolField("functionCalling", "False for a model that cannot call functions: its tools are described in the system prompt, and it calls them by ```` ```tool ```` blocks in its text.", func(m *Model) *bool { return &m.FunctionCalling }),
		textField("script", "Of the provider script: the file of the turns to play."+pathDoc, asPath, func(m *Model) *string { return &m.Script }, nil),
		delayField("pace", "Of the provider script: the wait between two pieces of an answer, milliseconds or a duration.", func(m *Model) *time.Duration { return &m.Pace }),
	}
}

// openInt is a whole number whose 0 is not shown: it is left to others.
func openInt[T any](key, doc string, lo, hi int64, p func(*T) *int) field[T] {
	f := intField(key, doc, lo, hi, p)
	schemaOf, show := f.schema, f.show
	f.schema = func(def *T) *schema {
		s := schemaOf(def)
		if *p(def) == 0 {
			s.Default = nil
		}
		return s
	}
	f.show = func(s *shower, path string, t *T) {
		if *p(t) != 0 {
			show(s, path, t)
		}
	}
	return f
}

// secretField is one secret.
func secretField[T any](key, doc string, p func(*T) *secret.String) field[T] {
	return field[T]{
		key: key, doc: doc,
		schema: func(*T) *schema { return &schema{Type: "string"} },
		decode: func(d *decoder, n *node, path string, t *T) {
			if !d.want(n, text, "") {
				return
			}
			if v, ok := d.read(n, path, expanded); ok {
				*p(t) = secret.New(v)
			}
		},
		show: func(s *shower, path string, t *T) {
			if p(t).Reveal() != "" {
				s.put(path, secret.Dots)
			}
		},
	}
}

func priceField() field[Model] {
	table := []field[Price]{
		numberField("input", "A million tokens that the model is given.", 0, 1_000_000, func(p *Price) **float64 { return &p.Input }),
		numberField("output", "A million tokens that it makes.", 0, 1_000_000, func(p *Price) **float64 { return &p.Output }),
		numberField("cacheRead", "A million tokens that were found in the provider's cache; left out, as `input`.", 0, 1_000_000, func(p *Price) **float64 { return &p.CacheRead }),
		numberField("cacheWrite", "A million tokens that were put into it; left out, as `input`.", 0, 1_000_000, func(p *Price) **float64 { return &p.CacheWrite }),
	}
	return field[Model]{
		key: "price", doc: "What a million tokens cost, in a currency of one's choice. Left out, list prices are used where they are known, else no cost is told.",
		schema: func(*Model) *schema { return objectSchema(&Price{}, table) },
		decode: func(d *decoder, n *node, path string, m *Model) {
			var p Price
			d.trace.places[path] = place{src: d.src, at: n.key, ptr: n.ptr, holder: true}
			decodeObject(d, n, path, &p, table)
			m.Price = &p
		},
		show: func(s *shower, path string, m *Model) {
			if m.Price != nil {
				showObject(s, path, m.Price, table)
			}
		},
	}
}
