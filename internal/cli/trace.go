package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"
)

type traceCmd struct {
	reach
	ID string `arg:"" name:"trace" help:"Id of the trace: the 32 hexadecimal digits, as stoa events shows them."`
	asJSON
}

// tracePart is one thing that was done in a trace.
type tracePart struct {
	Name, Kind string
	Depth      int
	Began      time.Time
	TookUS     int64 `json:"took_us"`
	Attributes map[string]string
}

func (c *traceCmd) Run(ctx context.Context, s std) error {
	hub, err := c.alive(ctx, "no trace is known")
	if err != nil {
		return doing("show trace", c.ID, err)
	}
	defer hub.close()
	raw, err := hub.ask(ctx, http.MethodGet, "/api/v1/traces/"+url.PathEscape(c.ID), nil, nil)
	if err != nil {
		return doing("show trace", c.ID, err)
	}
	if c.JSON {
		return s.json(json.RawMessage(raw))
	}
	var tree struct {
		Parts  []tracePart
		Events []json.RawMessage
	}
	if err := json.Unmarshal(raw, &tree); err != nil {
		return doing("show trace", c.ID, err)
	}
	if len(tree.Parts) == 0 {
		s.note("no call of it is over yet")
	} else if err := s.tree(tree.Parts); err != nil {
		return err
	}
	if n := len(tree.Events); n > 0 {
		s.note("%s: stoa events --no-follow --trace %s", plural(n, "record"), c.ID)
	}
	return nil
}

// tree prints parts, each below what it is part of.
func (s std) tree(parts []tracePart) error {
	first := parts[0].Began
	for _, p := range parts {
		if p.Began.Before(first) {
			first = p.Began
		}
	}
	rows := [][]cell{{{"PART", bold}, {"SERVER", bold}, {"AFTER", bold}, {"TOOK", bold}, {"FAILED", bold}}}
	for i, p := range parts {
		rows = append(rows, []cell{
			{text: lead(parts, i) + visibleLine(p.Name)}, {text: visibleLine(p.Attributes["stoa.upstream"])},
			{text: briefly(p.Began.Sub(first).Microseconds())}, {text: briefly(p.TookUS)}, {visibleLine(p.Kind), red},
		})
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		s.row(&b, row, widths, width(s.out))
	}
	_, err := io.WriteString(s.out, b.String())
	return err
}

// lead is what stands before a part: the lines that lead to it.
func lead(parts []tracePart, at int) string {
	var b strings.Builder
	for depth := 1; depth <= parts[at].Depth; depth++ {
		more := false // whether another of this depth follows below the same
		for _, p := range parts[at+1:] {
			if p.Depth <= depth {
				more = p.Depth == depth
				break
			}
		}
		switch {
		case depth < parts[at].Depth && more:
			b.WriteString("│ ")
		case depth < parts[at].Depth:
			b.WriteString("  ")
		case more:
			b.WriteString("├ ")
		default:
			b.WriteString("└ ")
		}
	}
	return b.String()
}
