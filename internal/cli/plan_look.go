package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/stoahub/stoa/internal/plan"
)

// runWhere says which run is meant.
type runWhere struct {
	Session string `help:"Session that the run belongs to." placeholder:"NAME"`
	ownerFlag
}

func (w *runWhere) query(more ...string) url.Values {
	q := w.ownerFlag.query()
	if w.Session != "" {
		q.Set("session", w.Session)
	}
	for _, name := range more {
		q.Set(name, "true")
	}
	return q
}

type planStatusCmd struct {
	reach
	asJSON
	runWhere
	Results bool   `help:"Show what each step yielded."`
	Context bool   `help:"Show what every reference stands for."`
	ID      string `arg:"" optional:"" name:"run" default:"current" help:"Id of the run; the newest if left out."`
}

func (c *planStatusCmd) Help() string {
	return "Where no hub runs, the runs of the data folder are read from its store, and nothing is done about them."
}

func (c *planStatusCmd) Run(ctx context.Context, s std) error {
	q := c.query()
	q.Set("results", fmt.Sprint(c.Results))
	q.Set("context", fmt.Sprint(c.Context))
	hub, err := c.kept(ctx, s)
	if err != nil {
		return doing("show run", c.ID, err)
	}
	defer hub.close()
	a, err := hub.askRun(ctx, http.MethodGet, "/"+url.PathEscape(c.ID), q, nil)
	if err != nil {
		return doing("show run", c.ID, err)
	}
	if c.JSON {
		return s.json(json.RawMessage(a.raw))
	}
	if err := showRun(s, &a.Run); err != nil {
		return err
	}
	for _, st := range a.Run.Steps {
		if st.Result != nil {
			if err := showValues(s, map[string]json.RawMessage{st.ID: st.Result}); err != nil {
				return err
			}
		}
	}
	return showValues(s, a.Run.Context)
}

type planListCmd struct {
	reach
	asJSON
	runWhere
	Published bool `help:"List the plans that are offered as tools."`
}

func (c *planListCmd) Run(ctx context.Context, s std) error {
	hub, err := c.kept(ctx, s)
	if err != nil {
		return fmt.Errorf("list runs: %w", err)
	}
	defer hub.close()
	if c.Published {
		return c.published(ctx, s, hub)
	}
	raw, err := hub.ask(ctx, http.MethodGet, "/api/v1/runs", c.query(), nil)
	if err != nil {
		return fmt.Errorf("list runs: %w", err)
	}
	if c.JSON {
		return s.json(json.RawMessage(raw))
	}
	return showRuns(s, raw)
}

func showRuns(s std, raw []byte) error {
	var list struct{ Runs []plan.Summary }
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("list runs: %w", err)
	}
	if len(list.Runs) == 0 {
		s.note("there are no runs; stoa plan run makes one")
		return nil
	}
	var rows [][]cell
	for _, r := range list.Runs {
		rows = append(rows, []cell{{text: r.ID}, {text: r.Session}, {text: r.Principal}, {string(r.Status), stateColour(string(r.Status))}, {text: fmt.Sprintf("%d/%d", r.Done, r.Steps)}, {text: ago(r.Began)}, {text: r.Title}})
	}
	return s.table([]string{"RUN", "SESSION", "PRINCIPAL", "STATUS", "STEPS", "BEGAN", "TITLE"}, rows)
}

func (c *planListCmd) published(ctx context.Context, s std, hub *client) error {
	raw, err := hub.api(ctx, "/api/v1/plans")
	if err != nil {
		return fmt.Errorf("list published plans: %w", err)
	}
	if c.JSON {
		return s.json(json.RawMessage(raw))
	}
	var list struct {
		Plans []struct {
			Name, Tool, Owner, Title string
			Steps                    int
		}
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("list published plans: %w", err)
	}
	if len(list.Plans) == 0 {
		s.note("no plans are published; stoa plan publish does it")
		return nil
	}
	var rows [][]cell
	for _, p := range list.Plans {
		rows = append(rows, []cell{{text: p.Name}, {text: p.Tool}, {text: p.Owner}, {text: fmt.Sprint(p.Steps)}, {text: p.Title}})
	}
	return s.table([]string{"NAME", "TOOL", "OWNER", "STEPS", "TITLE"}, rows)
}

type planCompareCmd struct {
	reach
	asJSON
	runWhere
	A string `arg:"" name:"run" help:"Id of a run."`
	B string `arg:"" name:"other" help:"Id of another."`
}

