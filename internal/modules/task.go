package modules

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// TaskName is the name of the module that runs tools as tasks.
const TaskName = "task"

// maxWait is how long task_result may be told to wait.
const maxWait = time.Minute

// Task returns the module that runs tools as tasks, for clients that do not
// know the protocol's extension. tool makes of a request the call that it is
// about.
func Task(tasks *call.Tasks, tool func(context.Context, *mcp.Request) (*call.Call, error)) *Module {
	m := taskModule{tasks, tool}
	const idArg = `"task":{"type":"string"}`
	return New(TaskName, "A tool that takes long can be run by task_start, which answers at once; task_status and task_result tell what became of it, also after the connection was lost.", nil,
		Tool{Name: "task_start", Title: "Start a task", Run: m.start, Destructive: true, // whatever it calls may be
			Description: "Call a tool in the background and answer at once with the id of a task, which outlives this connection. Use it for tools that take long.",
			Input: `{"type":"object","required":["tool"],"additionalProperties":false,"properties":{
				"tool":{"type":"string"},
				"arguments":{"type":"object"},
				"priority":{"enum":["high","normal","low"]},
				"timeoutMs":{"type":"integer","minimum":1,"maximum":3600000},
				"saveAs":{"type":"string","description":"Keep the result as @name."}}}`},
		Tool{Name: "task_status", Title: "How a task stands", Run: m.status, ReadOnly: true,
			Description: "Tell how a task stands: working, input_required, completed, failed or cancelled.",
			Input:       `{"type":"object","required":["task"],"additionalProperties":false,"properties":{` + idArg + `}}`},
		Tool{Name: "task_result", Title: "The result of a task", Run: m.result, ReadOnly: true,
			Description: "Return what a task's tool answered, if it has ended.",
			Input: `{"type":"object","required":["task"],"additionalProperties":false,"properties":{` + idArg + `,
				"waitMs":{"type":"integer","minimum":0,"maximum":` + strconv.FormatInt(maxWait.Milliseconds(), 10) + `,"description":"Wait so long for its end."}}}`},
		Tool{Name: "task_cancel", Title: "Cancel a task", Run: m.cancel, Idempotent: true, Destructive: true,
			Description: "End a task.",
			Input:       `{"type":"object","required":["task"],"additionalProperties":false,"properties":{` + idArg + `}}`},
	)
}

type taskModule struct {
	tasks *call.Tasks
	tool  func(context.Context, *mcp.Request) (*call.Call, error)
}

type taskArgs struct {
	Task      string `json:"task"`
	Tool      string `json:"tool"`
	Priority  string `json:"priority"`
	TimeoutMs int64  `json:"timeoutMs"`
	SaveAs    string `json:"saveAs"`
	WaitMs    int64  `json:"waitMs"`
}

func (m taskModule) start(ctx context.Context, req *mcp.Request, raw json.RawMessage) (any, error) {
	a, err := decode[taskArgs](raw)
	if err != nil {
		return nil, err
	}
	c, err := m.tool(ctx, m.request(req, a, wire.Get(raw, "arguments")))
	if err != nil {
		return nil, err
	}
	if c.Upstream.Name() == TaskName {
		return nil, &fault.Error{Kind: fault.InvalidArguments, Subject: a.Tool, Msg: "a task cannot be about tasks", Hint: "Call the tool itself."}
	}
	t, err := m.tasks.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return m.answer(ctx, req, t.ID(), false, "started; ask for its result with task_result")
}

