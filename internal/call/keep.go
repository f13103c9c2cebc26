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
func (d *Door) conclude(ctx context.Context, c *Call, t *tooled, resp mcp.Response) (mcp.Response, error) {
	if needsInput(resp.Result) {
		return d.wrap(c, t, resp)
	}
	if t.session == nil || saysError(resp.Result) {
		return resp, nil
	}
	res := session.Result{Raw: resp.Result, Name: t.saveAs, By: client(c.Req.Client), Origin: &session.Origin{Tool: ref(c), Used: t.used}}
	long := false
	if c.Item != nil {
		h := &c.Item.Handling
		res.Envelope = h.Envelope
		if res.Name == "" && h.ResultSaveAs {
			res.Name, res.Data = borne(resp.Result, h.Envelope)
		}
		long = c.Cards && !h.NoCards && len(resp.Result) > h.CardAbove()
	}
	// A person or model that is shown a picture cannot use a description.
	media := hasMedia(resp.Result)
	if res.Name == "" && (!long || media) {
		return resp, nil
	}
	card, err := t.session.Keep(ctx, res)
	if err != nil {
		if res.Name == "" {
			return resp, nil // nobody asked for it
		}
		return annotate(c, resp, "stoa/saveError", fault.Of(err).Wire(c.Req.Client.Era == mcp.Modern), "The result could not be kept: "+fault.Of(err).Text()), nil
	}
	t.saved = card.Name
	about := card.JSON()
	if !c.Cards || media {
		return annotate(c, resp, "stoa/saved", about, "The result is kept as @"+card.Name+"."), nil
	}
	resp.Release()
	return mcp.Response{Result: cardResult(c, card, about)}, nil
}

func needsInput(result []byte) bool {
	return bytes.Contains(result, []byte(`"input_required"`)) && string(wire.Get(result, "resultType")) == `"input_required"`
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
		return c.Principal.Name
	}
	return name
}

// borne returns the name that the result itself asks to be kept under.
func borne(raw []byte, isEnvelope bool) (name string, data []byte) {
	name, data, ok := session.Borne(raw, isEnvelope)
	if !ok || session.ValidName(name) != nil {
		return "", nil
	}
	return name, data
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

// annotate adds to a result what became of it: in its _meta and, on faces with
// cards, where a model reads it.
func annotate(c *Call, resp mcp.Response, key string, about []byte, text string) mcp.Response {
	note := wire.Edit(nil, wire.Get(resp.Result, "_meta"), wire.Change{Name: key, Value: about})
	changes := []wire.Change{{Name: "_meta", Value: note}}
	if c.Cards {
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
