package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/wire"
)

type planCreateCmd struct {
	reach
	asJSON
	Session string   `help:"Work in the session of this name." placeholder:"NAME"`
	SaveAs  string   `help:"Keep the plan in the session under this name; needs --session." placeholder:"NAME"`
	Publish string   `help:"Offer the plan as the tool plan__NAME." placeholder:"NAME"`
	Title   string   `help:"Title of the plan." placeholder:"TEXT"`
	Goal    string   `help:"What is wanted, in words, for a model to propose a plan." placeholder:"TEXT"`
	Tools   []string `help:"Tools that may be used, by globs such as 'files__*'; may be given more than once." placeholder:"GLOB" sep:"none"`
	Given   []string `help:"Name of something that the plan is given; may be given more than once." placeholder:"NAME" sep:"none"`
	Want    []string `help:"Name of something that the plan has to yield; may be given more than once." placeholder:"NAME" sep:"none"`
	Output  string   `help:"Write the plan to this file." short:"o" placeholder:"FILE"`
	File    string   `arg:"" optional:"" name:"file" help:"File (JSON or YAML) or - with the arguments of plan_create (allowableActions, inputs, requiredOutputs, …), or with a ready plan."`
}

func (c *planCreateCmd) Help() string {
	return "The plan goes to stdout or to --output, as JSON; what was assumed and what would have done as well is told on stderr. " +
		"Where no plan leads to what is wanted, it is said what is missing."
}

// request is what plan_create is asked for, and where it was read.
func (c *planCreateCmd) request(s std) (map[string]json.RawMessage, *config.Document, error) {
	args := map[string]json.RawMessage{}
	var doc *config.Document
	if c.File != "" {
		var err error
		if doc, err = readDocument(c.File, s.in); err != nil {
			return nil, nil, err
		}
		if wire.Get(doc.JSON, "steps") != nil { // a ready plan
			args["plan"] = doc.JSON
		} else if err := json.Unmarshal(doc.JSON, &args); err != nil {
			return nil, nil, failed(exitUsage, "", "read %s: %w", c.File, err)
		}
	}
	for name, text := range map[string]string{"title": c.Title, "goal": c.Goal, "saveAs": c.SaveAs, "publish": c.Publish} {
		if text != "" {
			args[name] = wire.Quote(text)
		}
	}
	for name, words := range map[string][]string{"tools": c.Tools, "inputs": c.Given, "requiredOutputs": c.Want} {
		if len(words) > 0 {
			raw, err := json.Marshal(words)
			if err != nil {
				return nil, nil, err
			}
			args[name] = raw
		}
	}
	if len(args) == 0 {
		return nil, nil, failed(exitUsage, "Name a file, or say what is wanted: --want NAME --tools GLOB, or --goal TEXT.", "there is nothing to make a plan of")
	}
	return args, doc, nil
}

func (c *planCreateCmd) Run(ctx context.Context, s std) error {
	if c.SaveAs != "" && c.Session == "" {
		return failed(exitUsage, "Name one with --session; it comes to be with the first thing that is kept.", "--save-as needs a session to keep the plan in")
	}
	args, doc, err := c.request(s)
	if err != nil {
		return err
	}
	if args["saveAs"] != nil && c.Session == "" {
		s.note("saveAs of %s is passed over: no session is named", c.File)
		delete(args, "saveAs")
	}
	if c.Session != "" {
		if err := checkSession(c.Session); err != nil {
			return err
		}
	}
	hub, err := c.keeping(ctx, s, "")
	if err != nil {
		return fmt.Errorf("create a plan: %w", err)
	}
	defer hub.close()
	data, err := hub.createPlan(ctx, c.Session, args)
	if err != nil {
		if f, ok := errors.AsType[*failure](err); ok && len(f.problems) > 0 && doc != nil && args["plan"] != nil {
			return misplaced(doc, f.problems)
		}
		return fmt.Errorf("create a plan: %w", err)
	}
	return c.show(s, data)
}

// show prints the plan, and tells what there is to know of it.
func (c *planCreateCmd) show(s std, data json.RawMessage) error {
	var made struct {
		Plan            json.RawMessage
		Reference, Tool string
	}
	var p plan.Plan
	if err := json.Unmarshal(data, &made); err != nil {
		return fmt.Errorf("create a plan: %w", err)
	}
	if err := json.Unmarshal(made.Plan, &p); err != nil {
		return fmt.Errorf("create a plan: %w", err)
	}
	for _, text := range p.Assumptions {
		s.note("assumed: %s", text)
	}
	for _, text := range p.Ties {
		s.note("as well: %s", text)
	}
	if made.Reference != "" {
		s.note("saved as %s in session %s", made.Reference, c.Session)
	}
	if made.Tool != "" {
		s.note("published as %s", made.Tool)
	}
	if c.JSON {
		return s.json(data)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, made.Plan, "", "  "); err != nil {
		return fmt.Errorf("create a plan: %w", err)
	}
	out.WriteByte('\n')
	if c.Output == "" {
		return s.text(out.String())
	}
	if err := os.WriteFile(c.Output, out.Bytes(), 0o666); err != nil {
		return failed(exitFailed, "Name a file that can be written.", "write the plan: %w", err)
	}
	return nil
}