func (c *planCompareCmd) Run(ctx context.Context, s std) error {
	hub, err := c.kept(ctx, s)
	if err != nil {
		return doing("compare", c.A, err)
	}
	defer hub.close()
	raw, err := hub.compareRuns(ctx, c.query(), c.A, c.B)
	if err != nil {
		return doing("compare", c.A, err)
	}
	if c.JSON {
		return s.json(json.RawMessage(raw))
	}
	return showComparison(s, raw)
}

func (c *client) compareRuns(ctx context.Context, q url.Values, a, b string) ([]byte, error) {
	q.Set("with", b)
	return c.ask(ctx, http.MethodGet, "/api/v1/runs/"+url.PathEscape(a)+"/compare", q, nil)
}

func showComparison(s std, raw []byte) error {
	var c plan.Comparison
	if err := json.Unmarshal(raw, &c); err != nil {
		return fmt.Errorf("compare runs: %w", err)
	}
	if c.Same {
		return s.text("the runs do not differ")
	}
	var rows [][]cell
	for _, d := range c.Differences {
		for i, run := range c.Runs {
			name, value := "", string(d.Values[i])
			if i == 0 {
				name = d.Kind + " " + d.Name
			}
			if value == "" || value == "null" && d.States[i] != "done" {
				value = "-"
			}
			rows = append(rows, []cell{{text: name}, {text: run.ID}, {d.States[i], stateColour(d.States[i])}, {text: value}})
		}
	}
	return s.table([]string{"WHAT", "RUN", "STATE", "VALUE"}, rows)
}

type planExportCmd struct {
	reach
	runWhere
	Plan   bool   `help:"The plan of the run alone, as JSON."`
	Output string `help:"Write to this file, which is there whole or not at all." short:"o" placeholder:"FILE"`
	ID     string `arg:"" optional:"" name:"run" default:"current" help:"Id of the run; the newest if left out."`
}

func (c *planExportCmd) Run(ctx context.Context, s std) error {
	hub, err := c.kept(ctx, s)
	if err != nil {
		return doing("export", c.ID, err)
	}
	defer hub.close()
	write := func(w io.Writer) error { return c.journal(ctx, hub, w) }
	if c.Plan {
		write = func(w io.Writer) error { return c.plan(ctx, hub, w) }
	}
	if c.Output == "" {
		err = write(s.out)
	} else {
		err = writeWhole(c.Output, write)
	}
	if err != nil {
		return doing("export", c.ID, err)
	}
	return nil
}

func (c *planExportCmd) journal(ctx context.Context, hub *client, w io.Writer) error {
	resp, err := hub.send(ctx, http.MethodGet, "/api/v1/runs/"+url.PathEscape(c.ID)+"/journal", c.query(), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return copied(w, resp.Body)
}

func (c *planExportCmd) plan(ctx context.Context, hub *client, w io.Writer) error {
	a, err := hub.askRun(ctx, http.MethodGet, "/"+url.PathEscape(c.ID), c.query("plan"), nil)
	if err != nil {
		return err
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(a.Run.Plan)
}

type planGraphCmd struct {
	reach
	runWhere
	Plan string `arg:"" name:"plan" help:"File with the plan (JSON or YAML), - for stdin, or the id of a run, whose steps then have their states as classes."`
}

func (c *planGraphCmd) Run(ctx context.Context, s std) error {
	if !runID.MatchString(c.Plan) {
		p, err := readPlan(c.Plan, s.in)
		switch {
		case err != nil:
			return err
		case p.doc == nil:
			return failed(exitUsage, "Name a file or a run; stoa sessions get prints what was saved.", "draw %s: it is neither a file nor a run", c.Plan)
		}
		if _, problems := plan.Examine(p.doc.JSON, func(string) bool { return true }, nil); problems != nil {
			return misplaced(p.doc, problems)
		}
		return s.text(plan.Mermaid(p.plan, nil))
	}
	hub, err := c.kept(ctx, s)
	if err != nil {
		return doing("draw", c.Plan, err)
	}
	defer hub.close()
	a, err := hub.askRun(ctx, http.MethodGet, "/"+url.PathEscape(c.Plan), c.query("plan"), nil)
	if err != nil {
		return doing("draw", c.Plan, err)
	}
	return s.text(runGraph(&a.Run))
}

// runGraph draws a run: the state of a step is its class.
func runGraph(v *plan.View) string {
	states := map[string]string{}
	for _, st := range v.Steps {
		states[st.ID] = st.State
	}
	text := plan.Mermaid(v.Plan, func(id string) string { return states[id] })
	return text + "  classDef done fill:#cfc\n  classDef failed fill:#fcc\n  classDef unknown fill:#fcc\n  classDef running fill:#ffc\n  classDef waiting fill:#ffc\n  classDef skipped fill:#eee\n  classDef pending fill:#fff\n"
}
