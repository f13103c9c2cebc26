// Package exchange owns one request to a provider over HTTP: its attempts, its
// deadlines, and the errors that come of it. What is sent and how an answer is
// read is the provider's.
//
// An attempt is repeated only while nothing of an answer has been handed on.
// A provider that asks for a pause gets it from every request that shares the
// llm.Hold, so that many of them do not begin again at once. Redirects are not followed:
// they would carry the key elsewhere. No error holds the key.
package exchange

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/wire"
)

// Client asks one provider. It may be used by several goroutines.
type Client struct {
	provider string
	o        llm.Options
	http     *http.Client
}

// New makes a client of options whose defaults are filled in.
func New(provider string, o llm.Options) *Client {
	c := &http.Client{}
	if o.HTTP != nil {
		*c = *o.HTTP
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{provider: provider, o: o, http: c}
}

// Emit hands a delta on. Its error means that nobody listens any more and is
// returned as it is.
type Emit func(llm.Delta) error

// Ask is what is asked, and how the answer is read.
type Ask struct {
	Model  string
	Tried  int    // attempts that were made before
	Method string // empty: POST
	URL    string
	Header http.Header

	// Body makes the body of an attempt; last is why the one before failed.
	Body func(last *llm.Error) ([]byte, error)

	// Read reads a successful answer. What it returns other than an *llm.Error
	// or an error of Emit counts as a broken connection; see Spent.
	Read func(body io.Reader, emit Emit) error

	// Fail says what an unsuccessful answer means; Status and Wait are filled
	// in where it leaves them.
	Fail func(status int, body []byte) *llm.Error
}

var (
	errGone   = errors.New("nobody listens any more")
	errSilent = errors.New("silent for too long")
	errLong   = errors.New("not done in time")
)

const maxErrorBody = 64 << 10

// Stream asks until there is an answer, and hands it to yield.
func (c *Client) Stream(ctx context.Context, ask Ask, yield func(llm.Delta, error) bool) {
	t := tries{yield: yield, n: ask.Tried}
	for c.begin(ctx, &ask, &t) {
		used, err := c.once(ctx, ask, t.last, t.emit)
		if err == nil || errors.Is(err, errGone) || !c.again(ctx, &ask, &t, used, err) {
			return
		}
	}
}

// tries is how far a request has come. What is done between its attempts is
// apart from Stream, whose stack lasts for as long as the answer takes.
type tries struct {
	yield func(llm.Delta, error) bool
	n     int
	said  bool // something of an answer was handed on
	last  *llm.Error
	next  time.Time // when the next may begin
	total llm.Usage
}

func (t *tries) emit(d llm.Delta) error {
	t.said = true
	if !t.yield(d, nil) {
		return errGone
	}
	return nil
}

// begin waits until an attempt may begin, and reports whether it does.
func (c *Client) begin(ctx context.Context, ask *Ask, t *tries) bool {
	if err := c.o.Hold.Wait(ctx, t.next); err != nil {
		e := c.finish(ctx, *ask, err, t.n)
		e.Usage = t.total
		t.yield(llm.Delta{}, e)
		return false
	}
	t.n++
	return true
}

// again reports whether there is another attempt after one that failed.
func (c *Client) again(ctx context.Context, ask *Ask, t *tries, used llm.Usage, err error) bool {
	last := c.finish(ctx, *ask, err, t.n)
	t.total = t.total.Plus(used)
	last.Usage, t.last = t.total, last
	wait := last.Wait
	if wait == 0 {
		wait = c.o.RetryDelay
	}
	if t.said || !last.Retryable() || t.n > c.o.MaxRetries || wait > c.o.MaxWait {
		c.o.Logger.Debug("model gave no answer", "provider", c.provider, "model", ask.Model, "attempts", t.n, "err", last)
		t.yield(llm.Delta{}, last)
		return false
	}
	t.next = time.Now().Add(wait)
	if last.Cause == llm.RateLimited || last.Cause == llm.Overloaded {
		c.o.Hold.Until(t.next) // the others would hear the same
	}
	return t.yield(llm.Delta{Kind: llm.Retrying, Attempt: t.n + 1, Wait: wait, Usage: used, Text: reason(last)}, nil)
}

func reason(e *llm.Error) string {
	plain := *e
	plain.Attempts, plain.Wait = 0, 0
	return plain.Error()
}

// Spent says with err what the answer took that ended in it; nil is nothing.
func Spent(err error, u *llm.Usage) error {
	if err == nil || u == nil {
		return err
	}
	return &spent{err, *u}
}

type spent struct {
	err   error
	usage llm.Usage
}

func (s *spent) Error() string { return s.err.Error() }
func (s *spent) Unwrap() error { return s.err }

// once is one attempt, and what it took if it came to nothing.
func (c *Client) once(parent context.Context, ask Ask, last *llm.Error, emit Emit) (used llm.Usage, err error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	whole := time.AfterFunc(c.o.MaxTime, func() { cancel(errLong) })
	defer whole.Stop()
	quiet := time.AfterFunc(c.o.Timeout, func() { cancel(errSilent) })
	defer quiet.Stop()

	res, err := c.send(ctx, ask, last)
	if err != nil {
		return used, err
	}
	defer func() { _ = res.Body.Close() }()
	r := &watched{r: res.Body, quiet: quiet, timeout: c.o.Timeout}
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(r, maxErrorBody))
		return used, c.refused(ask, res, b)
	}
	err = ask.Read(r, emit)
	if s := (*spent)(nil); errors.As(err, &s) {
		used, err = s.usage, s.err
	}
	if err != nil && !errors.Is(err, errGone) {
		err = causeOf(ctx, err)
	}
	return used, err
}

