package agentclient

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// era is one of the two generations of the protocol.
type era int

const (
	modern era = iota + 1 // 2026-07-28: every request stands alone
	legacy                // 2025-11-25 and before, here without a session
)

const (
	modernVersion = "2026-07-28"
	legacyVersion = "2025-11-25"
	metaPrefix    = "io.modelcontextprotocol/"
	codeHeaders   = -32020
)

// message is what a router sends.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

// exchange makes one HTTP request and returns the result that answers it.
func (c *Client) exchange(ctx context.Context, e era, a ask) (json.RawMessage, error) {
	id := strconv.FormatInt(c.next.Add(1), 10)
	body, name, err := c.body(ctx, e, a, id)
	if err != nil {
		return nil, lost(a.agent, a.method, 0, err, "encode the request: %v", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL(a.agent), bytes.NewReader(body))
	if err != nil {
		return nil, lost(a.agent, a.method, 0, err, "%v", err)
	}
	c.headers(req.Header, e, a.method, name)
	resp, err := c.opt.HTTPClient.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, lost(a.agent, a.method, 0, err, "the router at %s cannot be asked: %v", c.base.Redacted(), err)
	}
	defer resp.Body.Close()
	m, err := c.answer(resp, id, a)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, lost(a.agent, a.method, resp.StatusCode, context.Cause(ctx), "%v", context.Cause(ctx))
	case err != nil:
		return nil, lost(a.agent, a.method, resp.StatusCode, err, "%v", err)
	case m.Error != nil:
		said := refused(a.agent, a.method, resp.StatusCode, m.Error)
		said.era = e
		return nil, said
	}
	return m.Result, nil
}

// body encodes a request. name is what it is about, for the header of it.
func (c *Client) body(ctx context.Context, e era, a ask, id string) (body []byte, name string, err error) {
	params := map[string]json.RawMessage{}
	if a.params != nil {
		raw, err := json.Marshal(a.params)
		if err != nil {
			return nil, "", err
		}
		if err := json.Unmarshal(raw, &params); err != nil || params == nil {
			return nil, "", errors.New("the params are no JSON object")
		}
	}
	meta := map[string]any{}
	if raw := params["_meta"]; raw != nil {
		if err := json.Unmarshal(raw, &meta); err != nil || meta == nil {
			return nil, "", errors.New("_meta is no JSON object")
		}
	}
	for k, v := range a.meta {
		meta[k] = v
	}
	chain, ok := ctx.Value(chainKey{}).(Chain)
	if !ok {
		chain = c.chain
	}
	chain.add(meta)
	if a.progress != nil {
		meta["progressToken"] = id
	}
	if e == modern {
		meta[metaPrefix+"protocolVersion"] = modernVersion
		meta[metaPrefix+"clientInfo"] = map[string]string{"name": c.opt.Name, "version": "1"}
		meta[metaPrefix+"clientCapabilities"] = struct{}{}
	}
	if len(meta) > 0 {
		if params["_meta"], err = json.Marshal(meta); err != nil {
			return nil, "", err
		}
	}
	switch a.method {
	case "tools/call", "prompts/get":
		err = json.Unmarshal(params["name"], &name)
	case "resources/read":
		err = json.Unmarshal(params["uri"], &name)
	}
	if err != nil {
		return nil, "", errors.New(a.method + " does not name what it asks for")
	}
	body, err = json.Marshal(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "method": a.method, "params": params})
	return body, name, err
}

func (c *Client) headers(h http.Header, e era, method, name string) {
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json, text/event-stream")
	if c.opt.Token != "" {
		h.Set("Authorization", "Bearer "+c.opt.Token)
	}
	if e == legacy {
		h.Set("Mcp-Protocol-Version", legacyVersion)
		return
	}
	h.Set("Mcp-Protocol-Version", modernVersion)
	h.Set("Mcp-Method", method)
	if name != "" {
		h.Set("Mcp-Name", headerValue(name))
	}
}

// headerValue is s as a header can carry it.
func headerValue(s string) string {
	plain := s == strings.TrimSpace(s) && !strings.HasPrefix(s, "=?base64?")
	for i := 0; i < len(s) && plain; i++ {
		plain = s[i] >= 0x20 && s[i] <= 0x7e
	}
	if plain {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}

// answer reads the message that answers request id.
func (c *Client) answer(resp *http.Response, id string, a ask) (*message, error) {
	body := &bounded{r: resp.Body, left: c.opt.MaxBytes}
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if resp.StatusCode == http.StatusOK && strings.TrimSpace(kind) == "text/event-stream" {
		return events(body, id, a.progress)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	var m message
	if err := json.Unmarshal(text, &m); err != nil || m.Result == nil && m.Error == nil {
		return nil, errors.New("the answer is no JSON-RPC message but status " + resp.Status + ": " + string(text[:min(len(text), 200)]))
	}
	if m.Error == nil && string(m.ID) != id {
		return nil, errors.New("the answer is that to another request, " + string(m.ID[:min(len(m.ID), 50)]))
	}
	return &m, nil
}

// errTooLong is the answer's fault, and ends the call.
var errTooLong = errors.New("the answer is longer than MaxBytes")

// bounded reads at most left bytes.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLong
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return n, errTooLong
	}
	return n, err
}
