package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/policy"
)

type approvalsCmd struct {
	List       approvalsListCmd       `cmd:"" default:"withargs" help:"List the calls that wait for an approval (the default)."`
	Watch      approvalsWatchCmd      `cmd:"" help:"Be there to be asked: show each call that needs an approval, and take the answer."`
	Approve    approvalsApproveCmd    `cmd:"" help:"Approve a call, with its arguments as they are or others."`
	Deny       approvalsDenyCmd       `cmd:"" help:"Deny a call."`
	Remembered approvalsRememberedCmd `cmd:"" help:"List the decisions that hold for more than one call."`
	Forget     approvalsForgetCmd     `cmd:"" help:"Forget remembered decisions: people are asked again."`
}

const approvalsPath = "/api/v1/approvals"

// live opens the hub that runs: nothing waits at one that does not.
func (r *reach) live(ctx context.Context) (*client, error) {
	return r.alive(ctx, "nothing waits for an approval")
}

// alive opens the hub that runs; so is what follows if there is none.
func (r *reach) alive(ctx context.Context, so string) (*client, error) {
	c, cfg, _, err := r.find(ctx)
	switch {
	case c != nil || err != nil:
		return c, err
	}
	return nil, failed(exitUnreachable, "Start it with `stoa serve`, or name it with --hub.", "no hub runs on %s, so %s", cfg.Data, so)
}

// approvalsPage is what the hub tells of approvals.
type approvalsPage struct {
	Approvals []policy.Approval `json:"approvals"`
	Next      uint64            `json:"next"`
	Now       time.Time         `json:"now"`
}

// approvals asks the hub what waits.
func (c *client) approvals(ctx context.Context, q url.Values) (page approvalsPage, raw []byte, err error) {
	if raw, err = c.ask(ctx, http.MethodGet, approvalsPath, q, nil); err == nil {
		err = json.Unmarshal(raw, &page)
	}
	return page, raw, err
}

type approvalsListCmd struct {
	reach
	asJSON
}

func (c *approvalsListCmd) Run(ctx context.Context, s std) error {
	hub, err := c.live(ctx)
	if err != nil {
		return fmt.Errorf("list approvals: %w", err)
	}
	defer hub.close()
	page, raw, err := hub.approvals(ctx, nil)
	if err != nil {
		return fmt.Errorf("list approvals: %w", err)
	}
	if c.JSON {
		return s.json(json.RawMessage(raw))
	}
	if len(page.Approvals) == 0 {
		s.note("nothing waits for an approval")
		return nil
	}
	var rows [][]cell
	for _, a := range page.Approvals {
		rows = append(rows, []cell{{text: a.ID}, {text: named(&a)}, {text: a.Principal}, {text: a.Session}, {text: left(&a, page.Now)}, {text: exactLine(string(a.Args))}})
	}
	return s.table([]string{"APPROVAL", "TOOL", "PRINCIPAL", "SESSION", "LEFT", "ARGUMENTS"}, rows)
}

// named is what is to be called.
func named(a *policy.Approval) string {
	if a.Kind == policy.KindSampling {
		return "model for " + a.Upstream
	}
	return a.Tool
}

// left is how long there is to answer.
func left(a *policy.Approval, now time.Time) string {
	return max(a.Expires.Sub(now), 0).Round(time.Second).String()
}

// decision is what is said to the hub about an approval.
type decision struct {
	Decision string          `json:"decision"`
	Args     json.RawMessage `json:"args,omitempty"`
	Remember string          `json:"remember,omitempty"`
	Reason   string          `json:"reason,omitempty"`
}

func (c *client) decide(ctx context.Context, id string, d decision) error {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false) // the server gets the arguments as they were written
	if err := e.Encode(d); err != nil {
		return err
	}
	_, err := c.ask(ctx, http.MethodPost, approvalsPath+"/"+url.PathEscape(id), nil, body.Bytes())
	return err
}

// approval returns the id that begins like this, if only one does.
func (c *client) approval(ctx context.Context, id string) (string, error) {
	page, _, err := c.approvals(ctx, nil)
	if err != nil {
		return "", err
	}
	var found []string
	for _, a := range page.Approvals {
		if a.ID == id {
			return id, nil
		}
		if strings.HasPrefix(a.ID, id) {
			found = append(found, a.ID)
		}
	}
	switch len(found) {
	case 0:
		return id, nil // the hub may know what became of it
	case 1:
		return found[0], nil
	}
	return "", failed(exitUsage, "Write more of it.", "several approvals begin with %s: %s", id, strings.Join(found, ", "))
}

