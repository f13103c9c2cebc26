package call

import (
	"bytes"
	"context"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/wire"
)

// conclude does with a tool's result what the caller, the tool or its length
// ask for. A result that could not be kept is still passed on: it is there, and
// may be all that is left of what the tool did.
func (d *Door) conclude(ctx context.Context, c *Call, t *toolCall, resp mcp.Response) (mcp.Response, error) {
	borne := c.Kept && c.Item != nil && c.Item.Handling.ResultSaveAs
	if t.session == nil && t.used == nil && !borne && !t.approved {
		return resp, nil // without having looked at it, which takes time if it is long
	}
	switch {
	case isTask(resp.Result):
		return resp, nil // there is no result yet
	case needsInput(resp.Result):
		return d.wrap(c, t, resp)
	case t.session == nil && !borne || saysError(resp.Result):
		return resp, nil
	}
	res := session.Result{Raw: resp.Result, Name: t.saveAs, By: client(c.Req.Client), Author: c.Req.Client.Actor.Record(), Origin: &session.Origin{Tool: ref(c), Used: t.used}}
	if c.Item != nil {
		h := &c.Item.Handling
		res.Envelope = h.Envelope
		if res.Name == "" && borne {
			res.Name, res.Data, _ = session.Borne(resp.Result, h.Envelope)
		}
	}
	above := c.cardAbove(t)
	long := above > 0 && len(resp.Result) > above
	// Whoever is shown a picture could not use a description of it.
	cards := c.takesCards(t) && !hasMedia(resp.Result)
	if res.Name == "" && !(long && cards) {
		return resp, nil
	}
	card, err := keep(ctx, t, res)
	if err != nil {
		if res.Name == "" {
			return resp, nil // nobody asked for it
		}
		f := fault.Of(err)
		return annotate(c, resp, "stoa/saveError", f.Wire(c.Req.Client.Era == mcp.Modern), "The result could not be kept: "+f.Text()), nil
	}
	t.saved = card.Name
	about := card.JSON()
	if !cards {
		return annotate(c, resp, "stoa/saved", about, "The result is kept as @"+card.Name+"."), nil
	}
	out := cardResult(c, card, about) // before the release: what is shown of the result may lie in its memory
	resp.Release()
	return mcp.Response{Result: out}, nil
}

// takesCards reports whether a card may take the place of a call's result.
func (c *Call) takesCards(t *toolCall) bool {
	return c.Cards && t.session != nil && !c.Req.Kept && !(c.Item != nil && c.Item.Handling.NoCards)
}

// cardAbove is the length over which a card takes the place of a result; 0 means
// that none does.
func (c *Call) cardAbove(t *toolCall) int {
	if c.Item == nil || !c.takesCards(t) {
		return 0
	}
	return c.Item.Handling.CardAbove()
}

func keep(ctx context.Context, t *toolCall, res session.Result) (session.Card, error) {
	if t.session == nil {
		return session.Card{}, sessionRequired("the result is to be kept in a session")
	}
	return t.session.Keep(ctx, res)
}

func needsInput(result []byte) bool {
	return wire.Contains(result, `"input_required"`, 6) && string(wire.Get(result, "resultType")) == `"input_required"`
}

// ref is the tool's name across upstreams.
func ref(c *Call) string {
	if c.Item != nil {
		return c.Item.Ref()
	}
	name, _ := c.Req.Text("name")
	return c.Upstream.Name() + ":" + name
}

// client is how who asks calls itself.
func client(c *mcp.Client) string {
	name, _ := wire.String(wire.Get(c.Info, "name"))
	if name == "" {
		return c.Actor.Name()
	}
	return name
}

// hasMedia reports whether a result shows a picture or plays a sound.
func hasMedia(result []byte) bool {
	if !bytes.Contains(result, []byte(`"image`)) && !bytes.Contains(result, []byte(`"audio`)) {
		return false
	}
	blocks, _ := wire.Elements(wire.Get(result, "content"))
	for _, b := range blocks {
		switch string(wire.Get(b, "type")) {
		case `"image"`, `"audio"`:
			return true
		}
	}
	return false
}

// annotate adds to a result what became of it: in its _meta and, for a
// model, where it reads it.
func annotate(c *Call, resp mcp.Response, key string, about []byte, text string) mcp.Response {
	note := wire.Edit(nil, wire.Get(resp.Result, "_meta"), wire.Change{Name: key, Value: about})
	changes := []wire.Change{{Name: "_meta", Value: note}}
	if c.Told {
		if blocks, ok := wire.Elements(wire.Get(resp.Result, "content")); ok {
			block := append(wire.AppendString([]byte(`{"type":"text","text":`), text), '}')
			changes = append(changes, wire.Change{Name: "content", Value: append(append([]byte{'['}, bytes.Join(append(blocks, block), []byte{','})...), ']')})
		}
	}
	out := wire.Edit(nil, resp.Result, changes...)
	resp.Release()
	return mcp.Response{Result: out}
}

// cardResult is the result in which a card takes the place of what a tool said.
func cardResult(c *Call, card session.Card, about []byte) []byte {
	out := wire.AppendString([]byte(`{"content":[{"type":"text","text":`), session.CardText(card))
	out = append(append(append(out, `}],"_meta":{"stoa/card":`...), about...), '}')
	if c.Req.Client.Era == mcp.Modern {
		out = append(out, `,"resultType":"complete"`...)
	}
	return append(out, '}')
}
