package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

type resourcesCmd struct {
	List resourcesListCmd `cmd:"" default:"withargs" help:"List resources and templates (the default)."`
	Read resourcesReadCmd `cmd:"" help:"Print a resource."`
}

type resourcesListCmd struct {
	reach
	faceFlags
	asJSON
}

// resource is what a list says of a resource or a template.
type resource struct {
	URI         string `json:"uri"`
	Template    string `json:"uriTemplate"`
	Name        string `json:"name"`
	Description string `json:"description"`
	MIMEType    string `json:"mimeType"`
}

func (c *resourcesListCmd) Run(ctx context.Context, s std) error {
	hub, face, err := c.dial(ctx, s, &c.reach, "")
	if err != nil {
		return fmt.Errorf("list resources: %w", err)
	}
	defer hub.close()
	defer face.Close()
	all, err := face.offered(ctx, "resources/list", "resources")
	if err != nil {
		return fmt.Errorf("list resources: %w", err)
	}
	templates, err := face.offered(ctx, "resources/templates/list", "resourceTemplates")
	if err != nil {
		return fmt.Errorf("list resource templates: %w", err)
	}
	hub.troubles(ctx, s, c.Agent)
	if c.JSON {
		return s.json(map[string]any{"resources": all, "templates": templates})
	}
	var rows [][]cell
	for _, raw := range append(all, templates...) {
		var r resource
		_ = json.Unmarshal(raw, &r) // the members before a wrong one are set
		text := r.Description
		if text == "" && r.Name != r.URI && r.Name != r.Template {
			text = r.Name
		}
		kind := r.MIMEType
		if r.Template != "" {
			kind = strings.TrimSpace("template " + kind)
		}
		rows = append(rows, []cell{{text: r.URI + r.Template}, {text: kind}, {text: firstLine(text), colour: dim}})
	}
	if len(rows) == 0 {
		return nil
	}
	slices.SortStableFunc(rows, func(a, b []cell) int { return strings.Compare(a[0].text, b[0].text) })
	return s.table([]string{"URI", "TYPE", "DESCRIPTION"}, rows)
}

type resourcesReadCmd struct {
	reach
	faceFlags
	asJSON
	URI string `arg:"" name:"uri" help:"URI of the resource."`
}

func (c *resourcesReadCmd) Run(ctx context.Context, s std) error {
	hub, face, err := c.dial(ctx, s, &c.reach, "")
	if err != nil {
		return doing("read", c.URI, err)
	}
	defer hub.close()
	defer face.Close()
	o, err := request("resources/read", map[string]string{"uri": c.URI})
	if err != nil {
		return err
	}
	o.Name = c.URI
	q := newQuestioner(s)
	raw, err := face.asked(ctx, o, q)
	if err == nil {
		err = q.refusal()
	}
	if err != nil {
		return doing("read", c.URI, err)
	}
	if c.JSON {
		_, err := s.out.Write(append(raw, '\n'))
		return err
	}
	var r struct {
		Contents []contents `json:"contents"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return failed(exitFailed, "Use --json to see it as it is.", "read %s: the result is not of the protocol's form: %w", c.URI, err)
	}
	for _, part := range r.Contents {
		if err := s.contents(part); err != nil {
			return doing("read", c.URI, err)
		}
	}
	return nil
}

// contents prints a part of a resource: bytes as they are, but not on a
// terminal.
func (s std) contents(c contents) error {
	if c.Blob == "" {
		return s.text(c.Text)
	}
	if isTerminal(s.out) {
		return s.text(placeholder("resource "+c.URI, c.MIMEType, c.Blob))
	}
	b, err := base64.StdEncoding.DecodeString(c.Blob)
	if err != nil {
		return err
	}
	_, err = s.out.Write(b)
	return err
}
