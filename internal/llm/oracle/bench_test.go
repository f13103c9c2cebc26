package oracle

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	gpt "github.com/openai/openai-go/v3"
	gptoption "github.com/openai/openai-go/v3/option"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/llmtest"
)

const deltas = 1000

// canned answers every request with the same bytes, so that reading is all that
// is measured.
type canned []byte

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(c)), Request: r}, nil
}

func stream() canned {
	said := llmtest.Said{Input: 10, Output: deltas}
	for range deltas {
		said.Text = append(said.Text, "word and ")
	}
	var b bytes.Buffer
	for _, f := range llmtest.OpenAI.Say(said) {
		b.WriteString(f)
	}
	return b.Bytes()
}

// readBy are the two readers; both hand the text on.
var readBy = map[string]func(*testing.B, *http.Client){
	"ours": func(b *testing.B, client *http.Client) {
		m, err := ours("openai", llm.Options{HTTP: client, BaseURL: anywhere})
		if err != nil {
			b.Fatal(err)
		}
		perDelta(b, func() (n int, err error) {
			for d, err := range m.Stream(b.Context(), llm.Request{Messages: []llm.Message{llm.Say(llm.User, "q")}}) {
				if err != nil {
					return n, err
				}
				n += len(d.Text)
			}
			return n, nil
		})
	},
	"SDK": func(b *testing.B, client *http.Client) {
		c := gpt.NewClient(gptoption.WithBaseURL(anywhere), gptoption.WithAPIKey(llmtest.Key), gptoption.WithHTTPClient(client), gptoption.WithMaxRetries(0))
		perDelta(b, func() (n int, err error) {
			s := c.Chat.Completions.NewStreaming(b.Context(), gpt.ChatCompletionNewParams{Model: model, Messages: []gpt.ChatCompletionMessageParamUnion{gpt.UserMessage("q")}})
			for s.Next() {
				for _, choice := range s.Current().Choices {
					n += len(choice.Delta.Content)
				}
			}
			return n, s.Err()
		})
	},
}

// BenchmarkOpenAIDelta is what one delta of an answer costs.
func BenchmarkOpenAIDelta(b *testing.B) {
	client := &http.Client{Transport: stream()}
	for _, name := range []string{"ours", "SDK"} {
		b.Run(name, func(b *testing.B) { readBy[name](b, client) })
	}
}

func perDelta(b *testing.B, ask func() (int, error)) {
	b.ReportAllocs()
	answers := 0
	for b.Loop() {
		if n, err := ask(); err != nil || n != deltas*len("word and ") {
			b.Fatalf("%d bytes, %v", n, err)
		}
		answers++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(answers*deltas), "ns/delta")
}

// TestNotSlower holds our reader to the SDK's in the same run, with room for
// what else the machine does.
func TestNotSlower(t *testing.T) {
	if testing.Short() {
		t.Skip("measures")
	}
	measure := func(name string) float64 {
		best := 0.0
		for range 3 {
			r := testing.Benchmark(func(b *testing.B) { readBy[name](b, &http.Client{Transport: stream()}) })
			if ns := r.Extra["ns/delta"]; best == 0 || ns < best {
				best = ns
			}
		}
		return best
	}
	own, theirs := measure("ours"), measure("SDK")
	t.Logf("ns per delta: %.0f, of the SDK %.0f", own, theirs)
	if own > theirs {
		t.Errorf("a delta costs %.0f ns, and %.0f ns by the SDK", own, theirs)
	}
}
