package config

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/secret"
)

// variable is an environment variable that decides a key where no file does.
type variable struct {
	name, path string
	doc        string // what its values are
	set        func(l *loader, c *Config, value string) (problem, hint string)
}

// variables are those that decide one key each. Of two for one key the first
// wins.
func variables() []variable {
	return []variable{
		{"LOG_LEVEL", "/log/level", "trace, debug, info, warn (or warning) or error", setLevel},
		{"AIUR_VERBOSE", "/log/level", "true is debug, false leaves it as it is", setVerbose},
		{"AIUR_ENABLE_FILE_LOGGING", "/log/file/enabled", "true or false", setBool(func(c *Config) *bool { return &c.Log.File.Enabled })},
		{"AIUR_LOG_DIRECTORY", "/log/file/directory", "a folder; a relative path starts at the current folder", setDirectory},
		{"AIUR_LOG_RETENTION_DAYS", "/log/file/retentionDays", "days, 0 to 3650", setWhole(0, 3650, func(c *Config) *int { return &c.Log.File.RetentionDays })},
		{"AIUR_MAX_LOG_FILE_SIZE", "/log/file/maxSize", "bytes", setWhole(minLogBytes, maxLogBytes, func(c *Config) *int { return &c.Log.File.MaxSize })},
		{"AIUR_SESSION_TIMEOUT", "/session/timeout", "milliseconds; 0 is never", setMillis(0, func(c *Config) *time.Duration { return &c.Session.Timeout })},
		{"AIUR_AUTO_LAUNCH_SERVER", "/attach/launch", "true or false", setBool(func(c *Config) *bool { return &c.Attach.Launch })},
		{"AIUR_SERVER_INDEPENDENT", "/attach/independent", "true or false", setBool(func(c *Config) *bool { return &c.Attach.Independent })},
		{"AIUR_STOP_SERVER_ON_EXIT", "/attach/stopOnExit", "true or false", setBool(func(c *Config) *bool { return &c.Attach.StopOnExit })},
		{"AIUR_SERVER_LAUNCH_TIMEOUT", "/attach/launchTimeout", "milliseconds", setMillis(1, func(c *Config) *time.Duration { return &c.Attach.LaunchTimeout })},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "/telemetry/endpoint", "the http or https address of an OTLP receiver", setEndpoint},
		{"STOA_STORE_KEY", "/store/key", "the cluster key, where the file says neither `keyFile` nor `keyCommand`", setStoreKey},
		{"MAX_TOKEN_COUNT", "/chat/maxTokenCount", "tokens that a model may be given", setWhole(256, 100_000_000, func(c *Config) *int { return &c.Chat.MaxTokenCount })},
		{"GEMINI_API_KEY", "/models/gemini/apiKey", "the key of Gemini, for every model of it without one", setKey(func(m *ModelVariables) *secret.String { return &m.Gemini })},
		{"OPENAI_API_KEY", "/models/openai/apiKey", "the key of OpenAI, for every model of it without one", setKey(func(m *ModelVariables) *secret.String { return &m.OpenAI })},
		{"OPENAI_BASE_URL", "/models/openai/baseUrl", "the address of a server that speaks as OpenAI does, for every model of it without one", setOpenAIBase},
		{"ANTHROPIC_API_KEY", "/models/anthropic/apiKey", "the key of Anthropic, for every model of it without one", setKey(func(m *ModelVariables) *secret.String { return &m.Anthropic })},
		{"OLLAMA_HOST", "/models/ollama/baseUrl", "the address of Ollama, a URL or host:port, for every model of it without one", setOllama},
	}
}

// settleVariables lets variables decide what no file has decided.
func (l *loader) settleVariables(c *Config) {
	for _, v := range variables() {
		value, from, _ := l.env.get(v.name)
		if value == "" || known(c.trace, v.path) && !strings.HasPrefix(v.path, "/models/") { // those are of all models
			continue
		}
		before := c.Log.Level
		if problem, hint := v.set(l, c, value); problem != "" {
			l.wrong(v.name, problem, hint)
		} else if (v.name != "AIUR_VERBOSE" || c.Log.Level != before) && !known(c.trace, v.path) {
			c.trace.places[v.path] = place{other: from}
		}
	}
	l.settleTimeouts(c)
	l.settleModules(c)
}

// wrong complains of a variable's value, which it does not quote: many a
// variable is a secret.
func (l *loader) wrong(name, problem, hint string) {
	p := Problem{File: "env " + name, Text: problem, Hint: hint}
	if file, line := l.env.file(name); file != "" {
		p.File, p.Line, p.Column, p.Text = file, line, 1, name+": "+problem
	}
	l.report.problem(p)
}

