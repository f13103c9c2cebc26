package mcp

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/stoahub/stoa/internal/fault"
)

// A mistake of ours in what we make of somebody's message must cost no more than
// what that message was about. These are the guards of goroutines that nobody
// above can guard. They tell of a panic with its stack, and do nothing where
// nobody wants to be told: then it goes on.

// stumbled, deferred, makes the end of a connection of a panic: what a server
// sends must not take the hub down.
func (f *inflight) stumbled(shut func(error)) {
	if f.opts.Panicked == nil {
		return
	}
	if v := recover(); v != nil {
		f.opts.Panicked(v, debug.Stack())
		shut(fmt.Errorf("%w: what the server sent made the hub stumble", ErrLost))
	}
}

// put puts a question to whoever is to answer it for p. Nobody else guards the
// goroutine: where that panics the server is told that there is no answer.
func (f *inflight) put(ctx context.Context, p *pending, what Capability, method string, params []byte) (resp Response, err error) {
	if f.opts.Panicked != nil {
		defer func() {
			if v := recover(); v != nil {
				f.opts.Panicked(v, debug.Stack())
				resp, err = Response{}, fault.New(fault.Internal, method, "the question made the hub stumble")
			}
		}()
	}
	return p.put(ctx, what, method, params)
}

// caught, deferred, makes an error of a panic, which answers the request of
// that id: on a goroutine that nobody else guards it would end the process.
func (p *pipe) caught(in *slot, id []byte, modern bool) {
	if p.opts.Panicked == nil {
		return
	}
	if v := recover(); v != nil {
		p.opts.Panicked(v, debug.Stack())
		if id != nil {
			p.fault(in, id, modern, fault.New(fault.Internal, "", "the request made the hub stumble"))
		}
	}
}
