package upstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/guard"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/secret"
	"github.com/stoahub/stoa/internal/wire"
)

// allowed asks the breakers.
func (u *Upstream) allowed(c Call) error {
	open := func(subject string, b *guard.Breaker) error {
		wait, ok := b.Allow()
		if ok {
			return nil
		}
		f := fault.New(fault.BreakerOpen, subject, "it failed too often and rests for %v", wait.Round(time.Millisecond)).With("retryAfterMs", wait.Milliseconds())
		if why := b.Why(); why != "" {
			f.Msg += "; last failure: " + why
			f.With("lastFailure", why)
		}
		return f
	}
	if err := open(u.opts.Name, u.breaker); err != nil {
		return err
	}
	if c.Tool == "" {
		return nil
	}
	return open(u.opts.Name+":"+c.Tool, u.tools.Of(c.Tool))
}

// judge tells the breakers how a request went.
func (u *Upstream) judge(ctx context.Context, o *mcp.Outgoing, c Call, began time.Time, failure string, err error) {
	if err != nil && ctx.Err() != nil {
		return // the client went away: that says nothing of the upstream
	}
	if _, ours := errors.AsType[*unsampled](err); ours {
		return // so does what our models, or who is to allow that, did not do
	}
	late := fault.Is(err, fault.Timeout)
	switch {
	case err == nil || late || isRefusal(err):
		u.breaker.Success() // it can be reached
	case fault.Is(err, fault.Limit) || fault.Is(err, fault.MissingCapability) || fault.Is(err, fault.Cancelled):
		// Our own bounds, or what the client would not answer.
	case errors.Is(err, errForgets) || !errors.Is(err, mcp.ErrNotSent) && !fault.Is(err, fault.Unreachable) && !fault.Is(err, fault.Misconfigured):
		// One that cannot be dialled is given rests by its back-off, which
		// ends as soon as it can be; this is for those that take calls and
		// lose them.
		if !gone(err) || u.losses.counts(began) {
			u.breaker.Failure(u.shown(fault.Of(u.cause(ctx, o, err)).Msg))
		}
	}
	if c.Tool == "" {
		return
	}
	switch {
	case late:
		u.tools.Of(c.Tool).Failure(u.shown(fault.Of(err).Msg))
	case err == nil && failure != "":
		u.tools.Of(c.Tool).Failure(u.shown(failure))
	case err == nil:
		u.tools.Of(c.Tool).Success()
	}
}

// shownRunes bounds what is shown of why a call failed.
const shownRunes = 300

// shown is what may be shown of a text that a server is the author of: one line
// of bounded length, without secrets.
func (u *Upstream) shown(text string) string {
	if u.opts.Hide != nil {
		text = u.opts.Hide(text)
	}
	text = strings.Join(strings.FieldsFunc(secret.Redact(text), func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }), " ")
	if all := []rune(text); len(all) > shownRunes {
		text = string(all[:shownRunes]) + "…"
	}
	return text
}

// failureOf is why the server failed, if an error object says that it did, as
// opposed to the request being wrong; else "".
func failureOf(object []byte) string {
	if object == nil {
		return ""
	}
	code, _ := strconv.Atoi(string(wire.Get(object, "code")))
	if code != -32603 && (code > -32000 || code < -32019 || code == -32002) {
		return ""
	}
	text, _ := wire.String(wire.Get(object, "message"))
	return fmt.Sprintf("the server answered error %d: %s", code, text)
}
