package modules

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/wire"
)

// DebugName is the name of the module that looks into the hub.
const DebugName = "debug"

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
	// StartWeb opens the console on a port of this machine, 0 meaning any, and
	// a browser with it if that is wanted; WebStatus says how it is. nil means
	// that there is no console, and no tools for it.
	StartWeb  func(ctx context.Context, port int, open bool) (WebStatus, error)
	WebStatus func() WebStatus
}

// WebStatus is where the console is, and who looks at it.
type WebStatus struct {
	Running  bool   `json:"running"` // web_debug_start has opened an address
	Port     int    `json:"port,omitempty"`
	URL      string `json:"url,omitempty"`
	UptimeMs int64  `json:"uptimeMs,omitempty"`
	Viewers  int    `json:"viewers"`           // pages that follow what happens
	Console  string `json:"console,omitempty"` // where it can be had now
	Already  bool   `json:"already,omitempty"` // it was there before it was asked for
	Note     string `json:"-"`                 // what did not work
}

var logsTool = Tool{
	Name: "read_logs", Title: "Read the hub's log", ReadOnly: true,
	Description: "Read the newest records of the hub's log.",
	Input: `{"type":"object","additionalProperties":false,"properties":{
		"level":{"enum":["trace","debug","info","warn","warning","error"],"description":"The least important one."},
		"limit":{"type":"integer","minimum":1,"maximum":1000,"description":"Left out: 100."},
		"search":{"type":"string","maxLength":1000,"description":"A text in the message, or key=value."}}}`,
}

// Debug returns the module that looks into the hub.
func Debug(opts DebugOptions) *Module {
	t := logsTool
	t.Run = func(ctx context.Context, req *mcp.Request, raw json.RawMessage) (any, error) {
		args, err := decode[logsArgs](raw)
		if err != nil {
			return nil, err
		}
		// Everybody's log is for the owner, and not for a model that works for the owner.
		whose := req.Client.Actor.Name()
		if req.Client.Actor.Has(auth.RightLogs) {
			whose = ""
		}
		return inFull(ctx, req, func(_ context.Context, whole bool) (Answer, error) { return opts.read(args, whose, whole) })
	}
	tools := []Tool{t}
	if opts.StartWeb != nil {
		tools = append(tools, opts.webTools()...)
	}
	return New(DebugName, "", nil, tools...)
}

// webTools are those for the console.
func (o DebugOptions) webTools() []Tool {
	return []Tool{
		{Name: "web_debug_start", Title: "Open the web console", Idempotent: true,
			Description: "Serves the hub's web console on a further port of this machine and answers with its URL. The person has to sign in there.",
			Input: `{"type":"object","additionalProperties":false,"properties":{
				"port":{"type":"integer","minimum":1,"maximum":65535,"description":"Left out, any that is free."},
				"openBrowser":{"type":"boolean","description":"Show it to the person at the hub's machine."}}}`,
			Run: func(ctx context.Context, req *mcp.Request, raw json.RawMessage) (any, error) {
				args, err := decode[struct {
					Port        int  `json:"port"`
					OpenBrowser bool `json:"openBrowser"`
				}](raw)
				if err != nil {
					return nil, err
				}
				s, err := o.StartWeb(ctx, args.Port, args.OpenBrowser)
				if err != nil {
					return nil, err
				}
				text := "The console is at " + s.URL
				if s.Already {
					text = "The console is there already, at " + s.URL
				}
				if s.Note != "" {
					text += "; " + s.Note
				}
				return Answer{Data: s, Message: text}, nil
			}},
		{Name: "web_debug_status", Title: "State of the web console", ReadOnly: true,
			Description: "Says on which port web_debug_start has opened the console, since when, and how many pages look at the hub.",
			Input:       `{"type":"object","additionalProperties":false,"properties":{}}`,
			Run: func(context.Context, *mcp.Request, json.RawMessage) (any, error) {
				return Answer{Data: o.WebStatus()}, nil
			}},
	}
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

func (o DebugOptions) read(a logsArgs, whose string, whole bool) (Answer, error) {
	q := obs.Query{Search: a.Search, Principal: whose, Limit: orElse(a.Limit, logsDefault)}
	if a.Level != "" {
		level, err := obs.ParseLevel(a.Level)
		if err != nil {
			return Answer{}, err
		}
		q.Level = level
	}
	records := o.Logs(q)
	out := logRecords{Logs: []json.RawMessage{}}
	size := 0
	for i := range records {
		line := logRecord(&records[i], whole)
		if size += len(line); !whole && size > logsBytes && i > 0 {
			break
		}
		out.Logs = append(out.Logs, line)
	}
	slices.Reverse(out.Logs)
	out.Count = len(out.Logs)
	answer := Answer{Data: out}
	if out.Count < len(records) {
		answer.Message = fmt.Sprintf("Only the newest %d of %d records fit into one answer.", out.Count, len(records))
	} else if a.Limit == 0 && out.Count == logsDefault {
		answer.Message = fmt.Sprintf("These are the newest %d records; say with limit how many.", out.Count)
	}
	if o.Trouble != nil {
		if err := o.Trouble(); err != nil {
			answer.Message = strings.TrimSpace(answer.Message + " The log files are not written: " + err.Error() + ".")
		}
	}
	return answer, nil
}

// LogRecord is a record as it is shown. It keeps the order of the attributes. Of two with one name, which
// a log may have and an object may not, the first stays.
func LogRecord(r *obs.Record) json.RawMessage { return logRecord(r, false) }

func logRecord(r *obs.Record, whole bool) json.RawMessage {
	clip := func(s string) string {
		if whole {
			return s
		}
		return clip(s)
	}
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
		if !whole && len(a.Value) > logsValue {
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
