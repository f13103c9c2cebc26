package mcp

import (
	"context"
	"net/http"
	"sync"

	"github.com/stoahub/stoa/internal/wire"
)

// httpBatch is one POST of an array of messages under way. All its requests
// share one answer: an array, or an event stream with a response per request
// if anything has to be said before the last of them.
type httpBatch struct {
	x     *exchange
	s     *session // nil for a client without one
	st    *httpStream
	slots *batch
	wg    sync.WaitGroup
	kept  []*wire.Message
}

// batch answers an array of messages. It reports whether it did: it does not
// if the client's version knows no batches.
func (x *exchange) batch(body []byte) bool {
	version, err := one(x.r.Header, headerVersion)
	if err != nil || IsModern(version) {
		return false
	}
	id, err := one(x.r.Header, headerSession)
	if err != nil {
		return false
	}
	var s *session
	if id != "" {
		if s, err = x.e.session(id, x.scope, x.who, x.r, x.h); err != nil {
			x.told.refused(&wire.Message{}, body, x.who, err)
			writeFault(x.w, nil, false, err)
			return true
		}
		version = s.client.Version
	}
	if version != "" && version != batchVersion {
		return false
	}
	all, err := splitBatch(body)
	if err != nil {
		x.told.refused(&wire.Message{}, body, x.who, err)
		writeFault(x.w, nil, false, err)
		return true
	}
	sse, rather := accepts(x.r)
	b := &httpBatch{x: x, s: s, slots: newBatch(len(all), x.e.opts.MessageBytes, nil),
		st: &httpStream{ctx: x.r.Context(), agent: isAgent(x.scope), sse: sse, want: rather, session: s, w: x.w}}
	b.run(all)
	return true
}

func (b *httpBatch) run(all [][]byte) {
	var requests []func()
	for i, raw := range all {
		if f := b.take(raw, &b.slots.slots[i]); f != nil {
			requests = append(requests, f)
		}
	}
	if len(requests) > 0 {
		b.st.guardQuiet(b.x.e.opts.KeepAlive)
	}
	for _, f := range requests {
		b.wg.Go(f)
	}
	b.wg.Wait()
	for _, m := range b.kept {
		messages.Put(m)
	}
	b.finish()
}

// take does what has no answer at once, and returns what runs a request.
func (b *httpBatch) take(raw []byte, in *slot) func() {
	m := messages.Get().(*wire.Message)
	b.kept = append(b.kept, m)
	m.Depth = b.x.e.opts.Depth
	if err := m.Scan(raw, wire.FromClient); err != nil {
		b.x.told.refused(m, raw, b.x.who, scanFault(err))
		b.respond(in, m.ID, Response{}, scanFault(err))
		return nil
	}
	switch {
	case m.IsResponse():
		if b.s != nil {
			b.s.asks.answer(m)
		}
		return nil
	case m.IsNotification():
		note := exchange{r: b.x.r, who: b.x.who, h: b.x.h, m: m, told: b.x.told}
		note.note(b.s)
		return nil
	case m.Method == "initialize" || m.MetaValue(metaVersion) != nil:
		b.x.told.refused(m, nil, b.x.who, notInBatch(m.Method))
		b.respond(in, m.ID, Response{}, notInBatch(m.Method))
		return nil
	}
	b.st.want = b.st.want || b.st.sse && progressToken(m) != nil
	return func() {
		ctx, cancel := context.WithCancelCause(b.st.ctx)
		defer cancel(nil)
		if b.s != nil {
			if err := b.s.calls.add(m.ID, cancel); err != nil {
				b.x.told.refused(m, nil, b.x.who, err)
				b.respond(in, m.ID, Response{}, err)
				return
			}
			defer b.s.calls.remove(m.ID)
		}
		resp, err := b.answer(ctx, m)
		if context.Cause(ctx) != errClientCancelled { // a cancelled request gets no answer
			b.respond(in, m.ID, resp, err)
		}
		resp.Release()
	}
}

// answer answers one request of the batch.
func (b *httpBatch) answer(ctx context.Context, m *wire.Message) (Response, error) {
	req := &Request{
		Method: m.Method, ID: m.ID, Params: m.Params, Fields: m.Fields, Meta: m.Meta,
		Client: &Client{Era: Legacy, Version: batchVersion, Actor: b.x.actor()}, Token: progressToken(m), Stream: b.st, Asked: b.x.asked(m),
	}
	if b.s != nil {
		req.Client = b.s.client
	}
	began := b.x.told.began()
	resp, err := b.reply(ctx, m, req)
	b.x.told.answered(began, req, resp, err)
	return resp, err
}

func (b *httpBatch) reply(ctx context.Context, m *wire.Message, req *Request) (Response, error) {
	if m.Method == "ping" {
		return pong, nil
	}
	if err := legacyMethod(m.Method); err != nil {
		return Response{}, err
	}
	if b.s != nil {
		if handled, resp, err := b.s.own(ctx, m); handled {
			return resp, err
		}
	}
	return handle(ctx, b.x.h, req, b.x.e.opts.Panicked)
}

// respond sends the answer to a request at once if the event stream is open or
// wanted, and keeps it for the array otherwise.
func (b *httpBatch) respond(in *slot, id []byte, resp Response, err error) {
	frame := func(dst []byte) []byte { return appendAnswer(dst, id, false, resp, err) }
	if b.st.streams() {
		b.st.event(frame)
		b.st.Flush()
		return
	}
	in.put(id, frame)
}

// streams reports whether the answer is an event stream.
func (s *httpStream) streams() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started || s.want
}

func (b *httpBatch) finish() {
	started := b.st.end()
	if b.st.ctx.Err() != nil {
		return // nobody is there any more
	}
	if started {
		for i := range b.slots.slots {
			if a := b.slots.slots[i].answer; a != nil {
				b.st.write(appendEvent(nil, func(dst []byte) []byte { return append(dst, a...) }))
			}
		}
		return
	}
	if all := b.slots.joined(); all != nil {
		writeJSON(b.x.w, http.StatusOK, all)
		return
	}
	b.x.w.WriteHeader(http.StatusAccepted)
}
