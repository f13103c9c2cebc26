package call

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/task"
	"github.com/stoahub/stoa/internal/upstream"
	"github.com/stoahub/stoa/internal/wire"
)

// MetaKey is the member of _meta that tells an upstream which calls of a task
// are the same one, tried again.
const MetaKey = "stoa/idempotencyKey"

// Grace is how long a call that may become a task is waited for first.
const Grace = time.Second

// TaskOptions are what Tasks work with.
type TaskOptions struct {
	Door    *Door
	Pool    *upstream.Pool
	Catalog *catalog.Catalog
	Events  *event.Bus // nil: none
	Logger  *slog.Logger
	Grace   time.Duration // 0 means Grace
	TTL     time.Duration // 0 means an hour
	// Principal returns who has a name now, or nil if nobody does: a task
	// may be taken up again when its owner's token is gone.
	Principal Lookup
	Hub       string // see task.Options
	Before    string // see lease.Options
	// Store opens the store of a hub that mostly stores nothing, if OpenTasks
	// is given none.
	Store func(context.Context) (*store.Store, error)
}

// Tasks is the way to the door for calls that may outlive their request: it
// decides which become tasks, runs these, and passes on those of upstreams.
type Tasks struct {
	opts TaskOptions
	door *Door
	kept *task.Registry
	ctx  context.Context // ends with it
	stop context.CancelFunc
	wg   sync.WaitGroup
	ears ears
}

// OpenTasks reads the tasks that st holds. Nothing runs before Resume.
func OpenTasks(ctx context.Context, st *store.Store, o TaskOptions) (*Tasks, error) {
	if o.Grace == 0 {
		o.Grace = Grace
	}
	k := &Tasks{opts: o, door: o.Door}
	k.ctx, k.stop = context.WithCancel(context.Background())
	k.ears.init()
	var err error
	if k.kept, err = task.Open(ctx, st, task.Options{Run: k.run, TTL: o.TTL, Logger: o.Logger, Store: o.Store, Hub: o.Hub, Before: o.Before, Changed: k.changed}); err != nil {
		k.stop()
		return nil, err
	}
	o.Pool.Hear(k.heard)
	k.wg.Go(k.tell)
	return k, nil
}

// Resume takes up what was not finished when the hub ended.
func (k *Tasks) Resume() { k.kept.Resume() }

// Close ends what runs. It is called while upstreams can still be told so.
func (k *Tasks) Close() {
	k.kept.Close()
	k.stop()
	k.wg.Wait()
}

// Kept are the tasks.
func (k *Tasks) Kept() *task.Registry { return k.kept }

// Do makes a call, or answers with a task in its place.
func (k *Tasks) Do(ctx context.Context, c *Call) (mcp.Response, error) {
	// A call that the hub makes for another, such as one of a batch, is waited
	// for: its request has no id.
	if c.Req.Method != "tools/call" || c.Req.ID == nil {
		return k.door.Do(ctx, c)
	}
	if !c.Req.Client.Tasks() {
		if mode(c) == catalog.TaskMust {
			return mcp.Response{}, mcp.NeedsTasks(c.Req.Client)
		}
		return k.door.Do(ctx, c)
	}
	switch mode(c) {
	case catalog.TaskAlways, catalog.TaskMust:
		if err := k.door.check(ctx, c); err != nil {
			return mcp.Response{}, err
		}
		t, err := k.kept.Create(ctx, k.work(c, k.begun(ctx, c)), bytes.Clone(c.Req.Params), false, nil)
		if err != nil {
			return mcp.Response{}, err
		}
		k.created(t)
		return made(t), nil
	case catalog.TaskSlow:
		return k.patient(ctx, c)
	}
	c.Tasks = true
	resp, err := k.door.Do(ctx, c)
	if err != nil || !isTask(resp.Result) {
		return resp, err
	}
	return k.adopt(c, resp)
}

// mode says whether a call becomes a task.
func mode(c *Call) catalog.Task {
	if c.Item != nil {
		return c.Item.Handling.Task
	}
	name, _ := c.Req.Text("name")
	return c.Upstream.Handling(name).Task
}

// check refuses what the door would refuse.
func (d *Door) check(ctx context.Context, c *Call) error {
	return d.admit(ctx, c, &toolCall{dry: true})
}

// face is what it takes to make a call again that came by some face, on behalf
// of a client that may have gone.
type face struct {
	Era          mcp.Era         `json:"era"`
	Version      string          `json:"version,omitempty"`
	Connection   string          `json:"connection,omitempty"`
	Info         json.RawMessage `json:"info,omitempty"`
	Capabilities json.RawMessage `json:"capabilities,omitempty"`
	Check        bool            `json:"check,omitempty"` // the face is a merged one
	Kept         bool            `json:"kept,omitempty"`
	References   bool            `json:"references,omitempty"`
	Stateful     bool            `json:"stateful,omitempty"`
	Cards        bool            `json:"cards,omitempty"`
	Told         bool            `json:"told,omitempty"`
	Actor        *actor.Record   `json:"actor,omitempty"` // on whose behalf; nil in what older versions wrote
	Trace        obs.Parent      `json:"trace,omitzero"`  // what it is part of
}

