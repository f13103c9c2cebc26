package llmtest_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/anthropic"
	"github.com/stoahub/stoa/internal/llm/gemini"
	"github.com/stoahub/stoa/internal/llm/llmtest"
	"github.com/stoahub/stoa/internal/llm/ollama"
	"github.com/stoahub/stoa/internal/llm/openai"
	"github.com/stoahub/stoa/internal/secret"
)

type obj = map[string]any

// open makes the model that asks a provider.
func open(api string, o llm.Options) (llm.Model, error) {
	o.Model, o.APIKey = "test-model", secret.New(llmtest.Key)
	if o.BaseURL == "" {
		o.BaseURL = "http://" + api + ".test"
	}
	switch api {
	case "gemini":
		return gemini.New(o)
	case "openai":
		return openai.New(o)
	case "anthropic":
		return anthropic.New(o)
	case "ollama":
		return ollama.New(o)
	}
	return nil, fmt.Errorf("there is no %s", api)
}

var fine = llmtest.Said{Text: []string{"Fi", "ne."}, Input: 7, Output: 3}

// fault is something that goes wrong on the wire, and what comes of it.
type fault struct {
	name string
	only string // names of the providers that have it; empty: all

	// replies are what the server answers, in turn.
	replies func(a llmtest.API) []llmtest.Reply
	o       llm.Options

	waits []string // before each further attempt
	text  string
	calls string
	cause llm.Cause     // empty: an answer comes of it
	took  time.Duration // all in all; 0: the sum of the waits, below 0: whatever
	stop  llm.Stop      // empty: Done without calls, Calls with
	used  llm.Usage     // of attempts that came to nothing
}

// then is a fault that passes: a good answer follows.
func then(f func(llmtest.API) llmtest.Reply) func(llmtest.API) []llmtest.Reply {
	return func(a llmtest.API) []llmtest.Reply { return []llmtest.Reply{f(a), a.Answer(fine)} }
}

// always is a fault that stays.
func always(f func(llmtest.API) llmtest.Reply) func(llmtest.API) []llmtest.Reply {
	return func(a llmtest.API) []llmtest.Reply { return []llmtest.Reply{f(a)} }
}

func limited(headers ...string) func(llmtest.API) llmtest.Reply {
	return func(a llmtest.API) llmtest.Reply { return a.Limited(headers...) }
}

func refused(status int) func(llmtest.API) llmtest.Reply {
	return func(a llmtest.API) llmtest.Reply { return a.Refusal(status, "something is wrong") }
}

// cutShort breaks the connection within the frame that has the mark.
func cutShort(s llmtest.Said, mark string) func(llmtest.API) llmtest.Reply {
	return func(a llmtest.API) llmtest.Reply {
		r := a.Answer(s)
		for i, f := range r.Frames {
			if at := strings.Index(f, mark); at >= 0 {
				r.Frames = append(r.Frames[:i:i], f[:at])
				break
			}
		}
		r.Cut = true
		return r
	}
}

// frames is an answer of those frames alone.
func frames(list ...string) func(llmtest.API) llmtest.Reply {
	return func(llmtest.API) llmtest.Reply { return llmtest.Reply{Frames: list} }
}

func TestFaults(t *testing.T) {
	ran := map[string]int{}
	for _, f := range faults {
		for _, api := range llmtest.APIs() {
			if f.only != "" && !strings.Contains(f.only, api.Name) {
				continue
			}
			ran[api.Name]++
			t.Run(f.name+"/"+api.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { f.run(t, api) })
			})
		}
	}
	for _, api := range llmtest.APIs() {
		if ran[api.Name] < 20 {
			t.Errorf("%s had %d faults only", api.Name, ran[api.Name])
		}
	}
}

func (f fault) run(t *testing.T, api llmtest.API) {
	fake := llmtest.NewFake(t, api, llmtest.InTurn(f.replies(api)...))
	client, end := fake.InMemory()
	defer end()
	o := f.o
	o.HTTP = client
	m, err := open(api.Name, o)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	var a llm.Answer
	var waits []string
	var failed *llm.Error
	for d, err := range m.Stream(t.Context(), llm.Request{
		Messages: []llm.Message{llm.Say(llm.User, "Look.")},
		Tools:    []llm.Tool{{Name: "fs/read", Schema: []byte(`{"type":"object","properties":{"path":{"type":"string"}}}`)}},
	}) {
		if err != nil {
			if !errors.As(err, &failed) {
				t.Fatalf("error %v", err)
			}
			continue
		}
		if d.Kind == llm.Retrying {
			waits = append(waits, d.Wait.String())
		}
		a.Add(d)
	}
	took := time.Since(start)
	f.compare(t, api, a, waits, failed, took)
	if n := len(fake.Asked()); n != len(waits)+1 {
		t.Errorf("%d requests, told of %d", n, len(waits)+1)
	}
}

