package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sort"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/guard"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/task"
)

// Health is a condition that a person should know of.
type Health struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// aboutCache begins the code of what is known of a tool's kept results; the
// tool's name follows.
const aboutCache = "cache "

// Tool is the tool that it is about, as the server calls it; empty if it is
// about the server.
func (h Health) Tool() string {
	tool, ok := strings.CutPrefix(h.Code, aboutCache)
	if !ok {
		return ""
	}
	return tool
}

// Transition is a change of an upstream's state.
type Transition struct {
	Upstream string
	From, To State
	Err      error // why it failed, if it did
	At       time.Time
}

const maxOpenNames = 20 // of tools in a Status

// Status is what an upstream looks like from outside.
type Status struct {
	Name        string    `json:"name"`
	Title       string    `json:"title,omitempty"`
	State       State     `json:"state"`
	Since       time.Time `json:"since"`
	Error       string    `json:"error,omitempty"`
	Hint        string    `json:"hint,omitempty"`  // what to do about Error
	Cause       string    `json:"cause,omitempty"` // the line on stderr that tells why, if Error is that a program ended
	RetryInMs   int64     `json:"retryInMs,omitempty"`
	Transport   string    `json:"transport"`
	Unlisted    bool      `json:"unlisted,omitempty"` // served by itself only
	Eras        []string  `json:"eras"`
	Version     string    `json:"version,omitempty"`
	Connections int       `json:"connections"`
	Pids        []int     `json:"pids,omitempty"`
	Starts      int64     `json:"starts,omitempty"`
	LatencyMs   float64   `json:"latencyMs,omitempty"` // of the last handshake
	Stale       bool      `json:"stale"`
	Tools       int       `json:"tools"`
	Prompts     int       `json:"prompts"`
	Resources   int       `json:"resources"`
	Templates   int       `json:"templates"`
	Breaker     string    `json:"breaker"`
	// BreakerError is the last failure that the breaker counted, if it is not
	// closed.
	BreakerError string   `json:"breakerError,omitempty"`
	OpenTools    int      `json:"openTools,omitempty"` // tools whose breakers let nothing through
	OpenNames    []string `json:"openNames,omitempty"` // the first of them, as the server calls them
	// OpenErrors are the last failures of those, by tool.
	OpenErrors map[string]string `json:"openErrors,omitempty"`
	Queued     int               `json:"queued"`
	Running    int               `json:"running"`
	// Queue is how the upstream's queue stands; nil if it has none.
	Queue  *task.Status `json:"queue,omitempty"`
	Health []Health     `json:"health,omitempty"`
	Stderr []string     `json:"stderr,omitempty"`
}

// Status returns the upstream's status.
func (u *Upstream) Status() Status {
	s := Status{Name: u.opts.Name, Title: u.opts.Title, Transport: "stdio", Unlisted: u.opts.Unlisted, Eras: u.Eras().Strings(), Starts: u.starts.Load(), Breaker: string(u.breaker.State())}
	if s.Breaker != string(guard.Closed) {
		s.BreakerError = u.breaker.Why()
	}
	u.TellOpen(&s, u.OpenTools())
	switch {
	case u.opts.Handler != nil:
		s.Transport = cmp.Or(u.opts.Via, "local")
	case u.opts.URL != "":
		s.Transport = "http"
	}
	if u.queue != nil {
		q := u.queue.Status()
		s.Queued, s.Running, s.Queue = q.Queued, q.Running, &q
	}
	s.Stderr = u.tail.last()
	u.mu.Lock()
	s.State, s.Since = u.state, u.since
	// While it is tried again, it is still known why that is needed.
	if (u.state.Down() || u.state == Connecting) && u.failed != nil {
		s.Error, s.Hint = u.failed.Error(), Advice(u.failed)
		if e, ok := errors.AsType[*Ended](u.failed); ok {
			s.Cause = e.Said
		}
		s.RetryInMs = max(0, time.Until(u.retryAt).Milliseconds())
	}
	s.LatencyMs = float64(u.latency.Microseconds()) / 1000
	for _, l := range u.links {
		s.Connections++
		if u.queue == nil {
			s.Running += int(l.busy.Load())
		}
		if l.proc != nil {
			s.Pids = append(s.Pids, l.proc.cmd.Process.Pid)
		}
		if s.Version == "" || l.key.era == mcp.Modern {
			s.Version = l.hello.Version
		}
	}
	for code, text := range u.notes {
		s.Health = append(s.Health, Health{Code: code, Text: text})
	}
	u.mu.Unlock()
	sort.Ints(s.Pids)
	s.catalogue(u.cat.Now().Of(u.opts.Name))
	sort.Slice(s.Health, func(i, j int) bool { return s.Health[i].Code < s.Health[j].Code })
	return s
}

