package mcp

import (
	"context"

	"github.com/stoahub/stoa/internal/wire"
)

// pipeStream is the Stream of one request on a pipe.
type pipeStream struct {
	p    *pipe
	asks bool
}

func (s *pipeStream) Notify(method string, params []byte) {
	s.p.send(func(dst []byte) []byte { return wire.AppendRequest(dst, nil, method, params) })
}

func (s *pipeStream) Flush() {}

func (s *pipeStream) CanAsk() bool { return s.asks }

func (s *pipeStream) Ask(ctx context.Context, method string, params []byte) (Response, error) {
	if !s.asks {
		return Response{}, errCannotAsk
	}
	return s.p.asks.ask(ctx, s, func(id []byte) bool {
		return s.p.send(func(dst []byte) []byte { return wire.AppendRequest(dst, id, method, params) })
	})
}
