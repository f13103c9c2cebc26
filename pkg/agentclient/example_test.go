package agentclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/stoahub/stoa/pkg/agentclient"
)

// exampleRouter stands for a hub with one agent, greeter.
func exampleRouter() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Params struct {
				Name      string
				Arguments struct{ Name string }
			}
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		w.Header().Set("Content-Type", "application/json")
		if m.Params.Name != "greet" {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32002,"message":"greeter: 100 calls wait already","data":{"kind":"queue_full","hint":"Call again later.","retryable":true}}}`, m.ID)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"Hello, %s!"}]}}`, m.ID, m.Params.Arguments.Name)
	}))
}

func ExampleClient_CallTool() {
	router := exampleRouter()
	defer router.Close()
	c, err := agentclient.New(agentclient.Options{URL: router.URL}) // without a URL: ROUTER_HOST and ROUTER_PORT
	if err != nil {
		log.Fatal(err)
	}
	result, err := c.CallTool(context.Background(), "greeter", "greet", map[string]any{"name": "Ada"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Text())
	// Output: Hello, Ada!
}

func ExampleError() {
	router := exampleRouter()
	defer router.Close()
	c, err := agentclient.New(agentclient.Options{URL: router.URL})
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.CallTool(context.Background(), "greeter", "sing", nil)
	if e, ok := errors.AsType[*agentclient.Error](err); ok {
		fmt.Println(e.Code, e.Kind, e.Retryable)
		fmt.Println(e.Message)
	}
	// Output:
	// -32002 queue_full true
	// greeter: 100 calls wait already
}

// An agent that serves MCP hands the chain of the request it serves to the
// calls it makes.
func ExampleWithChain() {
	meta := json.RawMessage(`{"stoa/chain": "stoac1.…", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`)

	router := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Params struct {
				Meta map[string]any `json:"_meta"`
			}
		}
		text, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(text, &m)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%v"}]}}`, m.ID, m.Params.Meta["stoa/chain"])
	}))
	defer router.Close()
	c, err := agentclient.New(agentclient.Options{URL: router.URL})
	if err != nil {
		log.Fatal(err)
	}
	ctx := agentclient.WithChain(context.Background(), agentclient.FromMeta(meta))
	result, err := c.CallTool(ctx, "builder", "build", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the call carries", result.Text())
	// Output: the call carries stoac1.…
}
