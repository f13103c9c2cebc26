package mcp

import (
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/wire"
)

// Witness is told of the messages between clients and us that no handler tells
// of: those that need none, such as pings, and those that are refused before
// one could be asked.
type Witness interface {
	// Watching reports whether it wants to know at all.
	Watching() bool
	// Saw is told of one message. Nothing in it may be kept.
	Saw(*Spoken)
}

// Spoken is one message, or a request with its answer.
type Spoken struct {
	What Speech
	Face string // the name of the agent whose face it is; empty for any other
	// Request is what was said; of one that could not be read, its params are
	// the whole of it and there is no method.
	*Request
	Response Response // Answered
	Err      error    // Answered, in place of a response
	Took     time.Duration
}

// Speech is who said something.
type Speech int

const (
	Answered Speech = iota // a client, and we answered
	Heard                  // a client, and there is no answer, or not yet
	Said                   // we, to a client
)

// told is a Witness where one is wanted, and the face that it hears of.
type told struct {
	to   Witness
	face string
}

func (t told) watching() bool { return t.to != nil && t.to.Watching() }

// began is when a request came, if somebody wants to know.
func (t told) began() time.Time {
	if !t.watching() {
		return time.Time{}
	}
	return time.Now()
}

// answered tells of a request that was begun then, unless a handler did.
func (t told) answered(began time.Time, req *Request, resp Response, err error) {
	if !began.IsZero() && !req.Told {
		t.to.Saw(&Spoken{Answered, t.face, req, resp, err, time.Since(began)})
	}
}

// own tells of a request that was answered at once, without any handler.
func (t told) own(m *wire.Message, c *Client, a Asked, resp Response, err error) {
	if t.watching() {
		t.to.Saw(&Spoken{What: Answered, Face: t.face, Request: requestOf(m, c, a), Response: resp, Err: err})
	}
}

// refused tells of what was refused; all is the text of a message that could
// not be read.
func (t told) refused(m *wire.Message, all []byte, who *auth.Principal, err error) {
	if !t.watching() {
		return
	}
	req := requestOf(m, &Client{Actor: actor.New(actor.HTTP, who)}, Asked{})
	if req.Method == "" && req.Params == nil {
		req.Params = all
	}
	t.to.Saw(&Spoken{What: Answered, Face: t.face, Request: req, Err: err})
}

// heard tells of a message that gets no answer, or not yet.
func (t told) heard(m *wire.Message, c *Client, a Asked) {
	if t.watching() {
		t.to.Saw(&Spoken{What: Heard, Face: t.face, Request: requestOf(m, c, a)})
	}
}

// said tells of a notification to a client.
func (t told) said(l *Listener, method string, params []byte) {
	if t.watching() {
		t.to.Saw(&Spoken{What: Said, Face: t.face, Request: &Request{Method: method, Params: params, Client: l.Client, Asked: Asked{Session: l.Session}}})
	}
}

// plain is the form of notifications that are sent as they are.
func (t told) plain(l *Listener) func(note) []byte {
	return func(n note) []byte {
		t.said(l, n.method, n.params)
		return n.params
	}
}

// ended tells of the answer to a request to listen, which was told of when it
// came.
func (t told) ended(l *Listener, result []byte) {
	if t.watching() {
		t.to.Saw(&Spoken{What: Answered, Face: t.face, Response: Response{Result: result},
			Request: &Request{Method: "subscriptions/listen", Client: l.Client, Asked: Asked{Session: l.Session}}})
	}
}

func requestOf(m *wire.Message, c *Client, a Asked) *Request {
	return &Request{Method: m.Method, ID: m.ID, Params: m.Params, Fields: m.Fields, Meta: m.Meta, Client: c, Asked: a}
}
