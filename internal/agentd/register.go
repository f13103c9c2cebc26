package agentd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/guard"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/secret"
)

// Registration is how an agent makes itself known to a hub.
type Registration struct {
	Hub   string        // the hub's address, as http://127.0.0.1:8080
	Token secret.String // that the hub wants
	URL   string        // where the agent is
	Own   secret.String // that the agent wants; empty for none
	Lease time.Duration // renewed three times in that time; 0 means 30 s
	HTTP  *http.Client  // nil means one of its own
}

// Register keeps the agent registered at a hub until ctx ends, then takes its
// leave. A hub that is away, or has forgotten, is told again when it can be. It
// returns an error only if the hub refuses, since trying again would not help.
func (a *Agent) Register(ctx context.Context, r Registration) error {
	if r.Lease == 0 {
		r.Lease = 30 * time.Second
	}
	if r.HTTP == nil {
		r.HTTP = &http.Client{Timeout: 10 * time.Second}
		defer r.HTTP.CloseIdleConnections()
	}
	r.Hub = strings.TrimSuffix(r.Hub, "/")
	back := guard.NewBackoff(200*time.Millisecond, r.Lease/3, nil)
	lease, told := "", false
	for {
		var err error
		wait := r.Lease / 3
		if lease == "" {
			if lease, err = r.begin(ctx, a.Name()); err == nil {
				a.log.Info("registered at the hub", "hub", r.Hub, "agent", a.Name())
				back.Reset()
				told = false
			}
		} else if err = r.send(ctx, http.MethodPut, "/mcps/"+a.Name(), lease, nil, nil); refused(err) == http.StatusNotFound {
			lease, err, wait = "", nil, 0 // it has forgotten us
		}
		if ctx.Err() != nil {
			break
		}
		if status := refused(err); status >= 400 && status < 500 && status != http.StatusTooManyRequests {
			return err
		}
		if err != nil {
			if !told {
				a.log.Warn("the hub cannot be told of this agent; trying again", "hub", r.Hub, obs.KeyErr, err)
			}
			told, wait = true, back.Next()
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	if lease != "" {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = r.send(last, http.MethodDelete, "/mcps/"+a.Name(), lease, nil, nil) // else the lease runs out
	}
	return nil
}

// begin registers the agent and returns its lease.
func (r *Registration) begin(ctx context.Context, name string) (string, error) {
	body := map[string]any{"name": name, "url": r.URL, "ttlMs": r.Lease.Milliseconds()}
	if r.Own.Reveal() != "" {
		body["token"] = r.Own.Reveal()
	}
	var answer struct{ Lease string }
	if err := r.send(ctx, http.MethodPost, "/mcps", "", body, &answer); err != nil {
		return "", err
	}
	return answer.Lease, nil
}

// Refusal is what a hub answered that does not take an agent.
type Refusal struct {
	Status int
	Text   string
}

func (r *Refusal) Error() string { return r.Text }

// refused is the status of a refusal; 0 if err is none.
func refused(err error) int {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Status
	}
	return 0
}

func (r *Registration) send(ctx context.Context, method, path, lease string, body, answer any) error {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.Hub+path, content)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if r.Token.Reveal() != "" {
		req.Header.Set("Authorization", "Bearer "+r.Token.Reveal())
	}
	if lease != "" {
		req.Header.Set("Stoa-Lease", lease)
	}
	resp, err := r.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		var refusal struct{ Error struct{ Message string } }
		_ = json.Unmarshal(raw, &refusal) // what is not ours has no message
		if refusal.Error.Message == "" {
			refusal.Error.Message = strings.TrimSpace(string(raw[:min(len(raw), 200)]))
		}
		return &Refusal{resp.StatusCode, fmt.Sprintf("register at %s: %s (HTTP %d)", r.Hub, refusal.Error.Message, resp.StatusCode)}
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(raw, answer)
}
