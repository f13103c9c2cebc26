package config

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/secret"
)

// Models are the language models by name. Besides Named, every provider has
// one of its own name with all defaults, unless Named has it.
type Models struct {
	Default string  // which one is used where nothing names one; "": as Pick says
	Named   []Model // in the order of the files
	Given   ModelVariables
}

// ModelVariables are what the environment says of the providers.
type ModelVariables struct {
	Gemini, OpenAI, Anthropic secret.String // the keys
	OpenAIBase                string        // where the OpenAI-compatible server is; "": OpenAI's own
	Ollama                    string        // where Ollama is; "": not said
}

// Provider is whose protocol a model speaks.
type Provider string

const (
	Gemini    Provider = "gemini"
	OpenAI    Provider = "openai"
	Anthropic Provider = "anthropic"
	Ollama    Provider = "ollama"
	Script    Provider = "script"
)

// Providers are all of them, in the order in which their keys are looked for.
var Providers = []Provider{Gemini, OpenAI, Anthropic, Ollama, Script}

// Model is one model as configured. Zero values leave it to the provider.
type Model struct {
	Name     string
	Provider Provider
	Model    string // the provider's name of it
	APIKey   secret.String
	BaseURL  string

	Temperature   *float64
	SystemPrompt  string // where a chat or an agent has none
	MaxTokens     int    // of an answer
	MaxTokenCount int    // of all that the model is given
	Thinking      int    // tokens to reason with

	MaxRetries *int          // nil: as the chat says
	RetryDelay time.Duration // 0: as the chat says
	Timeout    time.Duration // the longest silence
	Headers    map[string]secret.String
	Price      *Price

	FunctionCalling bool          // false: tools are called by blocks in the text
	Script          string        // of the provider script: a file, absolute
	Pace            time.Duration // of the provider script: between two pieces
}

// Price is what a million tokens cost.
type Price struct {
	Input, Output, CacheRead, CacheWrite *float64
}

// DefaultModel returns what a model has that was given nothing.
func DefaultModel() Model { return Model{Timeout: time.Minute, FunctionCalling: true} }

// Names are the names of all models, the configured ones first.
func (m *Models) Names() (names []string) {
	for i := range m.Named {
		names = append(names, m.Named[i].Name)
	}
	for _, p := range Providers {
		if !slices.Contains(names, string(p)) {
			names = append(names, string(p))
		}
	}
	return names
}

// Secrets are the keys and headers that must not be logged.
func (m *Models) Secrets() (all []secret.String) {
	all = append(all, m.Given.Gemini, m.Given.OpenAI, m.Given.Anthropic)
	for i := range m.Named {
		all = append(all, m.Named[i].APIKey)
		for _, name := range sortedKeys(m.Named[i].Headers) {
			if secret.Named(name) {
				all = append(all, m.Named[i].Headers[name])
			}
		}
	}
	return slices.DeleteFunc(all, func(s secret.String) bool { return s.Reveal() == "" })
}

const defaultKey = "default"

// modelsField reads models by name; the member default names one of them.
func modelsField() field[Config] {
	named := textField(defaultKey, "", asWritten, func(m *Models) *string { return &m.Default }, nil)
	return field[Config]{
		key: "models", doc: "The language models, by name; see [models](#models). `default` names the one that is used where nothing else does.",
		schema: func(*Config) *schema {
			return &schema{Type: "object",
				Properties: properties{{defaultKey, &schema{Type: "string", Description: "The name of the model that is used where a chat or an agent names none. Left out, it is the first model of the file; without any, that of the first key in the environment (`GEMINI_API_KEY`, `OPENAI_API_KEY` or `OPENAI_BASE_URL`, `ANTHROPIC_API_KEY`, `OLLAMA_HOST`); without a key, `script`, which needs none."}}},
				Values:     &schema{Ref: "#/$defs/model"}}
		},
		decode: func(d *decoder, n *node, path string, c *Config) {
			if !d.want(n, object, "write the models by name") {
				return
			}
			for _, m := range n.members {
				switch {
				case m.value.kind == null:
				case m.name != defaultKey:
					d.model(m, path, c)
				case m.value.kind == object:
					d.problem(m.at, m.value.ptr, "rename it; `default: NAME` says which model is used where none is named", "no model can be called default")
				default:
					named.decode(d, m.value, under(path, defaultKey), &c.Models)
				}
			}
		},
		show: showModels,
	}
}

func showModels(s *shower, path string, c *Config) {
	if c.Models.Default != "" {
		s.put(under(path, defaultKey), c.Models.Default)
	}
	for i := range c.Models.Named {
		showObject(s, under(path, c.Models.Named[i].Name), &c.Models.Named[i], modelFields())
	}
	given := func(p Provider, key string, v any, is bool) {
		if is && !slices.ContainsFunc(c.Models.Named, func(m Model) bool { return m.Name == string(p) }) {
			s.put(under(under(path, string(p)), key), v)
		}
	}
	g := &c.Models.Given
	given(Gemini, "apiKey", secret.Dots, g.Gemini.Reveal() != "")
	given(OpenAI, "apiKey", secret.Dots, g.OpenAI.Reveal() != "")
	given(OpenAI, "baseUrl", maskURL(g.OpenAIBase), g.OpenAIBase != "")
	given(Anthropic, "apiKey", secret.Dots, g.Anthropic.Reveal() != "")
	given(Ollama, "baseUrl", maskURL(g.Ollama), g.Ollama != "")
}

