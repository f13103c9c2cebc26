package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

type errorsCmd struct {
	List   errorsListCmd   `cmd:"" default:"withargs" help:"List what went wrong, by code and tool (the default)."`
	Show   errorsShowCmd   `cmd:"" help:"Show an error whole."`
	Export errorsExportCmd `cmd:"" help:"Print all errors that are kept, one JSON object a line."`
}

type errorsListCmd struct {
	reach
	asJSON
}

func (c *errorsListCmd) Run(ctx context.Context, s std) error {
	raw, err := c.askKept(ctx, s, http.MethodGet, "/api/v1/errors", nil)
	if err != nil {
		return fmt.Errorf("list errors: %w", err)
	}
	if c.JSON {
		return s.json(json.RawMessage(raw))
	}
	var list struct {
		Groups []struct {
			Code, Upstream, Tool, Severity, Message, LastID string
			Count                                           int64
			Last                                            time.Time
		}
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("list errors: %w", err)
	}
	if len(list.Groups) == 0 {
		s.note("nothing went wrong")
		return nil
	}
	var rows [][]cell
	for _, g := range list.Groups {
		where := strings.Trim(g.Upstream+":"+g.Tool, ":")
		rows = append(rows, []cell{{text: g.Code}, {text: where}, {text: g.Severity}, {text: strconv.FormatInt(g.Count, 10)}, {text: ago(g.Last)}, {text: g.LastID}, {text: g.Message}})
	}
	return s.table([]string{"CODE", "WHERE", "SEVERITY", "COUNT", "LAST", "ID", "MESSAGE"}, rows)
}

type errorsShowCmd struct {
	reach
	ID string `arg:"" name:"error" help:"Id of the error."`
}

func (c *errorsShowCmd) Run(ctx context.Context, s std) error {
	raw, err := c.askKept(ctx, s, http.MethodGet, "/api/v1/errors/"+url.PathEscape(c.ID), nil)
	if err != nil {
		return doing("show error", c.ID, err)
	}
	return s.json(json.RawMessage(raw))
}

type errorsExportCmd struct {
	reach
}

func (c *errorsExportCmd) Run(ctx context.Context, s std) error {
	raw, err := c.askKept(ctx, s, http.MethodGet, "/api/v1/errors/export", nil)
	if err != nil {
		return fmt.Errorf("export errors: %w", err)
	}
	_, err = s.out.Write(raw)
	return err
}
