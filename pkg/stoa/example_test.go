package stoa_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/stoahub/stoa/pkg/stoa"
)

func ExampleOpen() {
	ctx := context.Background()
	hub, err := stoa.Open(ctx, stoa.Config{
		Servers:      []stoa.Server{exampleServer("filesystem")}, // a Command with Args and Env, or a URL with Headers
		AutoDiscover: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer hub.Close()

	result, err := hub.CallTool(ctx, "filesystem", "read_file", map[string]any{"path": "/data/file.txt"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(hub.State("filesystem"), result.IsError, result.Text())

	for _, tool := range hub.Tools(stoa.FromMCP) {
		fmt.Println(tool.Name, "is offered to clients as", tool.Exposed)
	}
	// Output:
	// connected false the text of the file
	// mcp:filesystem:read_file is offered to clients as filesystem__read_file
	// mcp:filesystem:write_file is offered to clients as filesystem__write_file
}

func ExampleHub_AddTool() {
	ctx := context.Background()
	hub, err := stoa.Open(ctx, stoa.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer hub.Close()

	err = hub.AddTool(stoa.Tool{
		Name:        "add",
		Description: "Adds two numbers.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}`),
		Handler: func(ctx context.Context, args json.RawMessage) (any, error) {
			var in struct{ A, B float64 }
			if err := json.Unmarshal(args, &in); err != nil {
				return nil, err
			}
			return map[string]float64{"sum": in.A + in.B}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	result, err := hub.CallTool(ctx, stoa.Local, "add", map[string]int{"a": 2, "b": 3})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(result.Structured))
	// Output: {"sum":5}
}

func ExampleError() {
	ctx := context.Background()
	hub, err := stoa.Open(ctx, stoa.Config{Servers: []stoa.Server{exampleServer("filesystem")}, AutoDiscover: true})
	if err != nil {
		log.Fatal(err)
	}
	defer hub.Close()

	_, err = hub.CallTool(ctx, "filesystem", "read_fil", nil)
	if e, ok := errors.AsType[*stoa.Error](err); ok {
		fmt.Println(e.Kind)
		fmt.Println(e.Message)
		fmt.Println(e.Hint)
	}
	// Output:
	// unknown_tool
	// filesystem:read_fil: unknown tool
	// Did you mean filesystem__read_file?
}

func ExampleHub_RemoveByPrefix() {
	hub, err := stoa.Open(context.Background(), stoa.Config{Servers: []stoa.Server{exampleServer("filesystem")}, AutoDiscover: true})
	if err != nil {
		log.Fatal(err)
	}
	defer hub.Close()

	fmt.Println(hub.RemoveByPrefix("mcp:filesystem:"), "removed")
	fmt.Println(len(hub.Tools(stoa.FromMCP|stoa.FromLocal)), "left")
	// Output:
	// 2 removed
	// 0 left
}

func ExampleHub_Handler() {
	hub, err := stoa.Open(context.Background(), stoa.Config{Servers: []stoa.Server{exampleServer("filesystem")}, AutoDiscover: true})
	if err != nil {
		log.Fatal(err)
	}
	defer hub.Close()

	mux := http.NewServeMux()
	mux.Handle("/hub/", http.StripPrefix("/hub", hub.Handler())) // clients connect to http://…/hub/mcp
	server := httptest.NewServer(mux)
	defer server.Close()

	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"filesystem__read_file","arguments":{"path":"/data/file.txt"}}}`
	resp, err := server.Client().Post(server.URL+"/hub/mcp", "application/json", strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Result struct{ Content []struct{ Text string } }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Result.Content[0].Text)
	// Output: the text of the file
}

func ExampleLoadConfig() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "app.yaml")
	text := `
mcp:
  servers:
    - id: filesystem
      command: mcp-server-filesystem
      args: ["--root", "/data"]
      env: []
  auto_discover: false
  pool:
    max_idle_time: 5m
    cleanup_interval: 1m
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		log.Fatal(err)
	}
	config, err := stoa.LoadConfig(path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(config.Servers, config.AutoDiscover, config.Pool.MaxIdle, config.Pool.Sweep)
	// Output: [filesystem (mcp-server-filesystem)] false 5m0s 1m0s
}
