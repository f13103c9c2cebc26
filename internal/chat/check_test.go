package chat

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/anthropic"
	"github.com/stoahub/stoa/internal/llm/gemini"
	"github.com/stoahub/stoa/internal/llm/llmtest"
	"github.com/stoahub/stoa/internal/llm/ollama"
	"github.com/stoahub/stoa/internal/llm/openai"
	"github.com/stoahub/stoa/internal/secret"
)

// examiner holds requests to the rules that the four providers publish: their
// own codecs write the bodies.
type examiner struct {
	mu    sync.Mutex
	check func([]byte) error // of the provider that is asked now
	err   error
	seen  bool
	ask   []asked
}

type asked struct {
	name  string
	model llm.Model
	check func([]byte) error
}

func newExaminer(t testing.TB) *examiner {
	x := &examiner{}
	o := llm.Options{APIKey: secret.New("k"), BaseURL: "http://provider.test", Model: "m", MaxRetries: -1, MaxTokens: 1000, HTTP: &http.Client{Transport: x}}
	add := func(name string, check func([]byte) error, m llm.Model, err error) {
		if err != nil {
			t.Fatal(err)
		}
		x.ask = append(x.ask, asked{name, m, check})
	}
	om, err := openai.New(o)
	add("openai", llmtest.CheckOpenAI, om, err)
	am, err := anthropic.New(o)
	add("anthropic", llmtest.CheckAnthropic, am, err)
	gm, err := gemini.New(o)
	add("gemini", llmtest.CheckGemini, gm, err)
	lm, err := ollama.New(o)
	add("ollama", llmtest.CheckOllama, lm, err)
	return x
}

// RoundTrip looks at what is sent, and refuses it.
func (x *examiner) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if !bytes.Contains(body, []byte(`"messages"`)) && !bytes.Contains(body, []byte(`"contents"`)) {
		return refused(r), nil // it asks what model there is
	}
	x.seen = true
	if err := x.check(body); err != nil {
		x.err = errors.Join(x.err, err, errors.New(string(body)))
	}
	return refused(r), nil
}

func refused(r *http.Request) *http.Response {
	return &http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(nil)), Request: r}
}

// examine says what a provider would find wrong.
func (x *examiner) examine(req llm.Request) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, a := range x.ask {
		x.check, x.err, x.seen = a.check, nil, false
		for _, err := range a.model.Stream(context.Background(), req) {
			_ = err // it is refused
		}
		if x.err == nil && !x.seen {
			x.err = errors.New("nothing was sent")
		}
		if x.err != nil {
			return errors.Join(errors.New(a.name), x.err)
		}
	}
	return nil
}
