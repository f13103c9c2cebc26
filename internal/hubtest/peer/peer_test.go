package peer

import (
	"encoding/json"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	Main()
	goleak.VerifyTestMain(m)
}

// deadline is far above what anything here takes, even on a busy machine.
const deadline = 30 * time.Second

// everything offers one tool per behaviour, named after it.
func everything() Spec {
	s := Spec{
		Name:         "everything",
		Instructions: "Use it well.",
		Prompts:      []Prompt{{Name: "greet"}, {Name: "ask", Behaviour: Do(Elicit)}},
		Resources:    []Resource{{URI: "mem://a", Text: "alpha"}, {URI: "mem://b", Text: "beta"}},
		Templates:    []Template{{URITemplate: "file:///{+path}"}},
	}
	for _, k := range kinds {
		b := Behaviour{Kind: k, N: 3, URI: "mem://a"}
		switch k {
		case "":
			continue
		case Slow, Stubborn:
			b.For = time.Hour
		case Verbatim:
			b.Raw = `{"content":[],"big":9223372036854775807,"odd":"\ud800","dup":1,"dup":2, "a<b":1e2}`
		case Error:
			b.Raw = `{"code":-31999,"message":"no","data":{"n":9223372036854775807}}`
		}
		s.Tools = append(s.Tools, Tool{Name: string(k), Behaviour: b})
	}
	return s
}

func toolText(t *testing.T, result json.RawMessage) string {
	t.Helper()
	var r struct {
		Content []struct{ Text string }
	}
	if err := json.Unmarshal(result, &r); err != nil || len(r.Content) != 1 {
		t.Fatalf("no text in result %s (%v)", result, err)
	}
	return r.Content[0].Text
}

// modernMeta is the _meta of a modern request with all capabilities.
const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{},"roots":{}},"progressToken":"tok",` +
	`"io.modelcontextprotocol/logLevel":"info"}`

const initLine = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25",` +
	`"capabilities":{"elicitation":{},"sampling":{},"roots":{}},"clientInfo":{"name":"test","version":"1"}}}`
