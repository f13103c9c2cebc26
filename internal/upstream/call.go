package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/guard"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/task"
	"github.com/stoahub/stoa/internal/wire"
)

// Call is what a request needs besides itself.
type Call struct {
	Tool   string // counts for the tool's breaker and the queue; empty for other methods
	Repeat bool   // repeating the request does no harm
	// Timeout is how long an answer may take in place of the upstream's own;
	// 0 means that.
	Timeout time.Duration
	// Retries is how often a request is sent again, where that does no harm, in
	// place of the upstream's own number; nil means that.
	Retries *int
	// Ticket is how a tool's call comes to the upstream's queue.
	Ticket task.Ticket
	// Starting is called when the call has its turn, before the upstream gets
	// it; an error is the answer then. nil means that nobody wants to know.
	Starting func(context.Context) error
}

// Do sends a request to the upstream and returns its answer in the era of the
// client.
func (u *Upstream) Do(ctx context.Context, o *mcp.Outgoing, c Call) (mcp.Response, error) {
	// In this order: either we see the one that has taken its place, or who
	// retires it sees the call.
	u.calls.Add(1)
	if next := u.next.Load(); next != nil {
		u.calls.Add(-1)
		return next.Do(ctx, o, c)
	}
	defer u.calls.Add(-1)
	if o.Client != nil && o.Client.Era == mcp.Modern && mcp.TakesInput(o.Method) {
		parks, err := u.parks(ctx)
		if err != nil {
			return mcp.Response{}, u.fault(ctx, o, err)
		}
		if parks {
			return u.park(ctx, o, c)
		}
	}
	return u.once(ctx, o, c)
}

// once sends a request and, where that is safe, sends it again.
func (u *Upstream) once(ctx context.Context, o *mcp.Outgoing, c Call) (mcp.Response, error) {
	if err := u.allowed(c); err != nil {
		return mcp.Response{}, err
	}
	if u.queue != nil && c.Tool != "" {
		slot, err := u.enqueue(ctx, o, c.Ticket)
		if err != nil && ctx.Err() != nil {
			err = &fault.Error{Kind: fault.Cancelled, Subject: u.opts.Name, Msg: "the call was cancelled while it waited in the queue, and was not begun", Hint: "Call again if the result is still wanted.", Err: err, Harmless: true}
		}
		if err != nil {
			return mcp.Response{}, err
		}
		went := false
		defer func() { slot.Leave(went) }()
		resp, err := u.send(ctx, o, c)
		went = err == nil && resp.Error == nil
		return resp, err
	}
	return u.send(ctx, o, c)
}

func (u *Upstream) send(ctx context.Context, o *mcp.Outgoing, c Call) (mcp.Response, error) {
	if c.Starting != nil {
		if err := c.Starting(ctx); err != nil {
			return mcp.Response{}, err
		}
	}
	began := time.Now()
	resp, failed, err := u.try(ctx, o, c)
	renewed, lost := false, 0
	for n := 0; err != nil && u.again(ctx, err, c); {
		if errors.Is(err, mcp.ErrLost) {
			lost++
		}
		switch {
		case errors.Is(err, mcp.ErrSessionLost) && !renewed:
			renewed = true // a new handshake cures it, and the call was not begun
		case lost < mostLost && u.returning(ctx, c, began): // it was restarted, maybe
		case n < u.retries(c):
			n++
			if errors.Is(err, mcp.ErrLost) && !u.answers(ctx, o, c) {
				return mcp.Response{}, u.ended(ctx, o, c, began, failed, err)
			}
		default:
			return mcp.Response{}, u.ended(ctx, o, c, began, failed, err)
		}
		resp, failed, err = u.try(ctx, o, c)
	}
	if err := u.ended(ctx, o, c, began, failed, err); err != nil {
		return mcp.Response{}, err
	}
	return resp, nil
}

// ended judges how a request ended and says it to the client.
func (u *Upstream) ended(ctx context.Context, o *mcp.Outgoing, c Call, began time.Time, failed bool, err error) error {
	u.judge(ctx, c, began, failed, err)
	if err == nil {
		return nil
	}
	told := u.fault(ctx, o, err)
	switch fault.Of(told).Kind {
	case fault.Cancelled, fault.Timeout, fault.UpstreamLost:
		if c.Repeat || errors.Is(err, mcp.ErrNotSent) {
			harmless := *fault.Of(told)
			harmless.Harmless = true
			harmless.Hint = cmp.Or(harmless.Hint, "Call again if the result is still wanted.")
			return &harmless
		}
	}
	return told
}

// allowed asks the breakers.
func (u *Upstream) allowed(c Call) error {
	open := func(subject string, b *guard.Breaker) error {
		wait, ok := b.Allow()
		if ok {
			return nil
		}
		return fault.New(fault.BreakerOpen, subject, "it failed too often and rests for %v", wait.Round(time.Millisecond)).With("retryAfterMs", wait.Milliseconds())
	}
	if err := open(u.opts.Name, u.breaker); err != nil {
		return err
	}
	if c.Tool == "" {
		return nil
	}
	return open(u.opts.Name+":"+c.Tool, u.tools.Of(c.Tool))
}

