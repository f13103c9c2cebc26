package blackbox

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// B11: who gets no answer of a model is told why.

// refusals are what providers say, and a word by which a person knows it. Of a
// key that is refused the hub tells in its own words: providers quote it.
var refusals = []struct {
	status     int
	body, word string
}{
	{400, `{"error":{"message":"max_tokens is too large for this model","type":"invalid_request_error"}}`, "max_tokens is too large"},
	{401, `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`, "the key"},
	{403, `{"error":{"message":"Project has no access to this country","type":"permission_error"}}`, "403"},
	{404, `{"error":{"message":"The model gpt-none does not exist","type":"invalid_request_error","code":"model_not_found"}}`, "gpt-none"},
	{429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, "quota"},
}

func TestRefusalOfAModelIsSaid(t *testing.T) {
	t.Parallel()
	for _, r := range refusals {
		t.Run(fmt.Sprint(r.status), func(t *testing.T) {
			t.Parallel()
			model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(r.status)
				_, _ = io.WriteString(w, r.body)
			}))
			t.Cleanup(model.Close)
			h := prepare(t, object{}, object{
				"models": object{"default": "far", "far": object{"provider": "openai", "baseUrl": model.URL + "/v1", "model": "gpt-none", "apiKey": "sk-none", "maxRetries": 0}},
				"agents": object{"poet": object{"model": "far", "systemPrompt": "Write."}},
			})
			h.launch(t)
			said := h.say(t, h.owner, "hello")
			mentions(t, "the text of the chat", said.Text, r.word)
			lacks(t, "the text of the chat", said.Text, "Please try again in a moment")
			mentions(t, "an agent as a tool", h.tool(t, "/mcps/poet/mcp", h.owner, "chat", object{"user_input": "hello"}).text, r.word)
			mentions(t, "an agent by its socket", h.askAgent(t, "poet", "hello", nil), r.word)
		})
	}
}

// askAgent puts a question to an agent by its socket, and returns all it says,
// a message a line.
func (h *hub) askAgent(t testing.TB, agent, question string, header http.Header) string {
	t.Helper()
	s := h.socket(t, "/ws/"+agent, h.owner, header)
	s.send(object{"user_input": question})
	var all strings.Builder
	for {
		f := s.next()
		all.WriteString(f.raw + "\n")
		if f.Type == "complete" || f.Type == "error" {
			return all.String()
		}
	}
}
