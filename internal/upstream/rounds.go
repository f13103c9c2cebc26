package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// maxRounds bounds how often a server may ask for input during one call.
const maxRounds = 100

// rounds brings a modern server's demands for input to a legacy client: it
// asks on the call's stream, as the client's era has it, and sends the request
// again with the answers, until the server is satisfied.
func (u *Upstream) rounds(ctx context.Context, l *link, o *mcp.Outgoing, resp mcp.Response) (mcp.Response, error) {
	for round := 0; resp.Error == nil && mcp.NeedsInput(resp.Result); round++ {
		if round == maxRounds {
			return mcp.Response{}, fault.New(fault.Limit, u.opts.Name, "the server asked for input %d times during one call", maxRounds)
		}
		answers, err := answer(ctx, o, resp.Result)
		if err != nil {
			return mcp.Response{}, err
		}
		next := *o
		next.Replace("inputResponses", answers)
		next.Replace("requestState", bytes.Clone(wire.Get(resp.Result, "requestState"))) // it outlives the response
		resp.Release()
		if resp, err = l.conn.Call(ctx, &next); err != nil {
			return mcp.Response{}, err
		}
	}
	return resp, nil
}

// begun is the error of a later round of a call: the server has had the first,
// whatever the error says of this one.
func begun(err error) error {
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Retryable() {
		known := *f
		known.Harmless, known.Begun, known.Hint = false, true, "Check whether the call took effect before repeating it."
		if _, ours := errors.AsType[*unsampled](err); ours {
			return &unsampled{&known}
		}
		return &known
	}
	if errors.Is(err, mcp.ErrNotSent) {
		return fmt.Errorf("%w after the server had begun the call: %v", mcp.ErrLost, err)
	}
	return err
}

// answer asks the client everything that an input_required result wants and
// returns the inputResponses object.
func answer(ctx context.Context, o *mcp.Outgoing, result []byte) ([]byte, error) {
	answers := []wire.Change{}
	for _, f := range wire.Members(wire.Get(result, "inputRequests")) {
		method, _ := wire.String(wire.Get(f.Value, "method"))
		what, known := mcp.Asks(method, wire.Get(f.Value, "params"))
		if what == mcp.Sampling && o.Sampler != nil {
			result, err := sampled(ctx, o, f)
			if err != nil {
				return nil, err
			}
			answers = append(answers, wire.Change{Name: string(f.Name), Value: result})
			continue
		}
		switch {
		case !known:
			return nil, fault.New(fault.MissingCapability, method, "the server asks for something that the client's protocol version does not have")
		case !o.Client.Can(what) || o.Stream == nil || !o.Stream.CanAsk():
			return nil, fault.New(fault.MissingCapability, method, "the server needs the client's answer, and the client cannot be asked for it on this request")
		}
		resp, err := o.Stream.Ask(ctx, method, mcp.LegacyQuestion(method, wire.Get(f.Value, "params")))
		if err != nil {
			return nil, err
		}
		if resp.Error != nil {
			message, _ := wire.String(wire.Get(resp.Error, "message"))
			return nil, fault.New(fault.Cancelled, method, "the client did not answer: %s", message)
		}
		answers = append(answers, wire.Change{Name: string(f.Name), Value: resp.Result})
	}
	return wire.Edit(nil, []byte("{}"), answers...), nil
}
