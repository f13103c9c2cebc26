package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/task"
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
	resp, failure, err := u.try(ctx, o, c)
	renewed, lost := false, 0
	for n := 0; err != nil && u.again(ctx, err, c); {
		if errors.Is(err, mcp.ErrLost) {
			lost++
		}
		forgot := errors.Is(err, mcp.ErrSessionLost)
		switch {
		case forgot && !renewed:
			renewed = true // a new handshake cures it, and the call was not begun
		case forgot:
			err = fmt.Errorf("%w: %w", errForgets, err)
			return mcp.Response{}, u.ended(ctx, o, c, began, "", err)
		case lost < mostLost && !isAnswered(err) && u.returning(ctx, c, began): // it was restarted, maybe
			renewed = false // and then it knows no session from before
		case n < u.retries(c):
			n++
			if errors.Is(err, mcp.ErrLost) && !u.answers(ctx, o, c) {
				return mcp.Response{}, u.ended(ctx, o, c, began, failure, err)
			}
		default:
			return mcp.Response{}, u.ended(ctx, o, c, began, failure, err)
		}
		resp, failure, err = u.try(ctx, o, c)
	}
	if err := u.ended(ctx, o, c, began, failure, err); err != nil {
		return mcp.Response{}, err
	}
	return resp, nil
}

// isAnswered reports whether an error is the server's own answer: it is there.
func isAnswered(err error) bool {
	_, ok := errors.AsType[*mcp.StatusError](err)
	return ok
}

// errForgets means that a server refused a session at once that it had just
// opened: another handshake would not cure that.
var errForgets = errors.New("the server opens sessions and does not know them: are there several instances behind one address, without affinity?")

// ended judges how a request ended and says it to the client.
func (u *Upstream) ended(ctx context.Context, o *mcp.Outgoing, c Call, began time.Time, failure string, err error) error {
	u.judge(ctx, o, c, began, failure, err)
	if err == nil {
		return nil
	}
	told := fault.Of(u.fault(ctx, o, err))
	if !c.Repeat && !errors.Is(err, mcp.ErrNotSent) {
		return told
	}
	switch {
	case told.Begun, told.Kind == fault.Cancelled, told.Kind == fault.Timeout, told.Kind == fault.UpstreamLost:
		harmless := *told
		harmless.Harmless = true
		harmless.Hint = cmp.Or(harmless.Hint, "Call again if the result is still wanted.")
		return &harmless
	}
	return told
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

// try sends the request once. failure is why the server failed, if its answer
// says that, in its own words: the codes of the client's era may mean other
// things.
func (u *Upstream) try(ctx context.Context, o *mcp.Outgoing, c Call) (resp mcp.Response, failure string, err error) {
	l, err := u.link(ctx, o.Client, o.Asked.Session)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", mcp.ErrNotSent, err) // there was not even a connection
	}
	if err != nil {
		return mcp.Response{}, "", err
	}
	defer l.release()
	if ctx.Err() != nil { // whoever asked has left before it was sent
		return mcp.Response{}, "", fmt.Errorf("%w: %w", mcp.ErrNotSent, context.Cause(ctx))
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
		return mcp.Response{}, "", err
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
		err = begun(err)
	}
	if err != nil {
		u.missed(l, err)
		return resp, "", refused(o.Method, err)
	}
	if u.down.Load() || u.away.Load() {
		u.back(l)
	}
	failure = failureOf(resp.Error)
	if o.Client != nil && o.Client.Era != l.key.era {
		resp, err = mcp.Translate(o.Method, resp, o.Client)
	}
	return mcp.Plain(o.Method, resp, o.Client), failure, err
}

func (l *link) release() {
	l.used.Store(time.Now().UnixNano())
	l.busy.Add(-1)
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

// fault says to the client what became of its request.
func (u *Upstream) fault(ctx context.Context, o *mcp.Outgoing, err error) error {
	told := u.cause(ctx, o, err)
	if f, ok := errors.AsType[*fault.Error](told); ok {
		if safe := u.quoting(u.discreet(f), o.Client); safe != f {
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
	case errors.Is(err, errForgets):
		f := fault.New(fault.Unreachable, u.opts.Name, "%v", errForgets).Because(err)
		f.Hint = "Run one instance of the server, have them share sessions, or send each session to the instance that opened it."
		return f
	case errors.Is(err, mcp.ErrNotSent):
		return u.unreachable(err, o.Client)
	case errors.Is(err, mcp.ErrLost):
		return fault.New(fault.UpstreamLost, u.opts.Name, "%s: %v", o.Method, err).Because(err)
	}
	if st, ok := errors.AsType[*mcp.StatusError](err); ok {
		return u.answered(o.Method, st)
	}
	return fault.New(fault.UpstreamLost, u.opts.Name, "%s: %v", o.Method, err).Because(err)
}

// answered says what an HTTP answer means that carries no response: either the
// server refused the request, or nobody knows what became of it.
func (u *Upstream) answered(method string, st *mcp.StatusError) *fault.Error {
	because := fmt.Errorf("%s: %.200s", st.Type, st.Body)
	if !st.Refused() {
		fate := ""
		if method == "tools/call" || !mcp.Standard(method) {
			fate = "; the call may have taken effect"
		}
		return fault.New(fault.UpstreamLost, u.opts.Name, "%s: %v%s", method, st, fate).Because(because)
	}
	f := fault.New(fault.Unreachable, u.opts.Name, "%s: %v", method, st).Because(because)
	switch st.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		f.Hint = "The server refuses our credentials: check its headers in the config."
	case http.StatusTooManyRequests:
		f.Hint = "The server limits how often it may be called: call again later."
	}
	return f
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