// request is the call that a task is to make, on behalf of who starts it.
func (m taskModule) request(outer *mcp.Request, a taskArgs, args []byte) *mcp.Request {
	if args == nil {
		args = []byte("{}")
	}
	params := append(wire.AppendString([]byte(`{"name":`), a.Tool), `,"arguments":`...)
	params = append(append(params, args...), '}')
	about := []wire.Change{{Name: "progressToken"}}
	for _, f := range outer.Meta {
		// Which era this is and who asks is said anew: nobody can be asked.
		if bytes.HasPrefix(f.Name, []byte("io.modelcontextprotocol/")) {
			about = append(about, wire.Change{Name: string(f.Name)})
		}
	}
	if a.Priority != "" {
		about = append(about, wire.Change{Name: call.MetaPriority, Value: wire.Quote(a.Priority)})
	}
	if a.TimeoutMs > 0 {
		about = append(about, wire.Change{Name: call.MetaTimeout, Value: strconv.AppendInt(nil, a.TimeoutMs, 10)})
	}
	if a.SaveAs != "" {
		about = append(about, wire.Change{Name: call.MetaSaveAs, Value: wire.Quote(a.SaveAs)})
	}
	if meta := wire.EditFields(nil, outer.Meta, about...); len(meta) > len("{}") {
		params = wire.Edit(nil, params, wire.Change{Name: "_meta", Value: meta})
	}
	client := &mcp.Client{Era: outer.Client.Era, Connection: outer.Client.Connection, Info: outer.Client.Info, Capabilities: []byte("{}"), Actor: outer.Client.Actor}
	if client.Era == mcp.Legacy {
		client.Version = outer.Client.Version
	}
	req := &mcp.Request{Method: "tools/call", Params: params, Fields: wire.Members(params), Client: client, Asked: outer.Asked, Stream: mcp.Discard}
	req.Meta = wire.Members(req.Param("_meta"))
	return req
}

func (m taskModule) status(ctx context.Context, req *mcp.Request, raw json.RawMessage) (any, error) {
	a, err := decode[taskArgs](raw)
	if err != nil {
		return nil, err
	}
	return m.answer(ctx, req, a.Task, false, "")
}

func (m taskModule) result(ctx context.Context, req *mcp.Request, raw json.RawMessage) (any, error) {
	a, err := decode[taskArgs](raw)
	if err != nil {
		return nil, err
	}
	if err := m.wait(ctx, req, a); err != nil {
		return nil, err
	}
	return m.answer(ctx, req, a.Task, true, "")
}

// wait waits for the end of a task as long as it may.
func (m taskModule) wait(ctx context.Context, req *mcp.Request, a taskArgs) error {
	t, err := m.tasks.Find(req.Client, a.Task)
	if err != nil {
		return err
	}
	late := time.NewTimer(min(time.Duration(a.WaitMs)*time.Millisecond, maxWait))
	defer late.Stop()
	for {
		changed := t.Changed()
		if s := t.State(); s.Status.Final() {
			return nil
		}
		select {
		case <-changed:
		case <-late.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (m taskModule) cancel(ctx context.Context, req *mcp.Request, raw json.RawMessage) (any, error) {
	a, err := decode[taskArgs](raw)
	if err != nil {
		return nil, err
	}
	t, err := m.tasks.Find(req.Client, a.Task)
	if err != nil {
		return nil, err
	}
	if err := t.Cancel(ctx, "cancelled by its client"); err != nil {
		return nil, err
	}
	return m.answer(ctx, req, a.Task, false, "")
}

// answer says how a task stands, and with whole also what came of it.
func (m taskModule) answer(ctx context.Context, req *mcp.Request, id string, whole bool, text string) (any, error) {
	t, err := m.tasks.Find(req.Client, id)
	if err != nil {
		return nil, err
	}
	d, err := t.Detail(ctx)
	if err != nil {
		return nil, err
	}
	if text == "" {
		text = "the task is " + string(d.Status)
	}
	body := append(append([]byte{'{'}, d.JSON(whole)...), '}')
	changes := []wire.Change{{Name: "taskId"}, {Name: "_meta"}}
	if d.Reached != "" {
		changes = append(changes, wire.Change{Name: "progress", Value: []byte(d.Reached)})
	}
	body = wire.Edit(nil, body, changes...)
	data := append(wire.AppendString(append(wire.AppendString([]byte(`{"task":`), id), `,"tool":`...), d.Work.Shown), ',')
	return Answer{Data: json.RawMessage(append(data, body[1:]...)), Message: text}, nil
}
