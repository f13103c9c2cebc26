package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/pin"
	"github.com/stoahub/stoa/internal/suspect"
)

const definitionsPath = "/api/v1/definitions"

// changed are the lines that tell a person how a definition changed, and what is
// suspicious about it. What cannot be seen is written out.
func changed(diff string, flags []suspect.Flag) (out []string) {
	for _, f := range flags {
		out = append(out, "suspicious: "+exactLine(f.Reason))
	}
	if diff == "" {
		return out
	}
	out = append(out, "its definition, compared with the one before:")
	for line := range strings.Lines(exact(diff)) {
		out = append(out, "  "+strings.TrimSuffix(line, "\n"))
	}
	return out
}

type toolsChangesCmd struct {
	reach
	asJSON
	Server string `help:"Of this server only." placeholder:"NAME"`
}

func (c *toolsChangesCmd) Help() string {
	return "A definition is pinned when its server is first read. What appears or changes later, and what looks like an attempt to instruct the model, is listed here until it is accepted. " +
		"Each line begins with the name to give to `stoa tools accept` or `reject`; with the digest behind it, just this definition is meant, and not one that takes its place meanwhile."
}

func (c *toolsChangesCmd) Run(ctx context.Context, s std) error {
	hub, err := c.alive(ctx, "there is nothing to compare")
	if err != nil {
		return fmt.Errorf("list changed definitions: %w", err)
	}
	defer hub.close()
	list, raw, err := hub.definitions(ctx, c.Server)
	if err != nil {
		return fmt.Errorf("list changed definitions: %w", err)
	}
	if c.JSON {
		return s.json(json.RawMessage(raw))
	}
	if len(list) == 0 {
		s.note("every definition is accepted")
		return nil
	}
	for i, d := range list {
		if i > 0 {
			fmt.Fprintln(s.out)
		}
		s.definition(d)
	}
	return nil
}

// states say what has become of a definition.
var states = map[catalog.State]string{catalog.Accepted: "was there first", catalog.Changed: "changed", catalog.Added: "is new", catalog.Rejected: "was rejected", catalog.Unchecked: "cannot be compared now"}

// definition prints one that somebody should look at.
func (s std) definition(d pin.Change) {
	text := fmt.Sprintf("%s@%s (%s of %s) %s", exactLine(selector(d)), short(d.Digest), d.Kind, d.Server, states[d.State])
	if d.Viewer != "" {
		text += " for " + exactLine(d.Viewer)
	}
	if d.Hold != "" {
		text += "; it cannot be called"
	}
	fmt.Fprintln(s.out, text)
	for _, f := range d.Flags {
		fmt.Fprintln(s.out, "  suspicious: "+exactLine(f.Reason))
	}
	if d.State == catalog.Accepted {
		return
	}
	for line := range strings.Lines(exact(d.Diff)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "- "):
			line = s.paint(s.out, red, line)
		case strings.HasPrefix(line, "+ "):
			line = s.paint(s.out, green, line)
		}
		fmt.Fprintln(s.out, "  "+line)
	}
}

// selector is the name by which a definition is accepted. Those of templates are
// not told apart without their server's.
func selector(d pin.Change) string {
	if d.Kind == catalog.Template.String() {
		return d.Server + ":" + d.Definition
	}
	return d.Name
}

func short(digest string) string { return digest[:min(len(digest), 12)] }

// definitions asks the hub which definitions somebody should look at.
func (c *client) definitions(ctx context.Context, server string) (list []pin.Change, raw []byte, err error) {
	q := url.Values{}
	if server != "" {
		q.Set("server", server)
	}
	if raw, err = c.ask(ctx, http.MethodGet, definitionsPath, q, nil); err != nil {
		return nil, nil, err
	}
	var answer struct{ Definitions []pin.Change }
	err = json.Unmarshal(raw, &answer)
	return answer.Definitions, raw, err
}

// whichDefinitions are those that a command is about.
type whichDefinitions struct {
	reach
	Names  []string `arg:"" optional:"" name:"name" help:"Names, as changes lists them, each with or without @digest."`
	Server string   `help:"All of this server that changes lists." placeholder:"NAME"`
	All    bool     `help:"All that changes lists."`
}

type toolsAcceptCmd struct{ whichDefinitions }

func (c *toolsAcceptCmd) Run(ctx context.Context, s std) error { return c.decide(ctx, s, "accept") }

type toolsRejectCmd struct{ whichDefinitions }

func (c *toolsRejectCmd) Run(ctx context.Context, s std) error { return c.decide(ctx, s, "reject") }

func (c *whichDefinitions) decide(ctx context.Context, s std, verb string) error {
	ways := 0
	for _, said := range []bool{len(c.Names) > 0, c.Server != "", c.All} {
		if said {
			ways++
		}
	}
	if ways != 1 {
		return failed(exitUsage, "`stoa tools changes` lists the names.", "say what to %s: names, --server or --all", verb)
	}
	hub, err := c.alive(ctx, "there is nothing to "+verb)
	if err != nil {
		return fmt.Errorf("%s definitions: %w", verb, err)
	}
	defer hub.close()
	body := map[string]any{}
	switch {
	case c.All:
		body["all"] = true
	case c.Server != "":
		body["server"] = c.Server
	default:
		body["definitions"] = selections(c.Names)
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	raw, err := hub.ask(ctx, http.MethodPost, definitionsPath+"/"+verb, nil, text)
	if err != nil {
		return fmt.Errorf("%s definitions: %w", verb, err)
	}
	var done struct{ Definitions []pin.Change }
	if err := json.Unmarshal(raw, &done); err != nil {
		return fmt.Errorf("%s definitions: %w", verb, err)
	}
	if len(done.Definitions) == 0 {
		s.note("there was nothing to %s", verb)
	}
	for _, d := range done.Definitions {
		fmt.Fprintf(s.out, "%s@%s is %sed\n", exactLine(selector(d)), short(d.Digest), verb)
	}
	return nil
}

func selections(names []string) (out []pin.Selection) {
	for _, name := range names {
		sel := pin.Selection{Name: name}
		if i := strings.LastIndexByte(name, '@'); i > 0 && isHex(name[i+1:]) {
			sel = pin.Selection{Name: name[:i], Digest: name[i+1:]}
		}
		out = append(out, sel)
	}
	return out
}

func isHex(text string) bool {
	return len(text) >= 8 && strings.Trim(text, "0123456789abcdef") == ""
}
