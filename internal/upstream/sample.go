package upstream

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// A server may ask for the answer of a model. Where the hub gives it, the
// client of the call is not asked and need not be able to answer; all else that
// the server asks goes to the client as ever.

// Sampling is who answers where a server asks for a model.
type Sampling struct {
	// Answer returns a CreateMessageResult; nil refuses every request. An
	// error of kind Denied means that it was not allowed.
	Answer func(ctx context.Context, s Sample) (result []byte, err error)
}

// Sample is a server's request for the answer of a model.
type Sample struct {
	Client  *mcp.Client // on whose behalf the server works
	Session string      // the Session of the call; empty for none
	Method  string      // of the call
	Name    string      // of the tool, prompt or resource that was called for, as the server names it
	Params  []byte      // valid until Answer returns
}

// maxSamples bounds how often a server may ask for a model during one call.
const maxSamples = 32

// capability is what servers are told of models that the hub asks: they can be
// given tools, and are not given what other servers said.
var capability = []byte(`{"tools":{}}`)

func (s *Sampling) sampler() *mcp.Sampler {
	if s.Answer == nil {
		return &mcp.Sampler{}
	}
	return &mcp.Sampler{Capability: capability}
}

// unsampled is why the hub's own model gave a modern server no answer.
type unsampled struct{ err error }

func (e *unsampled) Error() string { return e.err.Error() }
func (e *unsampled) Unwrap() error { return e.err }

// host makes the hub answer for o where the server asks for a model, if it is
// to, and undoes what carry did. It returns how often the server has asked in
// this call, or nil if the client is asked.
func (u *Upstream) host(o *mcp.Outgoing, l *link, w *watch) (asked *atomic.Int32, err error) {
	if o.Client == nil {
		return nil, nil
	}
	era := l.key.era
	var before int32
	if era == mcp.Modern && o.Client.Era == mcp.Modern {
		// Also if the client is asked by now: the server knows nothing of it.
		if before, err = u.carried(o); err != nil {
			return nil, err
		}
	}
	if u.opts.Sampling == nil {
		return nil, nil
	}
	asked = new(atomic.Int32)
	asked.Store(before)
	o.Sampler = u.opts.Sampling.sampler()
	answer := u.opts.Sampling.Answer
	if answer == nil {
		return asked, nil
	}
	if o.Tasks && wire.Get(wire.Get(l.hello.Capabilities, "extensions"), mcp.TasksExtension) != nil {
		// What a task of the server's own asks for is put to the client.
		o.Sampler.Capability = wire.Get(o.Client.Capabilities, "sampling")
	}
	s := Sample{Client: o.Client, Session: cmp.Or(o.Asked.Session, o.Client.Connection), Method: o.Method, Name: o.Name}
	o.Sampler.Answer = func(ctx context.Context, params []byte) (mcp.Response, error) {
		if asked.Add(1) > maxSamples {
			return mcp.Response{}, fault.New(fault.Limit, u.opts.Name, "the server asked for a model %d times during one call", maxSamples)
		}
		defer w.pause()() // a person is asked
		s := s
		s.Params = params
		result, err := answer(ctx, s)
		if era == mcp.Legacy && fault.Is(err, fault.Denied) {
			return mcp.Response{Error: rejected(fault.Of(err))}, nil
		}
		return mcp.Response{Result: result}, err
	}
	return asked, nil
}

// rejected is how the protocol says that a person would not have it.
func rejected(f *fault.Error) []byte {
	b, err := json.Marshal(map[string]any{"code": -1, "message": f.Msg})
	if err != nil {
		return []byte(`{"code":-1,"message":"User rejected sampling request"}`)
	}
	return b
}

// sampled answers one of a modern server's requests for a model. The era has no
// way to tell the server that there is no answer, so that the call ends.
func sampled(ctx context.Context, o *mcp.Outgoing, request wire.Field) ([]byte, error) {
	resp, err := o.Sampler.Ask(ctx, wire.Get(request.Value, "params"))
	if err != nil {
		return nil, &unsampled{err}
	}
	return resp.Result, nil
}