func (f fault) compare(t *testing.T, api llmtest.API, a llm.Answer, waits []string, failed *llm.Error, took time.Duration) {
	want := f.took
	for _, w := range f.waits {
		if d, err := time.ParseDuration(w); err == nil && f.took == 0 {
			want += d
		}
	}
	if d := cmp.Diff(f.waits, waits); d != "" || took != want && f.took >= 0 {
		t.Errorf("waits (-want +got):\n%s\nin all %s, want %s", d, took, want)
	}
	var calls strings.Builder
	for _, c := range a.Message.Calls() {
		fmt.Fprintf(&calls, "%s %s %s%s\n", c.ID, c.Name, c.Args, c.Malformed)
	}
	if a.Message.Text() != f.text || calls.String() != f.calls {
		t.Errorf("text %q, want %q\ncalls (-want +got):\n%s", a.Message.Text(), f.text, cmp.Diff(f.calls, calls.String()))
	}
	lost := a.Lost
	if f.cause != "" {
		if failed == nil || failed.Cause != f.cause || failed.Attempts != len(waits)+1 || failed.Model != "test-model" || failed.Provider != api.Name || a.Stop != "" {
			t.Fatalf("error %+v, stop %q, want %s after %d attempts", failed, a.Stop, f.cause, len(waits)+1)
		}
		lost = failed.Usage
	} else {
		stop := f.stop
		if stop == "" && len(a.Message.Calls()) > 0 {
			stop = llm.Calls
		} else if stop == "" {
			stop = llm.Done
		}
		if failed != nil || a.Stop != stop {
			t.Errorf("error %v, stop %q, want %q", failed, a.Stop, stop)
		}
	}
	if f.used != (llm.Usage{}) && lost != f.used {
		t.Errorf("lost %+v, want %+v", lost, f.used)
	}
}

// retryInfo is how Gemini asks for a pause.
func retryInfo(llmtest.API) llmtest.Reply {
	return llmtest.Reply{Status: http.StatusTooManyRequests, Frames: []string{`{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[` +
		`{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]},` +
		`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"3.5s"}]}}`}}
}

// empty is a success with nothing in it.
func empty(a llmtest.API) llmtest.Reply {
	if a.Name == "gemini" {
		return llmtest.Reply{Frames: []string{llmtest.GeminiEvent(obj{"candidates": []obj{{"finishReason": "STOP", "index": 0}}, "usageMetadata": obj{"promptTokenCount": 7, "candidatesTokenCount": 2}})}}
	}
	return a.Answer(llmtest.Said{Input: 7, Output: 2})
}

func finish(reason string) func(llmtest.API) llmtest.Reply {
	return frames(llmtest.GeminiEvent(obj{"candidates": []obj{{"content": obj{}, "finishReason": reason, "finishMessage": "Malformed function call: read(", "index": 0}}, "usageMetadata": obj{"promptTokenCount": 7, "candidatesTokenCount": 2}}))
}

func midway(status int, before llmtest.Said) func(llmtest.API) llmtest.Reply {
	return func(a llmtest.API) llmtest.Reply {
		var list []string
		if len(before.Text) > 0 {
			list = a.Say(before)
			for i, f := range list {
				if strings.Contains(f, before.Text[len(before.Text)-1]) {
					list = list[:i+1]
					break
				}
			}
		}
		return llmtest.Reply{Frames: append(list, a.Midway(status, "it went wrong"))}
	}
}

func paced(pace time.Duration, hang bool) func(llmtest.API) llmtest.Reply {
	return func(a llmtest.API) llmtest.Reply {
		var list []string
		for _, f := range a.Say(fine) {
			list = append(list, strings.SplitAfter(f, "")...)
		}
		if hang {
			list = list[:len(list)/2]
		}
		return llmtest.Reply{Frames: list, Pace: pace, Hang: hang}
	}
}