// settleTimeouts gives the servers that do not say one a time-out for calls. A
// server's own bound of it is kept to.
func (l *loader) settleTimeouts(c *Config) {
	const name = "DEFAULT_TOOL_TIMEOUT_MS"
	value, from, _ := l.env.get(name)
	if value == "" {
		return
	}
	ms, problem, hint := wholeOf(value, 1, longest.Milliseconds())
	if problem != "" {
		l.wrong(name, problem, hint+" milliseconds")
		return
	}
	for i := range c.Servers {
		s := &c.Servers[i]
		at := under("/servers", s.Name)
		if known(c.trace, at+"/timeoutMs") {
			continue
		}
		s.Timeout = time.Duration(ms) * time.Millisecond
		if known(c.trace, at+"/maxTimeoutMs") {
			s.Timeout = min(s.Timeout, s.MaxTimeout)
		}
		s.MaxTimeout = max(s.MaxTimeout, s.Timeout)
		c.trace.places[at+"/timeoutMs"] = place{other: from}
	}
}

type setter = func(l *loader, c *Config, value string) (problem, hint string)

func setLevel(_ *loader, c *Config, value string) (string, string) {
	level := strings.ToLower(strings.TrimSpace(value))
	if level == "warning" {
		level = "warn"
	}
	if !slices.Contains(levels, level) {
		return "the level is not known", "allowed: " + strings.Join(levels, ", ")
	}
	c.Log.Level = level
	return "", ""
}

func setVerbose(_ *loader, c *Config, value string) (string, string) {
	on, problem, hint := boolOf(value)
	if on {
		c.Log.Level = "debug"
	}
	return problem, hint
}

func setDirectory(l *loader, c *Config, value string) (string, string) {
	dir := l.path(value)
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	c.Log.File.Directory = dir
	return "", ""
}

func setKey(p func(*ModelVariables) *secret.String) setter {
	return func(_ *loader, c *Config, value string) (string, string) {
		key := strings.TrimSpace(value)
		if strings.ContainsAny(key, " \t\r\n\x00") {
			return "this is no key: it has spaces or line breaks", "copy the key alone"
		}
		*p(&c.Models.Given) = secret.New(key)
		return "", ""
	}
}

func setStoreKey(_ *loader, c *Config, value string) (string, string) {
	if s := &c.Store; s.KeyFile == "" && s.KeyCommand == nil {
		s.Key = secret.New(strings.TrimSpace(value))
	}
	return "", ""
}

func setOpenAIBase(_ *loader, c *Config, value string) (string, string) {
	u, err := url.Parse(strings.TrimSpace(value))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "this is no http or https address", "write it as in https://api.example.com/v1"
	}
	c.Models.Given.OpenAIBase = strings.TrimRight(u.String(), "/")
	return "", ""
}

func setEndpoint(_ *loader, c *Config, value string) (string, string) {
	c.Telemetry.Endpoint = strings.TrimSpace(value)
	return checkEndpoint(c.Telemetry.Endpoint)
}

func setOllama(_ *loader, c *Config, value string) (problem, hint string) {
	address, problem, hint := ollamaAddress(value)
	c.Models.Given.Ollama = address
	return problem, hint
}

func setBool(p func(*Config) *bool) setter {
	return func(_ *loader, c *Config, value string) (string, string) {
		v, problem, hint := boolOf(value)
		if problem == "" {
			*p(c) = v
		}
		return problem, hint
	}
}

func setWhole(lo, hi int64, p func(*Config) *int) setter {
	return func(_ *loader, c *Config, value string) (string, string) {
		v, problem, hint := wholeOf(value, lo, hi)
		if problem == "" {
			*p(c) = int(v)
		}
		return problem, hint
	}
}

func setMillis(lo int64, p func(*Config) *time.Duration) setter {
	return func(_ *loader, c *Config, value string) (string, string) {
		v, problem, hint := wholeOf(value, lo, longest.Milliseconds())
		if problem != "" {
			return problem, hint + " milliseconds"
		}
		*p(c) = time.Duration(v) * time.Millisecond
		return "", ""
	}
}

func boolOf(value string) (v bool, problem, hint string) {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "true", "1":
		return true, "", ""
	case "false", "0":
		return false, "", ""
	}
	return false, "must be true or false", "allowed: true, false, 1, 0"
}

func wholeOf(value string, lo, hi int64) (v int64, problem, hint string) {
	v, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	switch {
	case err != nil:
		return 0, "must be a whole number", between(lo, hi)
	case v < lo || v > hi:
		return 0, fmt.Sprintf("%d is out of bounds", v), between(lo, hi)
	}
	return v, "", ""
}