var modelName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}$`)

// model reads one model; an earlier file's of that name is dropped.
func (d *decoder) model(m member, path string, c *Config) {
	if !modelName.MatchString(m.name) {
		d.problem(m.at, m.value.ptr, "use letters, digits and . _ : / -, at most 64, beginning with a letter or digit", "%q cannot be the name of a model", m.name)
		return
	}
	if !d.want(m.value, object, `write {"provider": "…", "model": "…"}`) {
		return
	}
	at := under(path, m.name)
	if i := slices.IndexFunc(c.Models.Named, func(o Model) bool { return o.Name == m.name }); i >= 0 {
		old := d.trace.places[at]
		d.note(m.at, m.value.ptr, "", "the model %q replaces that of %s:%d", m.name, old.src.name, old.at.line)
		d.trace.forget(at)
		c.Models.Named = slices.Delete(c.Models.Named, i, i+1)
	}
	one := DefaultModel()
	one.Name = m.name
	d.trace.places[at] = place{src: d.src, at: m.at, ptr: m.value.ptr, holder: true}
	before := len(d.problems)
	decodeObject(d, m.value, at, &one, modelFields())
	one.settle()
	if len(d.problems) == before {
		checkModel(&one, func(key, text, hint string) {
			p, _ := d.trace.find(at + key)
			d.problem(p.at, p.ptr, hint, "%s", text)
		})
	}
	c.Models.Named = append(c.Models.Named, one)
}

// settle fills in what follows from the name.
func (m *Model) settle() {
	if m.Provider == "" && slices.Contains(Providers, Provider(m.Name)) {
		m.Provider = Provider(m.Name)
	}
}

// checkModel looks at a model as a whole. Keys are pointers below it.
func checkModel(m *Model, problem func(key, text, hint string)) {
	switch {
	case m.Provider == "":
		problem("", fmt.Sprintf("the model %q does not say whose it is", m.Name), "give provider: "+providerWords())
		return
	case !slices.Contains(Providers, m.Provider):
		problem("/provider", fmt.Sprintf("unknown value %q", m.Provider), "allowed: "+providerWords())
		return
	case m.Provider == Ollama && m.Model == "":
		problem("", fmt.Sprintf("the model %q does not say which model of Ollama it is", m.Name), "give model, a name that `ollama list` shows")
	case m.Provider == OpenAI && m.BaseURL != "" && m.Model == "":
		problem("", fmt.Sprintf("the model %q does not say which model of the server at its baseUrl it is", m.Name), "give model")
	}
	if m.BaseURL != "" {
		if u, err := url.Parse(m.BaseURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			problem("/baseUrl", "the baseUrl is no http or https address", "write it as in https://api.example.com/v1")
		} else if u.RawQuery != "" || u.Fragment != "" {
			problem("/baseUrl", "the baseUrl goes on after its path", "write it as in https://api.example.com/v1, and keys into apiKey or headers")
		}
	}
	if m.Provider != Script {
		if m.Script != "" {
			problem("/script", "only the provider script plays a file", "write provider: script, or remove it")
		}
		if m.Pace != 0 {
			problem("/pace", "only the provider script has a pace", "write provider: script, or remove it")
		}
	} else if m.Script != "" && !strings.Contains(m.Script, "${") {
		if _, err := readBounded(m.Script); err != nil {
			problem("/script", "reading the script: "+cause(err), "name an existing file, or leave it out")
		}
	}
	if p := m.Price; p != nil && (p.Input == nil || p.Output == nil) {
		problem("/price", "a price needs input and output", "write what a million tokens cost, as in {input: 0.3, output: 2.5}")
	}
	checkHeaders(m.Headers, problem)
}

func providerWords() string {
	var words []string
	for _, p := range Providers {
		words = append(words, string(p))
	}
	return strings.Join(words, ", ")
}

// ollamaAddress is the address of an Ollama server as its own variable has it:
// a URL, or a host with or without a port.
func ollamaAddress(s string) (address, problem, hint string) {
	const advice = "write it as in http://127.0.0.1:11434"
	s = strings.TrimSpace(s)
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", "this is no address of Ollama", advice
	}
	host, port := u.Hostname(), u.Port()
	switch host {
	case "", "0.0.0.0", "::": // where a server listens is not where a client goes
		host = "127.0.0.1"
	}
	if port == "" {
		port = map[string]string{"http": "11434", "https": "443"}[u.Scheme]
	}
	u.Host = net.JoinHostPort(host, port)
	return strings.TrimRight(u.String(), "/"), "", ""
}