// rememberFlag says for what else a decision holds.
type rememberFlag struct {
	Remember string `help:"Hold it for more than this call: session (this tool in this session), tool (everywhere) or server (all its tools)." enum:"once,session,tool,server" default:"once"`
}

type approvalsApproveCmd struct {
	reach
	rememberFlag
	ID   string `arg:"" name:"approval" help:"Id of the approval, or how it begins."`
	Args string `help:"Call it with these arguments instead, a JSON object." placeholder:"JSON"`
}

func (c *approvalsApproveCmd) Run(ctx context.Context, s std) error {
	d := decision{Decision: "approve", Remember: c.Remember}
	if c.Args != "" {
		args, err := parseArgs(c.Args)
		if err != nil {
			return failed(exitUsage, "Write it as --args '{\"path\":\"…\"}'.", "--args: %w", err)
		}
		d.Decision, d.Args = "edit", args
	}
	return decideOne(ctx, s, &c.reach, c.ID, d, "approved")
}

type approvalsDenyCmd struct {
	reach
	rememberFlag
	ID     string `arg:"" name:"approval" help:"Id of the approval, or how it begins."`
	Reason string `help:"Why, for whoever wanted to make the call." placeholder:"TEXT"`
}

func (c *approvalsDenyCmd) Run(ctx context.Context, s std) error {
	return decideOne(ctx, s, &c.reach, c.ID, decision{Decision: "deny", Remember: c.Remember, Reason: c.Reason}, "denied")
}

func decideOne(ctx context.Context, s std, r *reach, id string, d decision, done string) error {
	hub, err := r.live(ctx)
	if err != nil {
		return doing(d.Decision, id, err)
	}
	defer hub.close()
	whole, err := hub.approval(ctx, id)
	if err == nil {
		err = hub.decide(ctx, whole, d)
	}
	if err != nil {
		return doing(d.Decision, id, err)
	}
	_, err = fmt.Fprintf(s.out, "%s is %s\n", whole, done)
	return err
}

type approvalsRememberedCmd struct {
	reach
	asJSON
}

func (c *approvalsRememberedCmd) Help() string {
	return "Where no hub runs, they are read from the store of the data folder."
}

func (c *approvalsRememberedCmd) Run(ctx context.Context, s std) error {
	raw, err := c.askKept(ctx, s, http.MethodGet, approvalsPath+"/remembered", nil)
	if err != nil {
		return fmt.Errorf("list remembered decisions: %w", err)
	}
	if c.JSON {
		return s.json(json.RawMessage(raw))
	}
	var list struct{ Remembered []policy.Remembered }
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("list remembered decisions: %w", err)
	}
	if len(list.Remembered) == 0 {
		s.note("nothing is remembered")
		return nil
	}
	var rows [][]cell
	for _, r := range list.Remembered {
		what, says := r.Ref, "deny"
		if r.Scope == policy.ForUpstream {
			what = "all of " + r.Upstream
		}
		if r.Approve {
			says = "approve"
		}
		rows = append(rows, []cell{{text: r.ID}, {text: says}, {text: what}, {text: string(r.Scope)}, {text: r.Session}, {text: r.Principal}, {text: r.By}, {text: ago(r.Time)}})
	}
	return s.table([]string{"ID", "SAYS", "WHAT", "FOR", "SESSION", "PRINCIPAL", "BY", "SINCE"}, rows)
}

type approvalsForgetCmd struct {
	reach
	IDs []string `arg:"" optional:"" name:"id" help:"Ids of the decisions, as remembered lists them."`
	All bool     `help:"Forget all of them."`
}

func (c *approvalsForgetCmd) Run(ctx context.Context, s std) error {
	if c.All == (len(c.IDs) > 0) {
		return failed(exitUsage, "`stoa approvals remembered` lists the ids.", "name the decisions to forget, or say --all")
	}
	hub, err := c.kept(ctx, s)
	if err != nil {
		return fmt.Errorf("forget decisions: %w", err)
	}
	defer hub.close()
	ids := c.IDs
	if c.All {
		ids = []string{""}
	}
	n := 0
	for _, id := range ids {
		path := approvalsPath + "/remembered"
		if id != "" {
			path += "/" + url.PathEscape(id)
		}
		raw, err := hub.ask(ctx, http.MethodDelete, path, nil, nil)
		var gone struct{ Forgotten []policy.Remembered }
		if err == nil {
			err = json.Unmarshal(raw, &gone)
		}
		if err != nil {
			return doing("forget", id, err)
		}
		n += len(gone.Forgotten)
	}
	_, err = fmt.Fprintf(s.out, "forgot %s\n", plural(n, "decision"))
	return err
}
