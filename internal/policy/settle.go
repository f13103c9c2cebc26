package policy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
)

// writeTime is how long a decision may take to be written.
const writeTime = 10 * time.Second

// Decide answers an approval. The hub's owner may, and its principal if it has
// the right to approve; to other principals it is not there. If the decision is to be remembered and cannot be
// written it has not been made, and the approval still waits.
func (d *Desk) Decide(who *auth.Principal, id string, dec Decision) error {
	scope, err := ParseRemember(string(dec.Remember))
	if err != nil {
		return err
	}
	dec.Remember, dec.By = scope, who.Name
	if !dec.Approve {
		dec.Args = nil
	}
	if err := checkArgs(dec.Args); err != nil {
		return err
	}
	if dec.Reason == "" && !dec.Approve {
		dec.Reason = ReasonDenied
	}
	dec.Args = bytes.Clone(dec.Args)
	if process, there := d.elsewhere(who, id); there {
		return d.board.Load().o.Decide(who, process, id, dec)
	}
	p, err := d.claim(who, id, scope)
	if err != nil {
		return err
	}
	if scope != Once {
		err = d.keep(p, &dec)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p.deciding = false
	switch {
	case err != nil:
		if p.late {
			d.settle(p, Decision{Reason: ReasonExpired})
		}
		d.abandon()
		return (&fault.Error{Kind: fault.Storage, Subject: id, Msg: "the decision could not be remembered, so it was not made",
			Hint: "Decide for this call alone (remember: once), or again when the store can be written to."}).Because(err)
	case !d.settle(p, dec):
		return d.over(who, id)
	}
	return nil
}

// claim finds an approval and makes sure that nobody else decides it.
func (d *Desk) claim(who *auth.Principal, id string, scope Remember) (*pending, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.pending[id]
	if p == nil || !sees(who, p.Principal) {
		return nil, d.over(who, id)
	}
	if !who.Has(auth.RightApprove) {
		return nil, &fault.Error{Kind: fault.Denied, Subject: id, Msg: "this connection may not answer approvals: it came without the owner's token, or with one that has no right to",
			Hint: "Answer in the console, or with `stoa approvals`."}
	}
	if p.deciding {
		return nil, &fault.Error{Kind: fault.ResourceNotFound, Subject: id, Msg: "somebody else is deciding this approval now", Hint: "List what waits."}
	}
	if scope != Once {
		if _, ok := remembered(&p.Approval, scope); !ok {
			return nil, &fault.Error{Kind: fault.InvalidParams, Subject: "remember", Msg: fmt.Sprintf("the call has no %s to remember the decision for", scope), Hint: "Use once, tool or server."}
		}
	}
	p.deciding = true
	return p, nil
}

// elsewhere returns the process at whose desk an approval waits, if that is not
// this one.
func (d *Desk) elsewhere(who *auth.Principal, id string) (process string, ok bool) {
	b := d.board.Load()
	if b == nil {
		return "", false
	}
	n, ok := b.find(id)
	return n.Process, ok && n.Decision == nil && sees(who, n.Approval.Principal)
}

// sees reports whether somebody is told of the approvals of a principal.
func sees(who *auth.Principal, principal string) bool {
	return who.Name == principal || who.IsOwner()
}

// over says why an approval does not wait. It is called with mu held.
func (d *Desk) over(who *auth.Principal, id string) error {
	f := &fault.Error{Kind: fault.ResourceNotFound, Subject: id, Msg: "there is no such approval", Hint: "List what waits; what was decided or has expired is not there any more."}
	all := d.ended
	if b := d.board.Load(); b != nil {
		if n, ok := b.find(id); ok && n.Decision != nil {
			all = append(slices.Clip(all), ended{id, n.Approval.Principal, *n.Decision})
		}
	}
	for i := len(all) - 1; i >= 0; i-- {
		e := &all[i]
		if e.id != id || !sees(who, e.principal) {
			continue
		}
		dec := &e.decision
		switch {
		case dec.By != "" && dec.Approve:
			f.Msg = fmt.Sprintf("it was approved already, by %s at %s", dec.By, dec.Time.Format(time.RFC3339))
		case dec.By != "":
			f.Msg = fmt.Sprintf("it was denied already, by %s at %s", dec.By, dec.Time.Format(time.RFC3339))
		case dec.Reason == ReasonExpired:
			f.Msg = "it expired at " + dec.Time.Format(time.RFC3339)
		default:
			f.Msg = fmt.Sprintf("it is over (%s) since %s", dec.Reason, dec.Time.Format(time.RFC3339))
		}
		return f.With("outcome", dec.Outcome())
	}
	return f
}

// keep writes what is to be remembered.
func (d *Desk) keep(p *pending, dec *Decision) error {
	r, _ := remembered(&p.Approval, dec.Remember)
	r.Approve, r.By, r.Time, r.Digest = dec.Approve, dec.By, time.Now().UTC(), p.Digest
	if r.Scope == ForSession {
		r.Expires = r.Time.Add(d.opts.SessionTTL)
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTime)
	defer cancel()
	return d.remember(ctx, r)
}

// spread decides what waits and is covered by what was just remembered, here or
// at another hub, so that nobody is asked again for what they have said.
func (d *Desk) spread(_ string, said *Remembered) {
	if said == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range append([]*pending(nil), d.order...) {
		if r, ok := remembered(&q.Approval, said.Scope); ok && !q.deciding && r.about(said) && said.covers(&q.Approval) {
			d.settle(q, Decision{Approve: said.Approve, Remember: said.Scope, By: said.By, Reason: ReasonRemembered})
		}
	}
}

// Remembered returns the decisions that hold for more than one call, of a
// principal; "" means everybody's.
func (d *Desk) Remembered(ctx context.Context, principal string) ([]Remembered, error) {
	if err := d.kept.CatchUp(ctx); err != nil {
		return nil, err
	}
	out := []Remembered{}
	for _, r := range d.kept.All() {
		if principal == "" || r.V.Principal == principal {
			out = append(out, r.V)
		}
	}
	slices.SortFunc(out, func(a, b Remembered) int { return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.ID, b.ID)) })
	return out, nil
}

