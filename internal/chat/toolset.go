package chat

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/spell"
	"github.com/stoahub/stoa/internal/wire"
)

// Tool is what the model of a conversation may call.
type Tool struct {
	llm.Tool
	policy.Subject
}

// safe reports whether calls of the tool may run beside each other.
func (t *Tool) safe() bool {
	yes := func(b *bool) bool { return b != nil && *b }
	return yes(t.ReadOnly) || yes(t.Idempotent)
}

// toolset is what can be called at one moment. It is not changed.
type toolset struct {
	offered []llm.Tool // what the model is told of
	brief   briefing   // the same in fewer words
	byName  map[string]*Tool
	tools   []*Tool // those that are offered, sorted as they were listed
	all     []*Tool // and those that can be called by name alone
	stale   []string
	guide   string // of all servers, as of guides
	guides  []string
}

// sets keeps the toolsets that were last used: what is listed changes rarely,
// and to read it takes long if it is long.
type sets struct {
	mu   sync.Mutex
	list []keptSet
}

type keptSet struct {
	key [sha256.Size]byte
	set *toolset
}

const keptSets = 16

// offers lists the tools of the turn.
func (t *turn) offers(ctx context.Context) (*toolset, error) {
	pages, err := t.pages(ctx, "tools/list")
	if err != nil {
		return nil, err
	}
	prompts, err := t.pages(ctx, "prompts/list")
	if err != nil {
		prompts = nil // guidance can be done without
	}
	sum := sha256.New()
	for _, p := range pages {
		sum.Write(p)
	}
	for _, p := range prompts {
		sum.Write(p)
	}
	var key [sha256.Size]byte
	sum.Sum(key[:0])
	if set := t.e.sets.get(key); set != nil && !t.e.guides.due(set) {
		return set, nil
	}
	set := t.read(pages)
	set.guide = t.guide(ctx, set, prompts)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	t.e.sets.put(key, set)
	return set, nil
}

func (s *sets) get(key [sha256.Size]byte) *toolset {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.list {
		if s.list[i].key == key {
			return s.list[i].set
		}
	}
	return nil
}

func (s *sets) put(key [sha256.Size]byte, set *toolset) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(k keptSet) bool { return k.key == key })
	if len(s.list) >= keptSets {
		s.list = slices.Delete(s.list, 0, 1)
	}
	s.list = append(s.list, keptSet{key, set})
}

// pages asks for a list until its end.
func (t *turn) pages(ctx context.Context, method string) ([][]byte, error) {
	var out [][]byte
	for cursor := []byte(nil); ; {
		params := []byte("{}")
		if cursor != nil {
			params = append(append([]byte(`{"cursor":`), cursor...), '}')
		}
		req := t.message(method, params, mcp.Discard)
		req.All = mcp.On // the model may name what it is not offered
		resp, err := t.handle(ctx, req)
		if err != nil {
			return nil, err
		}
		if resp.Error != nil {
			text, _ := wire.String(wire.Get(resp.Error, "message"))
			return nil, fmt.Errorf("%s: %s", method, text)
		}
		page := append([]byte(nil), resp.Result...)
		resp.Release()
		out = append(out, page)
		if cursor = wire.Get(page, "nextCursor"); cursor == nil || string(cursor) == "null" || len(out) > 1000 {
			return out, nil
		}
	}
}

// message makes a request of the turn.
func (t *turn) message(method string, params []byte, stream mcp.Stream) *mcp.Request {
	req := &mcp.Request{Method: method, Params: params, Fields: wire.Members(params), Client: t.client, Stream: stream}
	req.Session, req.Turn, req.Correlation = t.session, t.id, t.input.Correlation
	req.Meta = wire.Members(req.Param("_meta"))
	return req
}

// read makes a toolset of the pages of a list.
func (t *turn) read(pages [][]byte) *toolset {
	set := &toolset{byName: map[string]*Tool{}}
	unlisted := map[string]bool{}
	if len(pages) > 0 {
		names, _ := wire.Elements(wire.Get(wire.Get(pages[0], "_meta"), mcp.MetaUnlisted))
		for _, raw := range names {
			name, _ := wire.String(raw)
			unlisted[name] = true
		}
	}
	for _, page := range pages {
		defs, _ := wire.Elements(wire.Get(page, "tools"))
		for _, def := range defs {
			tool := t.e.define(def)
			if tool == nil || set.byName[tool.Tool.Name] != nil {
				continue
			}
			set.byName[tool.Tool.Name] = tool
			if set.all = append(set.all, tool); unlisted[tool.Tool.Name] {
				continue
			}
			set.tools = append(set.tools, tool)
			set.offered = append(set.offered, tool.Tool)
		}
		stale, _ := wire.Elements(wire.Get(wire.Get(page, "_meta"), "stoa/stale"))
		for _, raw := range stale {
			if name, ok := wire.String(raw); ok && !slices.Contains(set.stale, name) {
				set.stale = append(set.stale, name)
			}
		}
	}
	return set
}

// define reads the definition of a tool.
func (e *Engine) define(def []byte) *Tool {
	tool := &Tool{}
	for _, f := range wire.Members(def) {
		switch string(f.Name) {
		case "name":
			tool.Tool.Name, _ = wire.String(f.Value)
		case "description":
			tool.Description, _ = wire.String(f.Value)
		case "inputSchema":
			tool.Schema = f.Value
		case "annotations":
			tool.Annotate(f.Value)
		}
	}
	name := tool.Tool.Name
	if name == "" {
		return nil
	}
	tool.Subject.Tool = name
	up, bare, prefixed := strings.Cut(name, "__")
	tool.Upstream, tool.Ref = up, up+":"+bare
	if !prefixed {
		tool.Upstream, tool.Ref = ownServer, name
	}
	if e.opts.Find != nil {
		if up, ref, ok := e.opts.Find(name); ok {
			tool.Upstream, tool.Ref = up, ref
		}
	}
	return tool
}

// ownServer is whose the tools of the hub are where nobody knows better.
const ownServer = "stoa"

// find returns the tool that a model means, and else the names that are near.
func (s *toolset) find(name string) (*Tool, []string) {
	if t := s.byName[name]; t != nil {
		return t, nil
	}
	var hits []*Tool
	names := make([]string, 0, len(s.all))
	for _, t := range s.all {
		names = append(names, t.Tool.Name)
		_, bare, _ := strings.Cut(t.Ref, ":")
		if name == t.Ref || name == "mcp:"+t.Ref || bare != "" && name == bare {
			hits = append(hits, t)
		}
	}
	if len(hits) == 1 {
		return hits[0], nil
	}
	var near []string
	for _, t := range hits {
		near = append(near, t.Tool.Name)
	}
	if near == nil {
		near = spell.Near(name, names, 3)
	}
	if near == nil && len(names) <= 5 {
		near = names
	}
	return nil, near
}

// Tools lists what the model of an agent ("" is the chat host) may call in a
// conversation.
func (c *Conversation) Tools(ctx context.Context, agent string) ([]Tool, error) {
	who, name := c.owner()
	a, err := c.e.agentFor(actor.New(actor.Chat, who), name, agent)
	if err != nil {
		return nil, err
	}
	t := c.e.aside(who, name, a)
	set, err := t.offers(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]Tool, 0, len(set.all))
	for _, tool := range set.all {
		out = append(out, *tool)
	}
	return out, nil
}
