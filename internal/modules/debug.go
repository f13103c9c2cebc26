package modules

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/wire"
)

const (
	logsDefault = 100
	logsBytes   = 256 << 10 // of all records of one answer
	logsValue   = 4 << 10   // bytes of one attribute that are shown
)

// DebugOptions say what the debug module looks into.
type DebugOptions struct {
	// Logs returns the records that are wanted, the newest first, as
	// obs.Logs.Read does.
	Logs func(obs.Query) []obs.Record
	// Trouble says why the log files are not written; nil means never.
	Trouble func() error
}

var logsTool = Tool{
	Name: "read_logs", Title: "Read the hub's log", ReadOnly: true,
	Description: "Returns the last records of the hub's log, the newest last. level leaves out what is less important, search keeps the records that have a text, in any case, in their message or in an attribute (key=value).",
	Input: `{"type":"object","additionalProperties":false,"properties":{
		"level":{"enum":["trace","debug","info","warn","warning","error"],"description":"The least important level. Left out, all."},
		"limit":{"type":"integer","minimum":1,"maximum":1000,"description":"How many records at most. Default 100."},
		"search":{"type":"string","maxLength":1000}}}`,
}

// Debug returns the module that looks into the hub.
func Debug(opts DebugOptions) *Module {
	t := logsTool
	t.Run = func(_ context.Context, _ *mcp.Request, raw json.RawMessage) (any, error) {
		args, err := decode[logsArgs](raw)
		if err != nil {
			return nil, err
		}
		return opts.read(args)
	}
	return New("debug", "", nil, t)
}

type logsArgs struct {
	Level  string `json:"level"`
	Limit  int    `json:"limit"`
	Search string `json:"search"`
}

type logRecords struct {
	Logs  []json.RawMessage `json:"logs"`
	Count int               `json:"count"`
}

func (o DebugOptions) read(a logsArgs) (any, error) {
	q := obs.Query{Search: a.Search, Limit: orElse(a.Limit, logsDefault)}
	if a.Level != "" {
		level, err := obs.ParseLevel(a.Level)
		if err != nil {
			return nil, err
		}
		q.Level = level
	}
	records := o.Logs(q)
	out := logRecords{Logs: []json.RawMessage{}}
	size := 0
	for i := range records {
		line := renderRecord(&records[i])
		if size += len(line); size > logsBytes && i > 0 {
			break
		}
		out.Logs = append(out.Logs, line)
	}
	slices.Reverse(out.Logs)
	out.Count = len(out.Logs)
	answer := Answer{Data: out}
	if out.Count < len(records) {
		answer.Message = fmt.Sprintf("Only the newest %d of %d records fit into one answer.", out.Count, len(records))
	}
	if o.Trouble != nil {
		if err := o.Trouble(); err != nil {
			answer.Message = strings.TrimSpace(answer.Message + " The log files are not written: " + err.Error() + ".")
		}
	}
	return answer, nil
}

// renderRecord keeps the order of the attributes. Of two with one name, which
// a log may have and an object may not, the first stays.
func renderRecord(r *obs.Record) json.RawMessage {
	b := append([]byte(`{"time":"`), r.Time.UTC().Format(time.RFC3339Nano)...)
	b = append(append(b, `","level":"`...), obs.LevelName(r.Level)...)
	b = wire.AppendString(append(b, `","message":`...), clip(r.Msg))
	b = append(b, `,"attributes":{`...)
	seen := map[string]bool{}
	for _, a := range r.Attrs {
		if seen[a.Key] {
			continue
		}
		if len(seen) > 0 {
			b = append(b, ',')
		}
		seen[a.Key] = true
		b = append(wire.AppendString(b, a.Key), ':')
		if len(a.Value) > logsValue {
			b = wire.AppendString(b, clip(a.Text()))
		} else {
			b = append(b, a.Value...)
		}
	}
	return append(b, "}}"...)
}

// clip shortens a text that is too long to show.
func clip(s string) string {
	if len(s) <= logsValue {
		return s
	}
	return strings.ToValidUTF8(s[:logsValue], "") + "…"
}
