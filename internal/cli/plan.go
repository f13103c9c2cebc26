package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/wire"
)

type planCmd struct {
	Create    planCreateCmd    `cmd:"" help:"Find a plan from what actions need and yield, or take a ready one, and keep or print it."`
	Validate  planValidateCmd  `cmd:"" help:"Say everything that is wrong with a plan; nothing is called."`
	Run       planRunCmd       `cmd:"" help:"Run a plan and show what comes of it."`
	Status    planStatusCmd    `cmd:"" help:"Tell how a run stands, step by step."`
	Debug     planDebugCmd     `cmd:"" help:"Go through a run step by step, look into it, change it and go on."`
	List      planListCmd      `cmd:"" help:"List runs, or with --published the plans that are tools."`
	Compare   planCompareCmd   `cmd:"" help:"Tell in what two runs differ."`
	Export    planExportCmd    `cmd:"" help:"Print the journal of a run, one JSON object a line, or a plan."`
	Graph     planGraphCmd     `cmd:"" help:"Draw a plan, or a run as it stands, as a Mermaid flow chart."`
	Publish   planPublishCmd   `cmd:"" help:"Offer a plan to yourself as the tool plan__NAME."`
	Share     planShareCmd     `cmd:"" help:"Show published plans to everybody who may use plans."`
	Unpublish planUnpublishCmd `cmd:"" help:"Offer plans as tools no longer."`
	Schema    planSchemaCmd    `cmd:"" help:"Print the JSON Schema of plans, for editors."`
}

const planWord = "File with the plan (JSON or YAML), - for stdin, @NAME of one that was saved in the session, or the id of a run whose plan is meant."

var runID = regexp.MustCompile(`^(run_[A-Z2-7]{20}|current)$`)

// planned is a plan that a person named.
type planned struct {
	arg  json.RawMessage  // as the hub takes it
	doc  *config.Document // where it was read; nil if the hub has it
	plan *plan.Plan       // what could be read of it; nil if the hub has it
}

// readPlan reads the plan that a word means. What is wrong with one that is read
// here the hub says, along with what only it can know.
func readPlan(word string, in io.Reader) (*planned, error) {
	if strings.HasPrefix(word, "@") || runID.MatchString(word) {
		return &planned{arg: wire.Quote(word)}, nil
	}
	doc, err := readDocument(word, in)
	if err != nil {
		return nil, err
	}
	p, problems := plan.Read(doc.JSON)
	if p == nil {
		return nil, misplaced(doc, problems)
	}
	return &planned{arg: doc.JSON, doc: doc, plan: p}, nil
}

func readDocument(word string, in io.Reader) (*config.Document, error) {
	if word != "-" {
		return config.ReadDocument(word)
	}
	data, err := io.ReadAll(io.LimitReader(in, plan.MaxBytes+1))
	if err != nil {
		return nil, failed(exitFailed, "", "read stdin: %w", err)
	}
	return config.ParseDocument("stdin", data)
}

// misplaced says where in a file the problems of a plan are.
func misplaced(doc *config.Document, problems []plan.Problem) error {
	var out []config.Problem
	for _, p := range problems {
		where, rest, _ := strings.Cut(strings.TrimPrefix(p.Pointer, "/"), "/")
		name, _, _ := strings.Cut(rest, "/")
		_, notIndex := strconv.Atoi(name)
		switch {
		case where == "inputs" && name != "" && notIndex != nil: // of the run, not of the plan
			out = append(out, config.Problem{File: "input " + rest, Text: p.Message, Hint: p.Hint})
		case where == "breakpoints":
			out = append(out, config.Problem{File: "--break", Text: p.Message, Hint: p.Hint})
		default:
			out = append(out, doc.Wrong(p.Pointer, p.Hint, "%s", p.Message))
		}
	}
	return doc.Problems(out)
}

// placed tells what the hub says is wrong with a plan by its places in the file.
func (p *planned) placed(err error) error {
	if f, ok := errors.AsType[*failure](err); ok && len(f.problems) > 0 && p.doc != nil {
		return misplaced(p.doc, f.problems)
	}
	return err
}

// shape is the schema of the inputs, as far as it is known here.
func (p *planned) shape() shape {
	if p.plan == nil {
		return newShape(nil)
	}
	properties := map[string]json.RawMessage{}
	for _, in := range p.plan.Inputs {
		if properties[in.Name] = in.Schema; in.Schema == nil {
			properties[in.Name] = json.RawMessage("{}")
		}
	}
	raw, err := json.Marshal(map[string]any{"type": "object", "properties": properties})
	if err != nil {
		return newShape(nil) // then nothing is known of them
	}
	return newShape(raw)
}

// runAnswer is what the hub says of a run.
type runAnswer struct {
	Run  plan.View        `json:"run"`
	Next *plan.Inspection `json:"next"`
	Note string           `json:"note"`

	raw []byte
}

// askRun makes a request about a run.
func (c *client) askRun(ctx context.Context, verb, path string, q url.Values, body any) (*runAnswer, error) {
	var sent []byte
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	raw, err := c.ask(ctx, verb, "/api/v1/runs"+path, q, sent)
	if err != nil {
		return nil, err
	}
	a := &runAnswer{raw: raw}
	if err := json.Unmarshal(raw, a); err != nil {
		return nil, failed(exitFailed, "Are the hub and this program of the same version?", "the answer cannot be read: %w", err)
	}
	return a, nil
}

// awaitRun waits until a run is over or paused, calling seen with what it is in
// between, and returns it with what q asks for.
func (c *client) awaitRun(ctx context.Context, id string, q url.Values, seen func(*plan.View)) (*runAnswer, error) {
	poll := url.Values{} // the first tells how far it is now
	for {
		a, err := c.askRun(ctx, http.MethodGet, "/"+id, poll, nil)
		if err != nil {
			return nil, err
		}
		if a.Run.Settled {
			return c.askRun(ctx, http.MethodGet, "/"+id, q, nil)
		}
		seen(&a.Run)
		poll = url.Values{"wait": {"25s"}, "after": {strconv.Itoa(a.Run.Events)}}
	}
}

type planSchemaCmd struct{}

func (c *planSchemaCmd) Run(s std) error { return s.text(string(plan.Schema())) }
