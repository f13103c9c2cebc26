package mcp

import (
	"context"
	"strconv"
	"sync"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// asks are the requests that a client has been sent and not answered yet.
type asks struct {
	mu      sync.Mutex
	next    int64
	waiting map[string]chan Response
	closed  bool
}

// maxAsks bounds what one client can be asked at a time.
const maxAsks = 64

// ask sends a request by send, which gets the id to use, and waits. If ctx ends
// first, the client is told on st that it need not answer any more.
func (a *asks) ask(ctx context.Context, st Stream, send func(id []byte) bool) (Response, error) {
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return Response{}, fault.New(fault.Cancelled, "", "the client's connection is closed")
	}
	if len(a.waiting) >= maxAsks {
		a.mu.Unlock()
		return Response{}, fault.New(fault.Limit, "", "the client has %d unanswered requests already", maxAsks)
	}
	a.next++
	id := wire.Quote("stoa-" + strconv.FormatInt(a.next, 10))
	if a.waiting == nil {
		a.waiting = map[string]chan Response{}
	}
	ch := make(chan Response, 1)
	a.waiting[string(id)] = ch
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(a.waiting, string(id))
		a.mu.Unlock()
	}()
	if !send(id) {
		return Response{}, errCannotAsk
	}
	select {
	case r, ok := <-ch:
		if !ok {
			return Response{}, fault.New(fault.Cancelled, "", "the client's connection is closed")
		}
		return r, nil
	case <-ctx.Done():
		st.Notify(noteCancelled, append(append([]byte(`{"requestId":`), id...), '}'))
		st.Flush()
		return Response{}, context.Cause(ctx)
	}
}

// answer hands a client's response to whoever waits for it. The message's
// bytes are copied.
func (a *asks) answer(m *wire.Message) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	ch, ok := a.waiting[string(m.ID)]
	if !ok {
		return false
	}
	delete(a.waiting, string(m.ID))
	var r Response
	if m.Error != nil {
		r.Error = append([]byte(nil), m.Error...)
	} else {
		r.Result = append([]byte(nil), m.Result...)
	}
	ch <- r
	return true
}

// tooLong tells whoever waits for a client's response that it was larger than
// the limit.
func (a *asks) tooLong(id []byte, limit int) {
	f := fault.New(fault.Limit, "", "the client's answer is larger than %d bytes", limit).With("limit", limit)
	a.answer(&wire.Message{ID: id, Error: f.Wire(true)})
}

func (a *asks) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for id, ch := range a.waiting {
		delete(a.waiting, id)
		close(ch)
	}
}
