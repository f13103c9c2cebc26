package call

import (
	"context"
	"strings"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/upstream"
	"github.com/stoahub/stoa/internal/wire"
)

// A modern upstream may answer with a task of its own. Its client is given the
// upstream's name, a dot, and the upstream's id with whose it is, signed: so
// any hub with the key knows where it belongs, and nobody else can use it.

// foreign is what a signed id says.
type foreign struct {
	ID        string `json:"i"`
	Principal string `json:"p"`
}

// adopt gives the task that an upstream answered with an id of ours.
func (k *Tasks) adopt(c *Call, resp mcp.Response) (mcp.Response, error) {
	own, ok := wire.String(wire.Get(resp.Result, "taskId"))
	if !ok {
		return mcp.Response{}, fault.New(fault.UpstreamLost, c.Upstream.Name(), "the upstream answered with a task that has no taskId")
	}
	id, err := k.door.key.Sign(c.Upstream.Name()+".", foreign{own, c.Req.Client.Actor.Name()})
	if err != nil {
		return mcp.Response{}, fault.New(fault.Internal, c.Upstream.Name(), "the task's id could not be signed").Because(err)
	}
	return renamed(resp, id), nil
}

// renamed is an answer about a task with another id.
func renamed(resp mcp.Response, id string) mcp.Response {
	out := wire.Edit(nil, resp.Result, wire.Change{Name: "taskId", Value: wire.Quote(id)})
	resp.Release()
	return mcp.Response{Result: out}
}

// open returns the upstream and its own id of a task.
func (k *Tasks) open(c *mcp.Client, agent, id string) (*upstream.Upstream, string, error) {
	name, _, _ := strings.Cut(id, ".")
	var f foreign
	err := k.door.key.Open(name+".", id, &f)
	u := k.opts.Pool.Get(name)
	if err != nil || f.Principal != c.Actor.Name() || u == nil || agent != "" && agent != name || !c.Actor.InScope(name) {
		_, err := k.kept.Get("", "")
		return nil, "", err
	}
	return u, f.ID, nil
}

// pass passes a request about an upstream's task on.
func (k *Tasks) pass(ctx context.Context, req *mcp.Request, agent, id string) (mcp.Response, error) {
	u, own, err := k.open(req.Client, agent, id)
	if err != nil {
		return mcp.Response{}, err
	}
	resp, err := k.door.Do(ctx, &Call{Req: req, Upstream: u, Rename: "taskId", Name: own, Tasks: true})
	if err != nil || wire.Get(resp.Result, "taskId") == nil {
		return resp, err
	}
	return renamed(resp, id), nil
}
