package modules

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/envelope"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// BatchName is the tool that runs several calls at once.
const BatchName = "tools_batch"

// The bounds of a batch.
const (
	maxBatch      = 100
	batchParallel = 8
	maxParallel   = 32
)

// batch returns the tool. run makes one call as if its client had made it
// itself, so that each is checked, queued and counted.
// A result has at most that many bytes.
func batch(run func(context.Context, *mcp.Request) (mcp.Response, error), messageBytes int) Tool {
	return Tool{
		Name: BatchName, Title: "Call several tools", Destructive: true, // whatever it calls may be
		Description: "Run several independent tool calls at once. The results come in the order of the calls; one that fails does not stop the others.",
		Input: fmt.Sprintf(`{"type":"object","required":["calls"],"additionalProperties":false,"properties":{
			"calls":{"type":"array","minItems":1,"maxItems":%d,"items":{"type":"object","required":["tool"],"additionalProperties":false,"properties":{
				"tool":{"type":"string"},
				"arguments":{"type":"object"},
				"saveAs":{"type":"string","description":"Keep the result as @name."}}}},
			"parallel":{"type":"integer","minimum":1,"maximum":%d}}}`, maxBatch, maxParallel),
		Run: func(ctx context.Context, req *mcp.Request, args json.RawMessage) (any, error) {
			return runBatch(ctx, req, args, run, messageBytes/3) // told as text and as data they still fit
		},
	}
}

type batchCall struct {
	Tool   string `json:"tool"`
	SaveAs string `json:"saveAs"`
	raw    []byte // its arguments, as they were written
}

func runBatch(ctx context.Context, req *mcp.Request, args json.RawMessage, run func(context.Context, *mcp.Request) (mcp.Response, error), most int) (any, error) {
	a, err := decode[struct{ Parallel int }](args)
	if err != nil {
		return nil, err
	}
	elems, _ := wire.Elements(wire.Get(args, "calls"))
	calls := make([]batchCall, len(elems))
	for i, e := range elems {
		if calls[i], err = decode[batchCall](e); err != nil {
			return nil, err
		}
		if calls[i].Tool == BatchName {
			return nil, &fault.Error{Kind: fault.InvalidArguments, Subject: BatchName, Msg: "a batch cannot be in a batch", Hint: "Put all calls into one."}
		}
		calls[i].raw = wire.Get(e, "arguments")
	}
	parallel := a.Parallel
	if parallel == 0 {
		parallel = batchParallel
	}
	results := make([]json.RawMessage, len(calls))
	failed := make([]bool, len(calls))
	slots := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	var stumbled atomic.Value
	say := sayer(req)
	for i, c := range calls {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			defer func() {
				if p := recover(); p != nil {
					stumbled.Store(fmt.Sprintf("%v\n%s", p, debug.Stack()))
				}
			}()
			e := c.do(ctx, req, say, run)
			failed[i] = !e.Success
			results[i] = wire.Edit(nil, e.JSON(), wire.Change{Name: "tool", Value: wire.Quote(c.Tool)})
		})
	}
	wg.Wait()
	if p := stumbled.Load(); p != nil {
		panic(p) // where it is caught and told, which on another goroutine it is not
	}
	bad := 0
	for _, f := range failed {
		if f {
			bad++
		}
	}
	text := fmt.Sprintf("%d calls", len(calls))
	if bad > 0 {
		text += fmt.Sprintf(", of which %d failed", bad)
	}
	if left := fitBatch(results, most); left > 0 {
		text += "; of " + count(left, "result", "results") + " the data was too long for one answer, and is left out"
	}
	return Answer{Data: map[string]any{"results": results, "failed": bad}, Message: text}, nil
}

// fitBatch takes the data out of results that one answer has no room for: it
// would be refused as a whole. left is of how many.
func fitBatch(results []json.RawMessage, most int) (left int) {
	size := 0
	for i, r := range results {
		if size+len(r) <= most {
			size += len(r)
			continue
		}
		left++
		said := fmt.Sprintf("the result of %d bytes is left out: the results of a batch may have %d together (a third of limits.messageBytes); call such tools by themselves, or with saveAs", len(r), most)
		results[i] = wire.Edit(nil, r, wire.Change{Name: "data", Value: []byte("null")}, wire.Change{Name: "message", Value: wire.Quote(said)}, wire.Change{Name: "omitted", Value: []byte("true")})
	}
	return left
}

// sayer returns what tells the batch's client in words of its calls, such as that
// one waits for an approval. The calls run at once, and progress has to grow.
func sayer(req *mcp.Request) func(text string) {
	var mu sync.Mutex
	done := mcp.BeforeQueue
	return func(text string) {
		mu.Lock()
		defer mu.Unlock()
		done++
		req.Tell(done, text)
	}
}

// do makes one call.
func (c batchCall) do(ctx context.Context, outer *mcp.Request, say func(string), run func(context.Context, *mcp.Request) (mcp.Response, error)) envelope.Envelope {
	if ctx.Err() != nil {
		return envelope.Bad(context.Cause(ctx))
	}
	params := append(wire.AppendString([]byte(`{"name":`), c.Tool), `,"arguments":`...)
	if c.raw == nil {
		c.raw = []byte("{}")
	}
	params = append(append(params, c.raw...), '}')
	about := []wire.Change{{Name: "progressToken"}}
	if c.SaveAs != "" {
		about = append(about, wire.Change{Name: call.MetaSaveAs, Value: wire.Quote(c.SaveAs)})
	}
	if meta := wire.EditFields(nil, outer.Meta, about...); len(meta) > len("{}") {
		params = wire.Edit(nil, params, wire.Change{Name: "_meta", Value: meta})
	}
	req := &mcp.Request{Method: "tools/call", Params: params, Fields: wire.Members(params), Client: outer.Client.By(actor.ByBatch()), Asked: outer.Asked, Stream: mcp.Discard, Say: say}
	req.Meta = wire.Members(req.Param("_meta"))
	resp, err := run(ctx, req)
	if err != nil {
		return envelope.Bad(err)
	}
	defer resp.Release()
	switch {
	case resp.Error != nil:
		text, _ := wire.String(wire.Get(resp.Error, "message"))
		return envelope.Envelope{Data: append([]byte(nil), resp.Error...), Error: text, Code: envelope.Failed}
	case string(wire.Get(resp.Result, "resultType")) == `"input_required"`:
		return envelope.Bad(&fault.Error{Kind: fault.MissingCapability, Subject: c.Tool, Msg: "the tool needs input", Hint: "Call it by itself."})
	}
	e := envelope.Of(resp.Result)
	e.Data = append([]byte(nil), e.Data...)
	return e
}
