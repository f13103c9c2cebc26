package upstream

import (
	"sort"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/mcp"
)

// Health is a condition that a person should know of.
type Health struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Status is what an upstream looks like from outside.
type Status struct {
	Name        string    `json:"name"`
	Title       string    `json:"title,omitempty"`
	State       State     `json:"state"`
	Since       time.Time `json:"since"`
	Error       string    `json:"error,omitempty"`
	RetryInMs   int64     `json:"retryInMs,omitempty"`
	Transport   string    `json:"transport"`
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
	Queued      int       `json:"queued"`
	Running     int       `json:"running"`
	Health      []Health  `json:"health,omitempty"`
	Stderr      []string  `json:"stderr,omitempty"`
}

// Status returns the upstream's status.
func (u *Upstream) Status() Status {
	s := Status{Name: u.opts.Name, Title: u.opts.Title, Transport: "stdio", Eras: u.Eras().Strings(), Starts: u.starts.Load(), Breaker: string(u.breaker.State())}
	switch {
	case u.opts.Handler != nil:
		s.Transport = "local"
	case u.opts.URL != "":
		s.Transport = "http"
	}
	if u.queue != nil {
		s.Queued, s.Running, _ = u.queue.Status()
	}
	s.Stderr = u.tail.last()
	u.mu.Lock()
	s.State, s.Since = u.state, u.since
	if u.state == Failed && u.failed != nil {
		s.Error = u.failed.Error()
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
		s.Health = append(s.Health, Health{code, text})
	}
	u.mu.Unlock()
	sort.Ints(s.Pids)
	s.catalogue(u.cat.Now().Of(u.opts.Name))
	sort.Slice(s.Health, func(i, j int) bool { return s.Health[i].Code < s.Health[j].Code })
	return s
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
