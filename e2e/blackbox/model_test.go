package blackbox

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/stoahub/stoa/internal/llm/llmtest"
)

// fakeModel runs the server of a model, which answers its nth request by reply.
func fakeModel(t testing.TB, reply func(n int, a llmtest.Asked) llmtest.Reply) (fake *llmtest.Fake, url string) {
	t.Helper()
	fake = llmtest.NewFake(t, llmtest.OpenAI, reply)
	fake.About = &llmtest.About{Path: "/models", Body: `{"object":"list","data":[{"id":"test-model","object":"model"}]}`} // whoever knows no name asks for it
	srv := httptest.NewServer(fake)
	t.Cleanup(srv.Close)
	return fake, srv.URL
}

// using are the settings of a hub that asks that model.
func using(url string) object {
	return object{"models": object{"default": "far", "far": object{"provider": "openai", "baseUrl": url, "model": "test-model", "apiKey": llmtest.Key}}}
}

// says is an answer in words.
func says(pieces ...string) llmtest.Reply { return llmtest.OpenAI.Answer(llmtest.Said{Text: pieces}) }

// calls is the nth answer, which calls a tool.
func calls(n int, tool, args string) llmtest.Reply {
	return llmtest.OpenAI.Answer(llmtest.Said{Calls: []llmtest.Called{{ID: fmt.Sprint("call_", n), Name: tool, Args: []string{args}}}})
}
