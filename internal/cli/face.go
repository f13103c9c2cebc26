package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"

	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// faceFlags choose between the merged face, that of a session and that of one
// server.
type faceFlags struct {
	Agent   string `help:"Ask this agent by itself, under the names it gives." placeholder:"NAME"`
	Session string `help:"Work in the session of this name: with its values and what is switched on in it." placeholder:"NAME"`
}

func (f *faceFlags) path() string {
	switch {
	case f.Agent != "":
		return "/mcps/" + url.PathEscape(f.Agent) + "/mcp"
	case f.Session != "":
		return "/s/" + url.PathEscape(f.Session) + "/mcp"
	}
	return "/mcp"
}

// check says what is wrong with the flags.
func (f *faceFlags) check() error {
	switch {
	case f.Session == "":
		return nil
	case f.Agent != "":
		return failed(exitUsage, "Leave one of them out.", "--agent and --session exclude each other: an agent by itself has no sessions")
	}
	return checkSession(f.Session)
}

// dial opens the face, and the hub before it.
func (f *faceFlags) dial(ctx context.Context, s std, r *reach, only string) (*client, *face, error) {
	if err := f.check(); err != nil {
		return nil, nil, err
	}
	if f.Agent != "" {
		only = f.Agent
		routed(r)
	}
	open := r.open
	if f.Session != "" {
		open = r.keeping
	}
	c, err := open(ctx, s, only)
	if err != nil {
		return nil, nil, err
	}
	conn, err := c.dial(ctx, f.path())
	if err != nil {
		c.close()
		return nil, nil, err
	}
	return c, conn, nil
}

// routed lets the variables by which agents find their router name the hub.
func routed(r *reach) {
	host, port := os.Getenv("ROUTER_HOST"), os.Getenv("ROUTER_PORT")
	if r.Hub != "" || host == "" && port == "" {
		return
	}
	if host == "" {
		host = "localhost"
	}
	if port == "" {
		port = "8088"
	}
	r.Hub = "http://" + host + ":" + port
	if r.Token == "" {
		r.Token = os.Getenv(hubTokenVariable)
	}
}

// face is a connection to one face of a hub.
type face struct{ mcp.Conn }

// ask sends a request and returns the result, which is the caller's.
func (f *face) ask(ctx context.Context, o *mcp.Outgoing) ([]byte, error) {
	resp, err := f.Call(ctx, o)
	if err != nil {
		return nil, lost(ctx, err)
	}
	defer resp.Release()
	if resp.Error != nil {
		return nil, refusal(resp.Error)
	}
	return append([]byte(nil), resp.Result...), nil
}

// request makes a request with params from a value.
func request(method string, params any) (*mcp.Outgoing, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	return &mcp.Outgoing{Method: method, Raw: raw, Fields: wire.Members(raw)}, nil
}

// maxPages bounds a list whose cursors never end.
const maxPages = 1000

// list reads all pages of a list: its items as they came.
func (f *face) list(ctx context.Context, method, member string) ([]json.RawMessage, error) {
	all := []json.RawMessage{}
	params := map[string]string{}
	for range maxPages {
		o, err := request(method, params)
		if err != nil {
			return nil, err
		}
		if method == "tools/list" { // people see what they can call, whatever models are offered
			o.Annotate(mcp.MetaAll, []byte("true"))
		}
		result, err := f.ask(ctx, o)
		if err != nil {
			return nil, err
		}
		items, ok := wire.Elements(wire.Get(result, member))
		if !ok {
			return nil, errors.New("the answer to " + method + " has no " + member)
		}
		for _, it := range items {
			all = append(all, it)
		}
		cursor, more := wire.String(wire.Get(result, "nextCursor"))
		if !more {
			return all, nil
		}
		params["cursor"] = cursor
	}
	return nil, errors.New("the answer to " + method + " does not end")
}

const unknownMethod = -32601

// offered is like list, but a server that has no such list has an empty one.
func (f *face) offered(ctx context.Context, method, member string) ([]json.RawMessage, error) {
	all, err := f.list(ctx, method, member)
	if missing, ok := errors.AsType[*failure](err); ok && missing.rpc == unknownMethod {
		return []json.RawMessage{}, nil
	}
	return all, err
}
