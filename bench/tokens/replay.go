package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// replay is an MCP server that answers as another was recorded to. Calls must
// come in the recorded order, with the recorded arguments.
type replay struct {
	tools json.RawMessage

	mu   sync.Mutex
	left []exchange
}

func newReplay(server string, of []exchange) (*replay, error) {
	r := &replay{}
	for _, x := range of {
		if x.Server == server {
			r.left = append(r.left, x)
		}
	}
	var err error
	r.tools, err = definitions(server)
	return r, err
}

func (p *replay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name      string
			Arguments json.RawMessage
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost || json.Unmarshal(body, &ask) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if ask.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	member, answer := "result", json.RawMessage(nil)
	switch ask.Method {
	case "initialize":
		answer = json.RawMessage(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"replay","version":"1"}}`)
	case "tools/list":
		answer = append(append([]byte(`{"tools":`), p.tools...), '}')
	case "tools/call":
		if answer, err = p.call(ask.Params.Name, ask.Params.Arguments); err != nil {
			member, answer = "error", failure(-32603, err.Error())
		}
	default:
		member, answer = "error", failure(-32601, "not recorded")
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%q:%s}`, ask.ID, member, answer)
}

func failure(code int, text string) json.RawMessage {
	b, _ := json.Marshal(map[string]any{"code": code, "message": text}) // these are always JSON
	return b
}

func (p *replay) call(tool string, args json.RawMessage) (json.RawMessage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.left) == 0 {
		return nil, fmt.Errorf("%s was called, but no call was recorded any more", tool)
	}
	next := p.left[0]
	same, err := sameJSON(args, next.Arguments)
	if err != nil {
		return nil, err
	}
	if tool != next.Tool || !same {
		return nil, fmt.Errorf("%s was called with %.500s, but recorded was %s with %.500s", tool, args, next.Tool, next.Arguments)
	}
	p.left = p.left[1:]
	return next.Result, nil
}

// done says whether all calls came.
func (p *replay) done() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.left) > 0 {
		return fmt.Errorf("%d recorded calls were not made, the first of them %s", len(p.left), p.left[0].Tool)
	}
	return nil
}

// sameJSON compares what two JSON values mean, but for the look of numbers.
func sameJSON(a, b []byte) (bool, error) {
	var both [2][]byte
	for i, raw := range [][]byte{a, b} {
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			return false, err
		}
		var err error
		if both[i], err = json.Marshal(v); err != nil {
			return false, err
		}
	}
	return bytes.Equal(both[0], both[1]), nil
}