// enqueue waits for the upstream to have room for a call. A caller that asked
// for progress is told its place.
func (u *Upstream) enqueue(ctx context.Context, o *mcp.Outgoing, t task.Ticket) (*task.Slot, error) {
	if o.Token != nil && o.Stream != nil {
		t.Moved = func(place int) {
			o.Stream.Notify(mcp.NoteProgress, mcp.Waiting(o.Token, u.opts.Name, place))
			o.Stream.Flush()
		}
	}
	return u.queue.Await(ctx, u.opts.Name, u.opts.Queue.Timeout, t)
}

// retries is how often a request may be sent again.
func (u *Upstream) retries(c Call) int {
	switch {
	case c.Retries != nil:
		return *c.Retries
	case u.opts.Retries != nil:
		return *u.opts.Retries
	}
	return 1
}

// again reports whether a failed request is to be tried once more.
func (u *Upstream) again(ctx context.Context, err error, c Call) bool {
	if ctx.Err() != nil || fault.Is(err, fault.Timeout) {
		return false
	}
	return errors.Is(err, mcp.ErrNotSent) || c.Repeat && errors.Is(err, mcp.ErrLost)
}

// try sends the request once. failed says that the answer is a failure of the
// server, in its own words: the codes of the client's era may mean other things.
func (u *Upstream) try(ctx context.Context, o *mcp.Outgoing, c Call) (resp mcp.Response, failed bool, err error) {
	l, err := u.link(ctx, o.Client, o.Asked.Session)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", mcp.ErrNotSent, err) // there was not even a connection
	}
	if err != nil {
		return mcp.Response{}, false, err
	}
	defer l.release()
	if ctx.Err() != nil { // whoever asked has left before it was sent
		return mcp.Response{}, false, fmt.Errorf("%w: %w", mcp.ErrNotSent, context.Cause(ctx))
	}
	w := watch{Stream: o.Stream, timeout: u.opts.Timeout, most: u.opts.MaxTimeout}
	if c.Timeout > 0 {
		w.timeout, w.most = c.Timeout, max(c.Timeout, u.opts.MaxTimeout)
	}
	w.end = time.Now().Add(w.most)
	if w.Stream == nil {
		w.Stream = mcp.Discard
	}
	ctx, w.cancel = context.WithCancelCause(ctx)
	defer w.cancel(nil)
	w.timer = time.AfterFunc(w.timeout, w.expire)
	defer w.timer.Stop()
	sent := *o
	sent.Stream = &w
	host, err := u.host(&sent, l, &w)
	if err != nil {
		return mcp.Response{}, false, err
	}
	if o.LogLevel != "" && l.key.era == mcp.Legacy {
		u.want(o.LogLevel)
		if err := u.raise(ctx, l); err != nil && ctx.Err() == nil {
			u.health("logging", "the log level could not be set: %v", err)
		}
	}
	resp, err = l.conn.Call(ctx, &sent)
	if err == nil && l.key.era == mcp.Modern && o.Client != nil {
		if o.Client.Era == mcp.Legacy {
			resp, err = u.rounds(ctx, l, &sent, resp)
		} else if host != nil {
			resp, err = u.hosted(ctx, l, &sent, host, resp)
		}
	}
	if err != nil {
		u.missed(l, err)
		return resp, false, refused(o.Method, err)
	}
	if u.away.Load() {
		u.wake() // it is back
	}
	failed = isFailure(resp.Error)
	if o.Client != nil && o.Client.Era != l.key.era {
		resp, err = mcp.Translate(o.Method, resp, o.Client)
	}
	return mcp.Plain(o.Method, resp, o.Client), failed, err
}

func (l *link) release() {
	l.used.Store(time.Now().UnixNano())
	l.busy.Add(-1)
}

// judge tells the breakers how a request went.
func (u *Upstream) judge(ctx context.Context, c Call, began time.Time, failed bool, err error) {
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
	case !errors.Is(err, mcp.ErrNotSent) && !fault.Is(err, fault.Unreachable) && !fault.Is(err, fault.Misconfigured):
		// One that cannot be dialled is given rests by its back-off, which
		// ends as soon as it can be; this is for those that take calls and
		// lose them.
		if !errors.Is(err, mcp.ErrLost) || u.losses.counts(began) {
			u.breaker.Failure()
		}
	}
	if c.Tool == "" {
		return
	}
	if late || err == nil && failed {
		u.tools.Of(c.Tool).Failure()
	} else if err == nil {
		u.tools.Of(c.Tool).Success()
	}
}

