package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/policy"
)

// openBoard has people answer at any hub what waits at another.
func (h *Hub) openBoard() error {
	if h.shared == nil {
		return nil
	}
	b, err := policy.OpenBoard(context.Background(), h.state.store, h.shared.key, policy.BoardOptions{
		Process: h.process, There: h.there, Decide: h.decideElsewhere, Logger: h.logger("policy"),
	})
	if err != nil {
		return err
	}
	h.opened(b.Close)
	h.board = b
	return nil
}

// there reports whether the hub of a process runs, as far as is known here.
func (h *Hub) there(process string) bool {
	r := h.peers.roster.Load()
	if r == nil {
		return false
	}
	for _, other := range r.Others() {
		if other.Process == process {
			return true
		}
	}
	return false
}

// decideTime bounds how long another hub may take to decide.
const decideTime = 15 * time.Second

// decideElsewhere has the hub decide at which an approval waits.
func (h *Hub) decideElsewhere(who *auth.Principal, process, id string, dec policy.Decision) error {
	v := verdict{Decision: "deny", Remember: string(dec.Remember), Reason: dec.Reason}
	switch {
	case dec.Approve && dec.Args != nil:
		v.Decision, v.Args = "edit", dec.Args
	case dec.Approve:
		v.Decision = "approve"
	case dec.Reason == policy.ReasonDenied:
		v.Reason = ""
	}
	body, err := json.Marshal(&v)
	if err != nil {
		return fmt.Errorf("pass a decision on: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), decideTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://hub/api/v1/approvals/"+url.PathEscape(id), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("pass a decision on: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := h.cluster.pass.Client(process, who).Do(req)
	if err != nil {
		return (&fault.Error{Kind: fault.ResourceNotFound, Subject: id, Msg: "the hub at which this approval waits does not answer",
			Hint: "List what waits. If that hub is gone, so is the call."}).Because(err)
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("pass a decision on: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	return faultOf(said)
}

// faultOf reads the fault with which the API of another hub has answered.
func faultOf(body []byte) error {
	var a struct {
		Error struct {
			Message string `json:"message"`
			Data    struct {
				Kind    string `json:"kind"`
				Subject string `json:"subject"`
				Hint    string `json:"hint"`
				Outcome string `json:"outcome"`
			} `json:"data"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &a); err != nil || a.Error.Message == "" {
		return fault.New(fault.Internal, "", "another hub gave an answer that cannot be read")
	}
	for _, k := range fault.Kinds() {
		if k.Name == a.Error.Data.Kind {
			f := &fault.Error{Kind: k.Kind, Msg: a.Error.Message, Hint: a.Error.Data.Hint}
			if a.Error.Data.Outcome != "" {
				f.With("outcome", a.Error.Data.Outcome)
			}
			return f
		}
	}
	return fault.New(fault.Internal, "", "%s", a.Error.Message)
}