// Forget ends a remembered decision of a principal ("" means anybody's), or
// all of them if id is empty, also those that cannot be read here. It returns
// those that it ended and could be read.
func (d *Desk) Forget(ctx context.Context, principal, id string) ([]Remembered, error) {
	gone, err := d.forget(ctx, principal, func(r *Remembered) bool { return id == "" || r.ID == id })
	if err != nil || id != "" {
		return gone, err
	}
	return gone, d.forgetUnread(ctx, principal)
}

// forgetUnread ends what is remembered of a principal ("" means anybody) and
// cannot be read here.
func (d *Desk) forgetUnread(ctx context.Context, principal string) (err error) {
	for key := range d.kept.Unread() {
		if principal == "" || strings.HasPrefix(key, ownerKey(principal)+".") {
			err = errors.Join(err, d.kept.Remove(ctx, key))
		}
	}
	return err
}

// ForgetFor is Forget for somebody who asks for it. Who may approve has said no;
// only who may approve as well can take that back. Others end what was allowed.
func (d *Desk) ForgetFor(ctx context.Context, who *auth.Principal, principal, id string) ([]Remembered, error) {
	may := func(r *Remembered) bool { return r.Approve || who.Has(auth.RightApprove) }
	kept := false
	gone, err := d.forget(ctx, principal, func(r *Remembered) bool {
		if id != "" && r.ID != id {
			return false
		}
		kept = kept || !may(r)
		return may(r)
	})
	if err == nil && id == "" && who.Has(auth.RightApprove) { // they may be denials
		err = d.forgetUnread(ctx, principal)
	}
	if err == nil && kept && id != "" {
		err = &fault.Error{Kind: fault.Denied, Subject: id, Msg: "a remembered denial can be forgotten only with the right to approve", Hint: "Ask the owner, who can use the console or `stoa approvals forget`."}
	}
	return gone, err
}

// EndSession forgets what was decided for a Session that has ended.
func (d *Desk) EndSession(ctx context.Context, principal, session string) error {
	_, err := d.forget(ctx, principal, func(r *Remembered) bool { return r.Scope == ForSession && r.Session == session })
	return err
}

func (d *Desk) forget(ctx context.Context, principal string, which func(*Remembered) bool) ([]Remembered, error) {
	all, err := d.Remembered(ctx, principal)
	if err != nil {
		return nil, err
	}
	gone := []Remembered{}
	var errs []error
	for _, r := range all {
		if !which(&r) {
			continue
		}
		if err := d.kept.Remove(ctx, r.key()); err != nil {
			errs = append(errs, err)
			continue
		}
		gone = append(gone, r)
	}
	return gone, errors.Join(errs...)
}