// createPlan calls plan_create and returns the data of its answer.
func (c *client) createPlan(ctx context.Context, session string, args map[string]json.RawMessage) (json.RawMessage, error) {
	body, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	q := url.Values{}
	if session != "" {
		q.Set("session", session)
	}
	raw, err := c.ask(ctx, http.MethodPost, "/api/tools/plan_create", q, body)
	if err != nil {
		return nil, err
	}
	var e struct {
		Success              bool
		Data                 json.RawMessage
		Message, Error, Code string
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, failed(exitFailed, "Are the hub and this program of the same version?", "the answer cannot be read: %w", err)
	}
	if e.Success {
		return e.Data, nil
	}
	var more struct{ Problems []plan.Problem }
	_ = json.Unmarshal(e.Data, &more) // other refusals have none
	return nil, &failure{err: errors.New(e.Error), hint: e.Message, code: exitCode(strings.ToLower(e.Code)), problems: more.Problems}
}

type planValidateCmd struct {
	reach
	asJSON
	Session string   `help:"Session whose values the plan may refer to." placeholder:"NAME"`
	Form    bool     `help:"Check the file alone: no hub is asked whether its tools exist."`
	Plan    string   `arg:"" name:"plan" help:"${planWord}"`
	Inputs  []string `arg:"" optional:"" name:"inputs" help:"What the plan is to be given, as key=value; without it inputs are not checked."`
}

func (c *planValidateCmd) Run(ctx context.Context, s std) error {
	p, err := readPlan(c.Plan, s.in)
	if err != nil {
		return err
	}
	if c.Form {
		if p.doc == nil {
			return failed(exitUsage, "Name a file.", "--form is about a file, and %s is none", c.Plan)
		}
		if _, problems := plan.Examine(p.doc.JSON, func(string) bool { return c.Session != "" }, nil); problems != nil {
			return misplaced(p.doc, problems)
		}
		return c.valid(s, map[string]any{"valid": true, "plan": p.plan, "order": p.plan.Levels()})
	}
	body := map[string]any{"plan": p.arg, "dryRun": true}
	if c.Session != "" {
		body["session"] = c.Session
	}
	if len(c.Inputs) > 0 {
		raw, err := arguments(c.Inputs, p.shape(), s.in)
		if err != nil {
			return err
		}
		body["inputs"] = json.RawMessage(raw)
	}
	hub, err := c.keeping(ctx, s, "")
	if err != nil {
		return doing("validate", c.Plan, err)
	}
	defer hub.close()
	sent, err := json.Marshal(body)
	if err != nil {
		return err
	}
	raw, err := hub.ask(ctx, http.MethodPost, "/api/v1/runs", nil, sent)
	if err != nil {
		if placed := p.placed(err); placed != err {
			return placed
		}
		return doing("validate", c.Plan, err)
	}
	var said map[string]any
	if err := json.Unmarshal(raw, &said); err != nil {
		return doing("validate", c.Plan, err)
	}
	return c.valid(s, said)
}

func (c *planValidateCmd) valid(s std, said map[string]any) error {
	if c.JSON {
		return s.json(said)
	}
	raw, err := json.Marshal(said["order"])
	if err != nil {
		return err
	}
	var order [][]string
	if err := json.Unmarshal(raw, &order); err != nil {
		return fmt.Errorf("validate %s: %w", c.Plan, err)
	}
	n := 0
	text := make([]string, len(order))
	for i, level := range order {
		n += len(level)
		text[i] = strings.Join(level, " and ")
	}
	return s.text(fmt.Sprintf("OK: %s: %s", plural(n, "step"), strings.Join(text, ", then ")))
}

type planPublishCmd struct {
	reach
	asJSON
	Share bool   `help:"Show it to everybody who may use plans, not to you alone."`
	Name  string `arg:"" help:"The tool will be called plan__NAME."`
	Plan  string `arg:"" name:"plan" help:"File with the plan (JSON or YAML), or - for stdin."`
}