// hosted answers what a modern server wants of a model and leaves the rest of
// its questions to its modern client.
func (u *Upstream) hosted(ctx context.Context, l *link, o *mcp.Outgoing, asked *atomic.Int32, resp mcp.Response) (mcp.Response, error) {
	for round := 0; resp.Error == nil && mcp.NeedsInput(resp.Result); round++ {
		if round == maxRounds {
			return mcp.Response{}, fault.New(fault.Limit, u.opts.Name, "the server asked for input %d times during one call", maxRounds)
		}
		var answers []wire.Change
		others := []byte("{}")
		for _, f := range wire.Members(wire.Get(resp.Result, "inputRequests")) {
			if method, _ := wire.String(wire.Get(f.Value, "method")); method != mcp.MethodSample {
				others = wire.Edit(nil, others, wire.Change{Name: string(f.Name), Value: f.Value})
				continue
			}
			result, err := sampled(ctx, o, f)
			if err != nil {
				return mcp.Response{}, err
			}
			answers = append(answers, wire.Change{Name: string(f.Name), Value: result})
		}
		if len(answers) == 0 || len(others) > len("{}") {
			return u.carry(o, asked.Load(), answers, others, resp)
		}
		next := *o
		next.Replace("inputResponses", wire.Edit(nil, []byte("{}"), answers...))
		next.Replace("requestState", bytes.Clone(wire.Get(resp.Result, "requestState"))) // it outlives the response
		resp.Release()
		var err error
		if resp, err = l.conn.Call(ctx, &next); err != nil {
			return mcp.Response{}, err
		}
	}
	return resp, nil
}

const carryPrefix = "stoas1."

// carryTime is how long a client may take to come again.
const carryTime = time.Hour

// baggage is what a client carries for us while it answers what else the server
// asked.
type baggage struct {
	State     []byte          `json:"s,omitempty"` // the server's own, raw
	Answers   json.RawMessage `json:"a,omitempty"` // of our model, by the names of the questions
	Asked     int32           `json:"c"`           // how often the server has asked for a model
	Upstream  string          `json:"u"`
	Principal string          `json:"p"`
	Tag       string          `json:"w,omitempty"` // of the actor
	Method    string          `json:"m"`
	Digest    string          `json:"d"`
	Expires   int64           `json:"e"`
}

// carry makes of a demand for input what the client is asked, which brings the
// answers of the model back with its own.
func (u *Upstream) carry(o *mcp.Outgoing, asked int32, answers []wire.Change, others []byte, resp mcp.Response) (mcp.Response, error) {
	if asked == 0 {
		return resp, nil // the server wants nothing of a model
	}
	b := baggage{State: wire.Get(resp.Result, "requestState"), Asked: asked, Upstream: u.opts.Name, Principal: o.Client.Actor.Name(), Tag: o.Client.Actor.Tag(),
		Method: o.Method, Digest: digest(o), Expires: time.Now().Add(carryTime).UnixMilli()}
	if len(answers) > 0 {
		b.Answers = wire.Edit(nil, []byte("{}"), answers...)
	}
	state, err := u.pool.parking.key.Sign(carryPrefix, b)
	if err != nil {
		return mcp.Response{}, fault.New(fault.Internal, u.opts.Name, "the state of the call could not be kept").Because(err)
	}
	changes := []wire.Change{{Name: "requestState", Value: wire.Quote(state)}}
	if len(answers) > 0 {
		changes = append(changes, wire.Change{Name: "inputRequests", Value: others})
	}
	out := wire.Edit(nil, resp.Result, changes...)
	resp.Release()
	return mcp.Response{Result: out}, nil
}

// carried puts what the client carried for us where the server wants it, and
// returns how often the server has asked for a model before.
func (u *Upstream) carried(o *mcp.Outgoing) (asked int32, err error) {
	var state string
	given := []byte("{}")
	for _, f := range o.Fields {
		switch string(f.Name) {
		case "requestState":
			state, _ = wire.String(f.Value)
		case "inputResponses":
			given = f.Value
		}
	}
	if !strings.HasPrefix(state, carryPrefix) {
		return 0, nil
	}
	var b baggage
	if err := u.pool.parking.key.Open(carryPrefix, state, &b); err != nil {
		return 0, fault.New(fault.InvalidParams, "requestState", "%v", err)
	}
	switch {
	case b.Principal != o.Client.Actor.Name() || b.Tag != o.Client.Actor.Tag() || b.Upstream != u.opts.Name || b.Method != o.Method || b.Digest != digest(o):
		return 0, fault.New(fault.InvalidParams, "requestState", "it belongs to another request")
	case time.Now().UnixMilli() > b.Expires:
		return 0, fault.New(fault.ContinuationLost, u.opts.Name, "the input came too late")
	}
	if b.State == nil {
		o.Drop("requestState")
	} else {
		o.Replace("requestState", b.State)
	}
	var ours []wire.Change
	for _, f := range wire.Members(b.Answers) {
		ours = append(ours, wire.Change{Name: string(f.Name), Value: f.Value})
	}
	if ours != nil {
		o.Replace("inputResponses", wire.Edit(nil, given, ours...))
	}
	return b.Asked, nil
}