// send sends one attempt. It is apart from once since what it needs on its
// stack would stay there for as long as the answer takes.
func (c *Client) send(ctx context.Context, ask Ask, last *llm.Error) (*http.Response, error) {
	var body io.Reader = http.NoBody
	if ask.Body != nil {
		b, err := ask.Body(last)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	method := ask.Method
	if method == "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, ask.URL, body)
	if err != nil {
		return nil, &llm.Error{Cause: llm.BadRequest, Detail: "the base URL cannot be used", Err: err}
	}
	for _, h := range []http.Header{{"Content-Type": {"application/json"}}, c.o.Header, ask.Header} {
		for k, v := range h {
			req.Header[http.CanonicalHeaderKey(k)] = v
		}
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return res, nil
}

// Events reads the events of an answer. The connection has a buffer of its own.
func Events(r io.Reader, limit int) *wire.EventReader {
	return wire.NewEventReaderSize(r, limit, 1<<10)
}

// causeOf prefers the reason for which we broke off ourselves.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func (c *Client) refused(ask Ask, res *http.Response, body []byte) *llm.Error {
	var e *llm.Error
	switch {
	case res.StatusCode >= 300 && res.StatusCode < 400:
		e = &llm.Error{Cause: llm.BadRequest, Detail: "the base URL leads elsewhere, and redirects are not followed"}
	default:
		e = ask.Fail(res.StatusCode, body)
	}
	e.Status = res.StatusCode
	if w := RetryAfter(res.Header, time.Now()); e.Wait == 0 && w > 0 {
		e.Wait = w
	}
	return e
}

// finish makes of whatever went wrong the error that the caller sees.
func (c *Client) finish(ctx context.Context, ask Ask, err error, attempts int) *llm.Error {
	var e *llm.Error
	var u *url.Error
	switch {
	case ctx.Err() != nil:
		e = &llm.Error{Cause: llm.Cancelled, Err: context.Cause(ctx)}
	case errors.Is(err, errSilent):
		e = &llm.Error{Cause: llm.TimedOut, Err: err}
	case errors.Is(err, errLong):
		e = &llm.Error{Cause: llm.TimedOut, Detail: "the answer as a whole took too long", Err: err}
	case errors.As(err, &e):
		e = new(*e)
	case errors.As(err, &u):
		// Without the address, which may hold what is not to be seen.
		e = &llm.Error{Cause: llm.Network, Detail: u.Err.Error(), Err: u.Err}
	default:
		e = &llm.Error{Cause: llm.Network, Detail: "the answer broke off: " + err.Error(), Err: err}
	}
	e.Provider, e.Model, e.Attempts = c.provider, ask.Model, attempts
	e.Detail = c.clean(e.Detail)
	return e
}

// watched counts silence only while somebody waits for bytes: a slow listener
// is not the provider's fault.
type watched struct {
	r       io.Reader
	quiet   *time.Timer
	timeout time.Duration
}

func (w *watched) Read(p []byte) (int, error) {
	w.quiet.Reset(w.timeout)
	n, err := w.r.Read(p)
	w.quiet.Stop()
	return n, err
}
