package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

type tasksCmd struct {
	List   tasksListCmd   `cmd:"" default:"withargs" help:"List the tasks (the default)."`
	Show   tasksShowCmd   `cmd:"" help:"Show a task and what came of it."`
	Cancel tasksCancelCmd `cmd:"" help:"Cancel tasks. One that has ended stays as it is."`
}

// taskInfo is what the hub tells of a task.
type taskInfo struct {
	Task, Principal, Upstream, Tool, Status, Message string
	Created, Updated                                 time.Time
	InputRequests, Result, Error                     json.RawMessage
}

const tasksPath = "/api/v1/tasks"

type tasksListCmd struct {
	reach
	asJSON
}

func (c *tasksListCmd) Help() string {
	return "Where no hub runs, the tasks of the data folder are read from its store, and nothing is done about them."
}

func (c *tasksListCmd) Run(ctx context.Context, s std) error {
	raw, err := c.askKept(ctx, s, http.MethodGet, tasksPath, nil)
	if err != nil {
		return fmt.Errorf("list tasks: %w", err)
	}
	if c.JSON {
		return s.json(json.RawMessage(raw))
	}
	var list struct{ Tasks []taskInfo }
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("list tasks: %w", err)
	}
	if len(list.Tasks) == 0 {
		s.note("there are no tasks")
		return nil
	}
	var rows [][]cell
	for _, t := range list.Tasks {
		rows = append(rows, []cell{{text: t.Task}, {text: t.Upstream + ":" + t.Tool}, {text: t.Principal}, {text: t.Status}, {text: ago(t.Created)}, {text: t.Message}})
	}
	return s.table([]string{"TASK", "TOOL", "PRINCIPAL", "STATUS", "BEGAN", "MESSAGE"}, rows)
}

type tasksShowCmd struct {
	reach
	asJSON
	ID string `arg:"" name:"task" help:"Id of the task."`
}

func (c *tasksShowCmd) Run(ctx context.Context, s std) error {
	raw, err := c.askKept(ctx, s, http.MethodGet, tasksPath+"/"+url.PathEscape(c.ID), nil)
	if err != nil {
		return doing("show task", c.ID, err)
	}
	if c.JSON {
		return s.json(json.RawMessage(raw))
	}
	var shown struct{ Task taskInfo }
	if err := json.Unmarshal(raw, &shown); err != nil {
		return doing("show task", c.ID, err)
	}
	t := shown.Task
	fmt.Fprintf(s.out, "%s, %s:%s for %s: %s, begun %s, changed %s\n", t.Task, t.Upstream, t.Tool, t.Principal, t.Status, ago(t.Created), ago(t.Updated))
	if t.Message != "" {
		fmt.Fprintln(s.out, t.Message)
	}
	for _, part := range []json.RawMessage{t.InputRequests, t.Result, t.Error} {
		if part != nil {
			fmt.Fprintln(s.out, string(part))
		}
	}
	return nil
}

type tasksCancelCmd struct {
	reach
	IDs []string `arg:"" name:"task" help:"Ids of the tasks."`
}

func (c *tasksCancelCmd) Run(ctx context.Context, s std) error {
	var first error
	for _, id := range c.IDs {
		raw, err := c.askKept(ctx, s, http.MethodDelete, tasksPath+"/"+url.PathEscape(id), nil)
		var done struct{ Task taskInfo }
		if err == nil {
			err = json.Unmarshal(raw, &done)
		}
		switch {
		case err == nil:
			fmt.Fprintf(s.out, "%s is %s\n", id, done.Task.Status)
		case first == nil:
			first = doing("cancel task", id, err)
		default:
			s.note("cancel task %s: %v", id, err)
		}
	}
	return first
}