func (c *planPublishCmd) Run(ctx context.Context, s std) error {
	p, err := readPlan(c.Plan, s.in)
	if err != nil {
		return err
	}
	if p.doc == nil {
		return failed(exitUsage, "Use stoa plan export --plan to make a file of it.", "publish %s: only a plan in a file can be published", c.Name)
	}
	hub, err := c.keeping(ctx, s, "")
	if err != nil {
		return doing("publish", c.Name, err)
	}
	defer hub.close()
	raw, err := hub.ask(ctx, http.MethodPut, "/api/v1/plans/"+url.PathEscape(c.Name), nil, p.arg)
	if err != nil {
		if placed := p.placed(err); placed != err {
			return placed
		}
		return doing("publish", c.Name, err)
	}
	tool, _ := wire.String(wire.Get(raw, "tool"))
	if c.Share {
		revision, _ := wire.String(wire.Get(raw, "revision"))
		if raw, err = sharePlan(ctx, hub, tool, true, revision); err != nil {
			return doing("share", tool, err)
		}
	}
	if c.JSON {
		return s.json(json.RawMessage(raw))
	}
	if c.Share {
		return s.text("published as " + tool + ", for everybody")
	}
	return s.text("published as " + tool + ", for you; stoa plan share shows it to others")
}

// sharePlan shows a published plan to everybody, if it is still the one of that
// revision, or to its publisher alone.
func sharePlan(ctx context.Context, hub *client, name string, shared bool, revision string) ([]byte, error) {
	body := fmt.Appendf(nil, `{"shared":%t,"revision":%q}`, shared, revision)
	return hub.ask(ctx, http.MethodPost, "/api/v1/plans/"+url.PathEscape(name)+"/share", nil, body)
}

type planShareCmd struct {
	reach
	Off      bool     `help:"Show them to their publishers alone again."`
	Revision string   `help:"Share the plan only if it is still this one; stoa plan list --published --json tells it." placeholder:"HEX"`
	Names    []string `arg:"" name:"name" help:"Names of published plans, or of their tools."`
}

func (c *planShareCmd) Help() string {
	return "What is shared is shown step by step. It is the plan as it was when the command began, or the one of --revision: if somebody publishes another under the name meanwhile, nothing is shared."
}

func (c *planShareCmd) Run(ctx context.Context, s std) error {
	if c.Revision != "" && len(c.Names) > 1 {
		return failed(exitUsage, "Share them one by one.", "share plans: --revision is that of one plan")
	}
	hub, err := c.keeping(ctx, s, "")
	if err != nil {
		return fmt.Errorf("share plans: %w", err)
	}
	defer hub.close()
	for _, name := range c.Names {
		revision := c.Revision
		if revision == "" && !c.Off {
			if revision, err = showShared(ctx, s, hub, name); err != nil {
				return doing("share", name, err)
			}
		}
		raw, err := sharePlan(ctx, hub, name, !c.Off, revision)
		if err != nil {
			return doing("share", name, err)
		}
		tool, _ := wire.String(wire.Get(raw, "tool"))
		whose := "for everybody"
		if c.Off {
			owner, _ := wire.String(wire.Get(raw, "owner"))
			whose = "for " + owner
		}
		fmt.Fprintf(s.out, "%s is there %s\n", tool, whose)
	}
	return nil
}

// showShared says what a plan does that is about to be shared, and returns its
// revision.
func showShared(ctx context.Context, s std, hub *client, name string) (string, error) {
	raw, err := hub.api(ctx, "/api/v1/plans/"+url.PathEscape(name))
	if err != nil {
		return "", err
	}
	var shown struct {
		Tool, Owner, Revision string
		Plan                  plan.Plan
	}
	if err := json.Unmarshal(raw, &shown); err != nil {
		return "", err
	}
	text := fmt.Sprintf("%s of %s, revision %s:", shown.Tool, shown.Owner, shown.Revision)
	for _, step := range shown.Plan.Steps {
		text += fmt.Sprintf("\n  %s: %s %s", step.ID, step.Tool, step.Args)
	}
	return shown.Revision, s.text(text)
}

type planUnpublishCmd struct {
	reach
	Names []string `arg:"" name:"name" help:"Names of published plans."`
}

func (c *planUnpublishCmd) Run(ctx context.Context, s std) error {
	hub, err := c.keeping(ctx, s, "")
	if err != nil {
		return fmt.Errorf("take plans back: %w", err)
	}
	defer hub.close()
	for _, name := range c.Names {
		name = strings.TrimPrefix(name, "plan__")
		if _, err := hub.ask(ctx, http.MethodDelete, "/api/v1/plans/"+url.PathEscape(name), nil, nil); err != nil {
			return doing("unpublish", name, err)
		}
		fmt.Fprintf(s.out, "%s is no tool any more\n", name)
	}
	return nil
}
