package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
)

// row is what a conversation costs both ways.
type row struct {
	conversation
	plain, handles cost
}

// cost is what a model is sent and writes in one conversation.
type cost struct {
	calls   int
	tools   int // the definitions of the tools, sent with each request
	written int // by the model: the calls
	resent  int // calls and results, each counted in every later request
	sent    int // all that the model is sent: these and the definitions
}

func (c *cost) add(other cost) {
	c.calls += other.calls
	c.written += other.written
	c.resent += other.resent
	c.sent += other.sent
}

func measureAll(ctx context.Context) ([]row, error) {
	var rows []row
	for _, c := range conversations {
		r := row{conversation: c}
		exchanges, err := recorded(c.name)
		if err != nil {
			return nil, err
		}
		var plain []step
		for _, x := range exchanges {
			plain = append(plain, step{x.Server, x.Tool, string(x.Arguments)})
		}
		// A hub that nobody wants to keep anything has no tools for it either.
		if r.plain, err = play(ctx, c, exchanges, "/mcp", plain, config.Modules{}); err != nil {
			return nil, fmt.Errorf("conversation %s without handles: %w", c.name, err)
		}
		if r.handles, err = play(ctx, c, exchanges, "/s/"+c.name+"/mcp", c.steps, config.Default().Modules); err != nil {
			return nil, fmt.Errorf("conversation %s with handles: %w", c.name, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// play has the steps made through a hub of its own.
func play(ctx context.Context, c conversation, exchanges []exchange, face string, steps []step, modules config.Modules) (cost, error) {
	cfg := config.Default()
	cfg.Modules = modules
	var replays []*replay
	for _, name := range c.servers {
		r, err := newReplay(name, exchanges)
		if err != nil {
			return cost{}, err
		}
		replays = append(replays, r)
		upstream := httptest.NewServer(r)
		defer upstream.Close()
		s := config.DefaultServer()
		s.Name, s.Title, s.URL = name, name, upstream.URL+"/mcp"
		cfg.Servers = append(cfg.Servers, s)
	}
	h, err := hub.Open(hub.Options{Config: &cfg, Temporary: true})
	if err != nil {
		return cost{}, err
	}
	defer h.Close()
	handler, err := h.Handler(true)
	if err != nil {
		return cost{}, err
	}
	front := httptest.NewServer(handler)
	defer front.Close()
	settled, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	h.Settle(settled)
	out, err := (&host{client: front.Client(), url: front.URL + face}).converse(settled, steps)
	for _, r := range replays {
		err = errors.Join(err, r.done())
	}
	return out, err
}

// host is a client as those are that have a model.
type host struct {
	client *http.Client
	url    string
}

func (h *host) converse(ctx context.Context, steps []step) (cost, error) {
	c := cost{calls: len(steps)}
	var err error
	if c.tools, err = h.tools(ctx); err != nil {
		return c, err
	}
	for i, s := range steps {
		name := s.tool
		if s.server != "" {
			name = s.server + "__" + s.tool
		}
		call := fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, name, s.args)
		var result struct {
			Content json.RawMessage
			IsError bool
		}
		if err := h.ask(ctx, "tools/call", call, &result); err != nil {
			return c, fmt.Errorf("step %d, %s: %w", i+1, name, err)
		}
		if result.IsError {
			return c, fmt.Errorf("step %d, %s: %.800s", i+1, name, result.Content)
		}
		c.written += len(call)
		c.resent += (len(call) + len(result.Content)) * (len(steps) - i)
	}
	// The model is asked for each call, and then for its answer.
	c.sent = c.resent + (len(steps)+1)*c.tools
	return c, nil
}

// tools returns how long the definitions are of which a model is told: names,
// descriptions and schemas of arguments.
func (h *host) tools(ctx context.Context) (int, error) {
	var list struct {
		Tools []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			InputSchema json.RawMessage `json:"inputSchema"`
		}
		NextCursor string
	}
	if err := h.ask(ctx, "tools/list", []byte("{}"), &list); err != nil {
		return 0, fmt.Errorf("list the tools: %w", err)
	}
	if list.NextCursor != "" {
		return 0, errors.New("list the tools: there are more pages, which are not counted")
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(list.Tools)
	return b.Len(), err
}

func (h *host) ask(ctx context.Context, method string, params []byte, into any) error {
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := h.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var answer struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("HTTP %d: %w: %.300s", resp.StatusCode, err, text)
	}
	if answer.Error != nil {
		return fmt.Errorf("%s", answer.Error)
	}
	return json.Unmarshal(answer.Result, into)
}
