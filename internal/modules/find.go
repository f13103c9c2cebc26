package modules

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/rank"
	"github.com/stoahub/stoa/internal/wire"
)

// SearchName is the tool that finds tools.
const SearchName = "tools_search"

const (
	foundTools = 5   // tools of one answer, unless told otherwise
	maxFound   = 20  //
	foundText  = 200 // bytes of a description
	maxPages   = 1000
)

// finder returns the tool. run answers a request as if the client of the call
// had made it, so that nothing is found that the client cannot see.
func finder(run func(context.Context, *mcp.Request) (mcp.Response, error)) Tool {
	return Tool{
		Name: SearchName, Title: "Find tools", ReadOnly: true,
		Description: "Find tools by what they do. Use it when no tool you know fits.",
		Input:       fmt.Sprintf(`{"type":"object","required":["query"],"additionalProperties":false,"properties":{"query":{"type":"string"},"limit":{"type":"integer","minimum":1,"maximum":%d}}}`, maxFound),
		Run: func(ctx context.Context, req *mcp.Request, raw json.RawMessage) (any, error) {
			a, err := decode[struct {
				Query string `json:"query"`
				Limit int    `json:"limit"`
			}](raw)
			if err != nil {
				return nil, err
			}
			defs, err := listed(ctx, req, run)
			if err != nil {
				return nil, err
			}
			return inFull(ctx, req, func(_ context.Context, whole bool) (Answer, error) {
				return foundIn(defs, a.Query, a.Limit, whole), nil
			})
		},
	}
}

// foundIn tells which tools fit: the best few, or all where the answer is kept.
func foundIn(defs [][]byte, query string, limit int, whole bool) Answer {
	otherwise := foundTools
	if whole {
		otherwise = len(defs)
	}
	found, fit := findTools(query, cmp.Or(limit, otherwise), defs, whole)
	text := fmt.Sprintf("%d of %d tools fit", fit, len(defs))
	switch {
	case fit == 0:
		text = "no tool fits; say what it should do in other words"
	case fit > len(found):
		text += fmt.Sprintf("; these are the best %d, limit gives more", len(found))
	}
	return Answer{Data: map[string]any{"tools": found}, Message: text}
}

// listed are the definitions of the tools that the client of a request is offered.
func listed(ctx context.Context, req *mcp.Request, run func(context.Context, *mcp.Request) (mcp.Response, error)) (defs [][]byte, err error) {
	params := []byte("{}")
	for range maxPages {
		list := &mcp.Request{Method: "tools/list", Params: params, Fields: wire.Members(params), Client: req.Client, Stream: mcp.Discard}
		list.Session = req.Session
		resp, err := run(ctx, list)
		if err != nil {
			return nil, err
		}
		if resp.Error != nil {
			text, _ := wire.String(wire.Get(resp.Error, "message"))
			return nil, fault.New(fault.Internal, SearchName, "the tools cannot be listed: %s", text)
		}
		page := slices.Clone(resp.Result)
		resp.Release()
		tools, _ := wire.Elements(wire.Get(page, "tools"))
		defs = append(defs, tools...)
		cursor := wire.Get(page, "nextCursor")
		if cursor == nil || string(cursor) == "null" {
			break
		}
		params = append(append([]byte(`{"cursor":`), cursor...), '}')
	}
	return defs, nil
}

// foundTool is a tool as briefly as it can be told: whoever wants to call it has
// to know its arguments, and no more.
type foundTool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Arguments   string `json:"arguments"`
}

// findTools returns the tools that fit best, the best first, and how many fit.
func findTools(query string, limit int, defs [][]byte, whole bool) (found []foundTool, fit int) {
	docs := make([]rank.Doc, len(defs))
	for i, def := range defs {
		docs[i].Name, _ = wire.String(wire.Get(def, "name"))
		docs[i].Text, _ = wire.String(wire.Get(def, "description"))
	}
	scores, order := rank.Scores(query, docs), []int{}
	for i, score := range scores {
		if score > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(scores[j], scores[i]) })
	found = []foundTool{}
	for _, i := range order[:min(limit, len(order))] {
		about, _, _ := strings.Cut(strings.TrimSpace(docs[i].Text), "\n")
		if len(about) > foundText && !whole {
			about = strings.ToValidUTF8(about[:foundText], "") + "…"
		}
		found = append(found, foundTool{docs[i].Name, about, signature(wire.Get(defs[i], "inputSchema"))})
	}
	return found, len(order)
}

// signature says which arguments a schema wants: "path: string, depth?: integer".
func signature(schema []byte) string {
	var required []string
	_ = json.Unmarshal(wire.Get(schema, "required"), &required) // what is no list of names requires nothing
	var out []string
	for _, f := range wire.Members(wire.Get(schema, "properties")) {
		name := string(f.Name)
		if !slices.Contains(required, name) {
			name += "?"
		}
		out = append(out, name+": "+typeOf(f.Value))
	}
	return strings.Join(out, ", ")
}

func typeOf(schema []byte) string {
	if choice := wire.Get(schema, "enum"); choice != nil && len(choice) <= foundText {
		return string(choice)
	}
	kind, ok := wire.String(wire.Get(schema, "type"))
	switch {
	case !ok:
		return "any"
	case kind == "array":
		return "[" + typeOf(wire.Get(schema, "items")) + "]"
	}
	return kind
}