// OpenTools are the tools whose breakers let nothing through, as the server
// calls them.
func (u *Upstream) OpenTools() []string { return u.tools.Open() }

// ToolBreaker says what would become of a call of a tool by its own breaker.
func (u *Upstream) ToolBreaker(tool string) guard.State { return u.tools.State(tool) }

// TellOpen makes a status tell of tools whose breakers let nothing through.
func (u *Upstream) TellOpen(s *Status, tools []string) {
	s.OpenTools, s.OpenNames, s.OpenErrors = len(tools), tools[:min(len(tools), maxOpenNames)], nil
	for _, tool := range s.OpenNames {
		if why := u.tools.Why(tool); why != "" {
			if s.OpenErrors == nil {
				s.OpenErrors = map[string]string{}
			}
			s.OpenErrors[tool] = why
		}
	}
}

func (s *Status) catalogue(l *catalog.Lists) {
	if l == nil {
		s.Stale = s.State != Connected
		return
	}
	s.Stale = l.Stale
	s.Tools, s.Prompts = len(l.Items[catalog.Tool]), len(l.Items[catalog.Prompt])
	s.Resources, s.Templates = len(l.Items[catalog.Resource]), len(l.Items[catalog.Template])
	for k := range l.Items {
		for _, it := range l.Items[k] {
			for _, n := range it.Notes {
				if len(s.Health) < 20 {
					s.Health = append(s.Health, Health{"definition " + it.Name, n})
				}
			}
		}
	}
}

// setState is called with mu held.
func (u *Upstream) setState(s State, err error) {
	if u.state != s {
		u.since = time.Now()
		if u.state == Connected {
			u.leftAt = u.since
		}
		u.logState(s, err)
		u.pool.onState(Transition{Upstream: u.opts.Name, From: u.state, To: s, Err: err, At: u.since})
	}
	u.state = s
	u.down.Store(s == Failed)
}

// logState tells of a new state. A server that stays away fails anew with each
// attempt, which is news once; and that nothing more comes of an upstream that
// is being closed is none at all. Called with mu held.
func (u *Upstream) logState(s State, err error) {
	level := slog.LevelInfo
	attrs := []any{"action", "connect", "upstream", u.opts.Name, "state", string(s)}
	if s.Down() {
		level = slog.LevelWarn
		if err != nil {
			attrs = append(attrs, "err", err)
			if e, ok := errors.AsType[*Ended](err); ok && e.Said != "" {
				attrs = append(attrs, "said", e.Said)
			}
			if text := err.Error(); text == u.mourned || u.ctx.Err() != nil {
				level = slog.LevelDebug
			} else {
				u.mourned = text
			}
		}
	}
	switch s {
	case Connecting:
		return
	case Connected, Disconnected:
		u.mourned = ""
	}
	u.opts.Logger.Log(context.Background(), level, "upstream state", attrs...)
}

// health records a condition that a person should know of.
func (u *Upstream) health(code, format string, args ...any) {
	if u.ctx.Err() != nil {
		return // it is being closed: that things fail now says nothing
	}
	text := fmt.Sprintf(format, args...)
	u.mu.Lock()
	_, known := u.notes[code]
	u.notes[code] = text
	u.mu.Unlock()
	if !known {
		u.pool.onNote(u.opts.Name, Health{Code: code, Text: text})
		u.opts.Logger.Warn("upstream health", "action", "watch", "upstream", u.opts.Name, "code", code, "text", text)
	}
}
