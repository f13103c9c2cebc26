// Package models owns which language models there are: it makes them of what
// the config and the environment say, and finds them by name.
//
// Every configured model is there, and so is one for each provider by the
// provider's own name. One that cannot be asked, for want of a key or a name,
// says what to set when it is asked. A Set does not change; another config
// makes another, and whoever holds a model of the old one can go on with it.
//
// Nothing is dialled before a model is asked.
package models

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/anthropic"
	"github.com/stoahub/stoa/internal/llm/gemini"
	"github.com/stoahub/stoa/internal/llm/ollama"
	"github.com/stoahub/stoa/internal/llm/openai"
	"github.com/stoahub/stoa/internal/llm/script"
	"github.com/stoahub/stoa/internal/spell"
)

// Model is one that can be asked by its name.
type Model struct {
	llm.Model
	Name          string // in the config
	Provider      config.Provider
	ID            string // the provider's name of it; "" where the provider decides
	SystemPrompt  string // where a conversation has none
	MaxTokenCount int    // what it may be given
	Price         llm.Price
	Priced        bool   // Price is known
	Missing       string // what has to be set before it can answer; "" if nothing

	Retries    *int          // how often it is asked again; nil: as the chat says
	RetryDelay time.Duration // 0: as the chat says
}

// String is the model as a person is told of it.
func (m *Model) String() string {
	switch {
	case m.Provider == config.Script && m.Name == string(config.Script):
		return m.Name
	case m.ID == "" || m.ID == m.Name:
		return fmt.Sprintf("%s (%s)", m.Name, m.Provider)
	case m.Name == string(m.Provider):
		return fmt.Sprintf("%s (%s)", m.ID, m.Provider)
	}
	return fmt.Sprintf("%s (%s %s)", m.Name, m.Provider, m.ID)
}

// Set is all models of a config.
type Set struct {
	all      map[string]*Model
	names    []string
	standard string
	why      string
}

// Options are what all models share. The zero value of each is usable.
type Options struct {
	HTTP   *http.Client
	Logger *slog.Logger

	holds map[account]*llm.Hold // made by New
}

// account is what a provider counts requests by.
type account struct{ provider, address, key string }

// Transport makes what models are reached by: http.DefaultTransport with smaller
// buffers, since events are small and each of many answers holds a connection
// for long. More connections are kept for the next requests, which mostly go to
// the same host.
func Transport() *http.Transport {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // somebody has put another in its place
		t = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	}
	t = t.Clone()
	t.ReadBufferSize, t.WriteBufferSize, t.MaxIdleConnsPerHost = 2<<10, 1<<10, 16
	return t
}

// New makes the models of a config. It fails only on a script that cannot be
// read.
func New(cfg *config.Config, o Options) (*Set, error) {
	s := &Set{all: map[string]*Model{}, names: cfg.Models.Names()}
	o.holds = map[account]*llm.Hold{}
	named := map[string]config.Model{}
	for _, m := range cfg.Models.Named {
		named[m.Name] = m
	}
	for _, name := range s.names {
		m, ok := named[name]
		if !ok {
			m = config.DefaultModel()
			m.Name, m.Provider = name, config.Provider(name)
		}
		made, err := build(m, cfg, o)
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", name, err)
		}
		s.all[name] = made
	}
	s.standard, s.why = pick(cfg)
	return s, nil
}

const noKey = "no key is set"

// pick says which model is used where nothing names one, and why.
func pick(cfg *config.Config) (name, why string) {
	g := &cfg.Models.Given
	switch {
	case cfg.Models.Default != "":
		return cfg.Models.Default, "models.default"
	case len(cfg.Models.Named) > 0:
		return cfg.Models.Named[0].Name, "the first of models"
	case g.Gemini.Reveal() != "":
		return string(config.Gemini), "GEMINI_API_KEY"
	case g.OpenAI.Reveal() != "":
		return string(config.OpenAI), "OPENAI_API_KEY"
	case g.OpenAIBase != "":
		return string(config.OpenAI), "OPENAI_BASE_URL"
	case g.Anthropic.Reveal() != "":
		return string(config.Anthropic), "ANTHROPIC_API_KEY"
	case g.Ollama != "":
		return string(config.Ollama), "OLLAMA_HOST"
	}
	return string(config.Script), noKey
}

// Get returns the model of a name; "" is the default one.
func (s *Set) Get(name string) (*Model, error) {
	if m := s.all[cmp.Or(name, s.standard)]; m != nil {
		return m, nil
	}
	if near := spell.Nearest(name, s.names); near != "" {
		return nil, fmt.Errorf("there is no model %q: did you mean %q?", name, near)
	}
	return nil, fmt.Errorf("there is no model %q: configure it in models", name)
}

// All returns the models, the configured ones first.
func (s *Set) All() []*Model {
	out := make([]*Model, 0, len(s.names))
	for _, name := range s.names {
		out = append(out, s.all[name])
	}
	return out
}

// Tell says which model answers to that name, as a person is told: the model,
// why it is that one where nobody chose it, and what it lacks.
func (s *Set) Tell(name string) string {
	m, err := s.Get(name)
	switch {
	case err != nil:
		return err.Error()
	case m.Missing != "":
		return m.String() + ": " + m.Missing
	case name == "" && s.why == noKey:
		return m.String() + ": " + s.why
	}
	return m.String()
}

