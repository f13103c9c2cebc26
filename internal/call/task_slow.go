package call

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/task"
	"github.com/stoahub/stoa/internal/wire"
)

// answer is what came of a call that may have become a task.
type answer struct {
	resp mcp.Response
	err  error
}

// slow is a call that becomes a task if it takes long.
type slow struct {
	k      *Tasks
	c      *Call
	work   task.Work
	began  time.Time
	cancel context.CancelCauseFunc
	done   chan answer // of one
	stream stream

	mu   sync.Mutex
	sent bool       // the upstream may have the request
	task *task.Task // nil until it is one
}

// patient makes a call and waits a moment for it. If that was not enough it
// becomes a task, and goes on.
func (k *Tasks) patient(ctx context.Context, c *Call) (mcp.Response, error) {
	own, cancel := context.WithCancelCause(obs.Descend(k.ctx, ctx))
	s := &slow{k: k, work: k.work(c, origins(ctx, c)), began: time.Now(), cancel: cancel, done: make(chan answer, 1), stream: stream{to: c.Req.Stream}}
	s.c = s.copy(c)
	unbind := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer unbind()
	k.wg.Go(func() {
		resp, err := k.guarded(own, s.c)
		s.done <- answer{resp, err}
	})
	plain := func(a answer) (mcp.Response, error) {
		cancel(nil)
		c.Req.Told = true // the door was given a copy
		return a.resp, a.err
	}
	moment := time.NewTimer(k.opts.Grace)
	defer moment.Stop()
	select {
	case a := <-s.done:
		return plain(a)
	case <-moment.C:
	}
	s.stream.Flush()
	t, err := s.become(ctx)
	if err != nil {
		// It cannot be kept: then it is the plain call that it was.
		if f := fault.Of(err); k.opts.Logger != nil {
			k.opts.Logger.Warn("a call could not become a task", "upstream", c.Upstream.Name(), "err", f)
		}
		return plain(<-s.done)
	}
	if !unbind() { // the client has gone, and was never told of it
		_ = t.Cancel(context.WithoutCancel(ctx), "its client went away")
		s.stream.leave()
		return mcp.Response{}, context.Cause(ctx)
	}
	s.stream.leave()
	return made(t), nil
}

// copy is a call that shares no memory with its request.
func (s *slow) copy(c *Call) *Call {
	next, req := *c, *c.Req
	req.Params = bytes.Clone(c.Req.Params)
	req.Fields = wire.Members(req.Params)
	req.Meta = wire.Members(req.Param("_meta"))
	req.ID, req.Token = bytes.Clone(c.Req.ID), bytes.Clone(c.Req.Token)
	if req.Header != nil {
		req.Header = c.Req.Header.Clone()
	}
	old := c.Req.Client
	req.Client = &mcp.Client{Era: old.Era, Version: old.Version, Info: bytes.Clone(old.Info), Capabilities: bytes.Clone(old.Capabilities), Connection: old.Connection, Actor: old.Actor.By(actor.ByTask())}
	if req.Token == nil {
		req.Token = taskToken // what is said of it is wanted if it becomes a task
	}
	s.stream.token = c.Req.Token != nil
	req.Stream = &s.stream
	next.Req, next.Key, next.Starting = &req, s.work.Key, s.starting
	return &next
}

// starting notes that the upstream has the request from now on.
func (s *slow) starting(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.task != nil {
		return s.task.Starting(ctx)
	}
	s.sent = true
	return nil
}

// become makes the call a task.
func (s *slow) become(ctx context.Context) (*task.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.k.kept.Create(ctx, s.work, s.c.Req.Params, s.sent, s.follow)
	s.task = t
	if err == nil {
		s.k.created(t)
	}
	return t, err
}

// follow is the Runner of a call that was begun before it became a task.
func (s *slow) follow(ctx context.Context, r *task.Run) task.Outcome {
	k := s.k
	defer k.hold(s.c)()
	s.stream.turn(&sink{run: r})
	stop := context.AfterFunc(ctx, func() { s.cancel(context.Cause(ctx)) })
	defer stop()
	a := <-s.done
	defer s.cancel(nil)
	ctx, span := k.span(ctx, r)
	c := *s.c
	req := *s.c.Req
	req.Stream, req.Token, req.ID, req.Header = &sink{run: r}, taskToken, nil, nil
	c.Req, c.Starting = &req, r.Starting
	out := k.rounds(ctx, r, &c, &req, s.began, a.resp, a.err)
	span.End(kindOf(out))
	return out
}

// stream is that of a client until the call becomes a task's.
type stream struct {
	mu     sync.Mutex
	to     mcp.Stream
	token  bool // who listens wants to hear of progress
	turned bool // it is the task's
}

// leave makes sure that nothing goes to the client any more, who has its
// answer.
func (s *stream) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.turned {
		s.to = mcp.Discard
	}
}

func (s *stream) turn(to mcp.Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to, s.token, s.turned = to, true, true
}

func (s *stream) Notify(method string, params []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token || method != "notifications/progress" {
		s.to.Notify(method, params)
	}
}

func (s *stream) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to.Flush()
}

func (s *stream) CanAsk() bool { return false }
func (s *stream) Ask(ctx context.Context, method string, params []byte) (mcp.Response, error) {
	return mcp.Discard.Ask(ctx, method, params)
}

var (
	_ mcp.Stream = (*sink)(nil)
	_ mcp.Stream = (*stream)(nil)
)