// work says what the task of a call is to do, as a part of a trace.
func (k *Tasks) work(c *Call, trace obs.Parent) task.Work {
	client := c.Req.Client
	f := face{
		Era: client.Era, Version: client.Version, Connection: client.Connection, Info: bytes.Clone(client.Info), Capabilities: bytes.Clone(client.Capabilities),
		Check: c.Check, Kept: c.Kept, References: c.References, Stateful: c.Stateful, Cards: c.Cards, Told: c.Told, Actor: client.Actor.By(actor.ByTask()).Record(), Trace: trace,
	}
	extra, err := json.Marshal(f)
	if err != nil {
		panic("call: encode the face of a task: " + err.Error()) // raw members came out of a message that was scanned
	}
	shown, _ := c.Req.Text("name")
	w := task.Work{
		Principal: client.Actor.Name(), Session: c.Req.Session, Upstream: c.Upstream.Name(), Tool: shown, Shown: shown,
		Key: strings.ToLower(rand.Text()), Extra: extra,
	}
	if c.Item != nil {
		w.Tool, w.Repeat = c.Item.Name, c.Item.Idempotent || c.Item.Handling.Keyed
	}
	return w
}

// made is the answer that a task was made.
func made(t *task.Task) mcp.Response {
	d := task.Detail{State: t.State()}
	// What has become of it meanwhile is for tasks/get to say.
	d.Status, d.Message, d.Updated = task.Working, "", d.Created
	return mcp.Response{Result: append(append([]byte(`{"resultType":"task",`), d.JSON(false)...), '}')}
}

func isTask(result []byte) bool {
	return wire.Contains(result, `"task"`, 4) && string(wire.Get(result, "resultType")) == `"task"`
}

// Start makes a task of a call for a client that does not know them. The
// request is one of ours, with the client's capabilities taken out: nobody can
// be asked.
func (k *Tasks) Start(ctx context.Context, c *Call) (*task.Task, error) {
	if err := k.door.check(ctx, c); err != nil {
		return nil, err
	}
	t, err := k.kept.Create(ctx, k.work(c, k.begun(ctx, c)), bytes.Clone(c.Req.Params), false, nil)
	if err == nil {
		k.created(t)
	}
	return t, err
}

// Find returns a task of a client's principal.
func (k *Tasks) Find(c *mcp.Client, id string) (*task.Task, error) { return k.find(c, "", id) }

// Handle answers the methods of the extension. agent is the only upstream
// whose tasks there are here; empty means all.
func (k *Tasks) Handle(ctx context.Context, req *mcp.Request, agent string) (mcp.Response, error) {
	switch {
	case req.Client.Era != mcp.Modern, req.Method != "tasks/get" && req.Method != "tasks/update" && req.Method != "tasks/cancel":
		return mcp.Response{}, fault.New(fault.UnknownMethod, "", "method %q is not offered here", req.Method)
	}
	if err := mcp.NeedsTasks(req.Client); err != nil {
		return mcp.Response{}, err
	}
	id, ok := req.Text("taskId")
	if !ok {
		return mcp.Response{}, fault.New(fault.InvalidParams, req.Method, "taskId is missing or not a string")
	}
	if strings.Contains(id, ".") {
		return k.pass(ctx, req, agent, id)
	}
	t, err := k.find(req.Client, agent, id)
	if err != nil {
		return mcp.Response{}, err
	}
	done := mcp.Response{Result: []byte(`{"resultType":"complete"}`)}
	switch req.Method {
	case "tasks/update":
		answers := req.Param("inputResponses")
		if len(answers) == 0 || answers[0] != '{' {
			return mcp.Response{}, fault.New(fault.InvalidParams, req.Method, "inputResponses is missing or not an object")
		}
		return done, t.Update(ctx, wire.Members(answers))
	case "tasks/cancel":
		return done, t.Cancel(ctx, "cancelled by its client")
	}
	d, err := t.Detail(ctx)
	if err != nil {
		return mcp.Response{}, err
	}
	return mcp.Response{Result: append(append([]byte(`{"resultType":"complete",`), d.JSON(true)...), '}')}, nil
}

// find returns a task of ours that a client may see.
func (k *Tasks) find(c *mcp.Client, agent, id string) (*task.Task, error) {
	t, err := k.kept.Get(c.Actor.Name(), id)
	if err != nil {
		return nil, err
	}
	up := t.State().Work.Upstream
	if agent != "" && agent != up || !c.Actor.InScope(up) {
		return k.kept.Get("", "")
	}
	return t, nil
}
