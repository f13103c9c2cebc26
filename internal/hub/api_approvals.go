package hub

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/policy"
)

// maxAttending bounds the requests that wait for approvals at once.
const maxAttending = 256

// whose returns the principal whose approvals are asked for; "" means
// everybody's, for the hub's owner.
func whose(who *auth.Principal, of string) (string, error) {
	switch {
	case who.IsOwner():
		return of, nil
	case of != "" && of != who.Name:
		return "", &fault.Error{Kind: fault.Denied, Subject: "principal", Msg: fmt.Sprintf("%q may see its own approvals only", who.Name), Hint: "Use the token of the data folder."}
	}
	return who.Name, nil
}

// ofWhom reads a query, and whose approvals it asks for.
func ofWhom(r *http.Request, who *auth.Principal, more ...string) (q url.Values, principal string, err error) {
	if q, err = query(r, append([]string{"principal"}, more...)...); err == nil {
		principal, err = whose(who, q.Get("principal"))
	}
	return q, principal, err
}

// approvalPage is what waits for a person.
type approvalPage struct {
	Approvals []policy.Approval `json:"approvals"`
	Next      uint64            `json:"next"` // to wait for what differs from this
	Now       time.Time         `json:"now"`  // by the hub's clock, which expires is said by
}

// listApprovals answers with what waits for a person. Who waits for more is
// there to be asked.
func (h *Hub) listApprovals(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	q, principal, err := ofWhom(r, who, "session", "after", "wait")
	if err != nil {
		return err
	}
	wait, session := time.Duration(0), q.Get("session")
	if text := q.Get("wait"); text != "" {
		if wait, err = time.ParseDuration(text); err != nil || wait < 0 || wait > maxWait {
			return fault.New(fault.InvalidParams, "wait", "%q is no time from 0s to %v", text, maxWait)
		}
	}
	var after *uint64
	if text := q.Get("after"); text != "" {
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return fault.New(fault.InvalidParams, "after", "%q is no number that came as next", text)
		}
		after = &n
	}
	if wait > 0 {
		if h.attending.Add(1) > maxAttending {
			h.attending.Add(-1)
			return fault.New(fault.QueueFull, "approvals", "%d requests wait for approvals, which is as many as may", maxAttending)
		}
		defer h.attending.Add(-1)
		if who.Has(auth.RightApprove) { // who may not answer is not there to be asked
			defer h.desk.Attend(principal, session)()
		}
	}
	// As the call has them: arguments are not rewritten for browsers.
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(h.approvalsAfter(r, principal, session, after, wait)); err != nil {
		return fmt.Errorf("encode what waits: %w", err)
	}
	write(w, http.StatusOK, bytes.TrimSuffix(out.Bytes(), []byte{'\n'}))
	return nil
}

func (h *Hub) approvalsAfter(r *http.Request, principal, session string, after *uint64, wait time.Duration) approvalPage {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		next, changed := h.desk.Changed()
		page := approvalPage{Approvals: []policy.Approval{}, Next: next}
		for _, a := range h.desk.Pending(principal) {
			if session == "" || a.Session == session {
				page.Approvals = append(page.Approvals, a)
			}
		}
		page.Now = time.Now()
		if wait <= 0 || after == nil || *after != next {
			return page
		}
		select {
		case <-changed:
			continue
		case <-timer.C:
		case <-r.Context().Done():
		case <-h.endpoint.Closing():
		}
		return page
	}
}

// verdict is what somebody says to an approval.
type verdict struct {
	Decision string          `json:"decision"`
	Args     json.RawMessage `json:"args"`
	Remember string          `json:"remember"`
	Reason   string          `json:"reason"`
}

// maxReason bounds what a person says, which a model is to read.
const maxReason = 4 << 10

func (a *verdict) decision() (policy.Decision, error) {
	d := policy.Decision{Remember: policy.Remember(a.Remember), Reason: a.Reason}
	if string(a.Args) == "null" {
		a.Args = nil
	}
	switch a.Decision {
	case "approve":
		d.Approve = true
	case "edit":
		if a.Args == nil {
			return d, fault.New(fault.InvalidParams, "args", "the decision is to edit, and the arguments are missing")
		}
		d.Approve, d.Args = true, a.Args
	case "deny":
	default:
		return d, fault.New(fault.InvalidParams, "decision", "%q is none: use approve, deny or edit", a.Decision)
	}
	switch {
	case a.Args != nil && a.Decision != "edit":
		return d, &fault.Error{Kind: fault.InvalidParams, Subject: "args", Msg: "arguments come with the decision to " + a.Decision, Hint: "Use the decision edit to change them, or leave them out."}
	case len(a.Reason) > maxReason:
		return d, fault.New(fault.InvalidParams, "reason", "it is %d bytes long, and may be %d", len(a.Reason), maxReason)
	}
	return d, nil
}

func (h *Hub) decideApproval(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if _, err := query(r); err != nil {
		return err
	}
	body, err := h.endpoint.Body(w, r)
	if err != nil {
		return err
	}
	var a verdict
	in := json.NewDecoder(bytes.NewReader(body))
	in.DisallowUnknownFields()
	if err := in.Decode(&a); err != nil {
		return &fault.Error{Kind: fault.InvalidParams, Subject: "body", Msg: "it cannot be read: " + err.Error(), Hint: `Send {"decision":"approve"}, and if wanted "args", "remember" and "reason".`}
	}
	dec, err := a.decision()
	if err != nil {
		return err
	}
	id := r.PathValue("approval")
	if err := h.desk.Decide(who, id, dec); err != nil {
		return err
	}
	h.logger("policy").Info("an approval was decided", obs.KeyAction, "decide", "approval", id, "decision", a.Decision, "remember", a.Remember, "by", who.Name)
	remember, _ := policy.ParseRemember(a.Remember)
	reply(w, http.StatusOK, map[string]any{"approval": id, "decision": a.Decision, "remember": remember})
	return nil
}

func (h *Hub) listRemembered(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	_, principal, err := ofWhom(r, who)
	if err != nil {
		return err
	}
	all, err := h.desk.Remembered(r.Context(), principal)
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, map[string]any{"remembered": all})
	return nil
}

// forgetRemembered ends one decision, or all of a principal's; the owner's are
// everybody's, unless it says whose.
func (h *Hub) forgetRemembered(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	_, principal, err := ofWhom(r, who)
	if err != nil {
		return err
	}
	id := r.PathValue("decision")
	gone, err := h.desk.ForgetFor(r.Context(), who, principal, id)
	if err != nil {
		return err
	}
	if id != "" && len(gone) == 0 {
		all, err := h.desk.Remembered(r.Context(), principal)
		if err != nil {
			return err
		}
		ids := make([]string, len(all))
		for i := range all {
			ids[i] = all[i].ID
		}
		return missing(fault.ResourceNotFound, "remembered decision", id, ids)
	}
	h.logger("policy").Info("remembered decisions were forgotten", obs.KeyAction, "forget", "n", len(gone), "by", who.Name)
	reply(w, http.StatusOK, map[string]any{"forgotten": gone})
	return nil
}