// refused turns the answer of a server that refuses a request by an HTTP status
// alone into what the client would have been told by an error object. Other
// errors stay what they are.
func refused(method string, err error) error {
	st, ok := errors.AsType[*mcp.StatusError](err)
	if !ok {
		return err
	}
	said := st.Error()
	if text := st.Text(); text != "" {
		said += ": " + text
	}
	switch st.Status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		if mcp.Standard(method) {
			return fault.New(fault.InvalidParams, "", "%s: the server refuses the request: %s", method, said).Because(err)
		}
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		if mcp.Standard(method) {
			return err // there is no server at that address
		}
	case http.StatusRequestEntityTooLarge:
		return &fault.Error{Kind: fault.TooLarge, Msg: method + ": the request is larger than the server takes: " + said, Hint: "Send less.", Err: err}
	default:
		return err
	}
	return fault.New(fault.UnknownMethod, "", "the server does not know the method %q: %s", method, said).Because(err)
}

// isRefusal reports whether err is of refused's making: nothing is wrong with
// the server.
func isRefusal(err error) bool {
	return fault.Is(err, fault.InvalidParams) || fault.Is(err, fault.UnknownMethod) || fault.Is(err, fault.TooLarge)
}

// isFailure reports whether an error object says that the server failed, as
// opposed to the request being wrong.
func isFailure(object []byte) bool {
	if object == nil {
		return false
	}
	code, _ := strconv.Atoi(string(wire.Get(object, "code")))
	return code == -32603 || code <= -32000 && code >= -32019 && code != -32002
}

// fault says to the client what became of its request.
func (u *Upstream) fault(ctx context.Context, o *mcp.Outgoing, err error) error {
	told := u.cause(ctx, o, err)
	if f, ok := errors.AsType[*fault.Error](told); ok {
		if safe := u.discreet(f); safe != f {
			return safe
		}
	}
	return told
}

func (u *Upstream) cause(ctx context.Context, o *mcp.Outgoing, err error) error {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		if f.Subject == "" {
			named := *f
			named.Subject = u.opts.Name
			return &named
		}
		return err
	}
	switch {
	case ctx.Err() != nil && errors.Is(err, mcp.ErrNotSent):
		return fault.New(fault.Cancelled, u.opts.Name, "the call was cancelled before it was sent").Because(err)
	case ctx.Err() != nil:
		return fault.New(fault.Cancelled, u.opts.Name, "the call was cancelled while it was at work; whether it took effect is not known").Because(err)
	case errors.Is(err, mcp.ErrNotSent):
		return u.unreachable(err)
	case errors.Is(err, mcp.ErrLost):
		return fault.New(fault.UpstreamLost, u.opts.Name, "%s: %v", o.Method, err).Because(err)
	}
	if st, ok := errors.AsType[*mcp.StatusError](err); ok {
		f := fault.New(fault.Unreachable, u.opts.Name, "%s: %v", o.Method, st)
		if st.Status == 401 || st.Status == 403 {
			f.Hint = "The server refuses our credentials: check its headers in the config."
		}
		return f.Because(fmt.Errorf("%s: %.200s", st.Type, st.Body))
	}
	return fault.New(fault.UpstreamLost, u.opts.Name, "%s: %v", o.Method, err).Because(err)
}

// watch is a Stream that keeps a request's time: progress gives it more, and
// while a person is asked it stops.
type watch struct {
	mcp.Stream
	timeout time.Duration // without progress
	most    time.Duration // in all
	end     time.Time
	cancel  context.CancelCauseFunc
	timer   *time.Timer

	mu     sync.Mutex
	asking int
}

func (w *watch) expire() {
	w.mu.Lock()
	over := !time.Now().Before(w.end)
	w.mu.Unlock()
	if over && w.most > w.timeout {
		w.cancel(fault.New(fault.Timeout, "", "no answer within %v, however much progress is reported", w.most))
		return
	}
	w.cancel(fault.New(fault.Timeout, "", "no answer within %v", w.timeout))
}

func (w *watch) rearm() {
	w.timer.Reset(min(w.timeout, max(time.Until(w.end), 0)))
}

func (w *watch) Notify(method string, params []byte) {
	w.Stream.Notify(method, params)
	w.mu.Lock()
	defer w.mu.Unlock()
	if method == "notifications/progress" && w.asking == 0 {
		w.rearm()
	}
}

func (w *watch) Ask(ctx context.Context, method string, params []byte) (mcp.Response, error) {
	defer w.pause()()
	// A person may take their time, but not for ever.
	ctx, stop := context.WithTimeoutCause(ctx, askTimeout, fault.New(fault.Timeout, method, "the client did not answer within %v", askTimeout))
	defer stop()
	return w.Stream.Ask(ctx, method, params)
}

// pause stops the request's time until resume is called.
func (w *watch) pause() (resume func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asking++; w.asking == 1 {
		w.timer.Stop()
	}
	began := time.Now()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.end = w.end.Add(time.Since(began))
		if w.asking--; w.asking == 0 {
			w.rearm()
		}
	}
}

// askTimeout bounds how long a client may take to answer a server's request.
const askTimeout = 5 * time.Minute