// build makes one model.
func build(m config.Model, cfg *config.Config, o Options) (*Model, error) {
	own := given(&m, &cfg.Models.Given)
	out := &Model{Name: m.Name, Provider: m.Provider, ID: m.Model, SystemPrompt: m.SystemPrompt, MaxTokenCount: window(&m, cfg, own), Retries: m.MaxRetries, RetryDelay: m.RetryDelay}
	opts := options(&m, cfg, o)
	opts.MaxTokenCount = out.MaxTokenCount
	var err error
	switch m.Provider {
	case config.Gemini:
		out.ID = cmp.Or(m.Model, "gemini-2.5-flash")
		out.Model, err = asModel(gemini.New(opts))
	case config.OpenAI:
		if m.Model == "" && !own {
			out.Model = &discovered{make: func(id string) (llm.Model, error) { opts.Model = id; return asModel(openai.New(opts)) }, provider: m.Provider, url: opts.BaseURL + "/models", opts: opts}
			break
		}
		out.ID = cmp.Or(m.Model, "gpt-4.1-mini")
		out.Model, err = asModel(openai.New(opts))
	case config.Anthropic:
		out.ID = cmp.Or(m.Model, "claude-sonnet-4-5")
		out.Model, err = asModel(anthropic.New(opts))
	case config.Ollama:
		if m.Model == "" {
			opts.BaseURL = cmp.Or(opts.BaseURL, "http://127.0.0.1:11434")
			out.Model = &discovered{make: func(id string) (llm.Model, error) { opts.Model = id; return asModel(ollama.New(opts)) }, provider: m.Provider, url: opts.BaseURL + "/api/tags", opts: opts}
			break
		}
		out.Model, err = asModel(ollama.New(opts))
	case config.Script:
		return playing(out, &m, opts)
	default:
		return nil, fmt.Errorf("there is no provider %q", m.Provider)
	}
	if err != nil {
		out.Missing = lacks(&m)
		out.Model = unready{provider: string(m.Provider), model: out.ID, missing: out.Missing}
	}
	if !m.FunctionCalling {
		out.Model = llm.Fenced(out.Model)
	}
	out.price(&m, own)
	return out, nil
}

func playing(out *Model, m *config.Model, opts llm.Options) (*Model, error) {
	so := script.Options{Options: opts, Pace: m.Pace}
	if m.Script != "" {
		text, err := os.ReadFile(m.Script)
		if err != nil {
			return nil, fmt.Errorf("read its script: %w", err)
		}
		so.Script = string(text)
	}
	out.ID = cmp.Or(m.Model, string(config.Script))
	var err error
	out.Model, err = asModel(script.New(so))
	out.Priced = m.Price != nil
	out.price(m, false)
	return out, err
}

// asModel keeps a nil pointer from becoming a model.
func asModel[M llm.Model](m M, err error) (llm.Model, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

// given fills in what the environment says, and reports whether the provider is
// asked at its own address. A key of the environment never goes to an address
// that the file says: that may be anybody's.
func given(m *config.Model, g *config.ModelVariables) (own bool) {
	said := m.BaseURL != ""
	switch m.Provider {
	case config.OpenAI:
		m.BaseURL = cmp.Or(m.BaseURL, g.OpenAIBase)
	case config.Ollama:
		m.BaseURL = cmp.Or(m.BaseURL, g.Ollama)
	}
	if m.APIKey.Reveal() == "" && !said {
		switch m.Provider {
		case config.Gemini:
			m.APIKey = g.Gemini
		case config.OpenAI:
			m.APIKey = g.OpenAI
		case config.Anthropic:
			m.APIKey = g.Anthropic
		}
	}
	return m.BaseURL == ""
}

// lacks says what has to be set before a model can be asked.
func lacks(m *config.Model) string {
	variable := map[config.Provider]string{config.Gemini: "GEMINI_API_KEY", config.OpenAI: "OPENAI_API_KEY", config.Anthropic: "ANTHROPIC_API_KEY"}[m.Provider]
	if m.BaseURL != "" {
		return fmt.Sprintf("no key is set: write models.%s.apiKey into the config", m.Name)
	}
	return fmt.Sprintf("no key is set: set %s in the environment or in .env, or models.%s.apiKey in the config", variable, m.Name)
}

func options(m *config.Model, cfg *config.Config, o Options) llm.Options {
	retries := cfg.Chat.RetryAttempts
	if m.MaxRetries != nil {
		retries = *m.MaxRetries
	}
	if retries == 0 {
		retries = -1 // llm's word for none
	}
	header := http.Header{}
	for name, value := range m.Headers {
		header.Set(name, value.Reveal())
	}
	// Models that ask with one key are paused together: the provider counts
	// their requests together.
	who := account{string(m.Provider), m.BaseURL, m.APIKey.Reveal()}
	if o.holds[who] == nil {
		o.holds[who] = &llm.Hold{}
	}
	return llm.Options{
		Hold: o.holds[who], APIKey: m.APIKey, BaseURL: m.BaseURL, Model: m.Model, SystemPrompt: m.SystemPrompt, Temperature: m.Temperature,
		MaxTokens: m.MaxTokens, Thinking: m.Thinking,
		MaxRetries: retries, RetryDelay: cmp.Or(m.RetryDelay, cfg.Chat.RetryDelay), Timeout: m.Timeout,
		Header: header, HTTP: o.HTTP, Logger: o.Logger,
	}
}

// window is how many tokens a model may be given: the least that was said, else
// what is known of the provider.
func window(m *config.Model, cfg *config.Config, own bool) int {
	a, b := m.MaxTokenCount, cfg.Chat.MaxTokenCount
	switch {
	case a > 0 && b > 0:
		return min(a, b)
	case a > 0 || b > 0:
		return max(a, b)
	}
	switch {
	case m.Provider == config.Gemini && own:
		return 1_000_000
	case m.Provider == config.Anthropic && own:
		return 190_000 // of 200,000, with room for the answer
	case m.Provider == config.Ollama:
		return 8192 // what every machine has memory for
	case m.Provider == config.Script, own:
		return 128_000
	}
	return 32_000 // an unknown server
}
