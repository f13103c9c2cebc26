package modules

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strings"

	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/wire"
)

// ContextName is the name of the module that keeps values.
const ContextName = "context"

const contextGuide = `Values that you store with context_add, or by the argument saveAs of any tool, can be passed to any tool by reference: the text "@name", or "@name.path[0]" for a part, is replaced by the value before the call. Write "@@" for a text that begins with @. Use references instead of repeating long data.`

// Context returns the module that stores, reads and lists the values of a
// Session.
func Context(r *session.Registry) *Module {
	m := contextModule{r}
	const sessionArg = `"session":{"type":"string","description":"Left out: the connection's."}`
	const nameArg = `"name":{"type":"string"}`
	return New(ContextName, contextGuide, &Resources{
		Templates: []string{`{"uriTemplate":"stoa://context/{name}","name":"context","title":"Stored values","description":"A value of the session, by its name."}`},
		Read:      m.read,
	},
		Tool{Name: "context_add", Title: "Store a value", Run: m.add,
			Description: `Store data under a name, for later calls of any tool to refer to as "@name" or "@name.path".`,
			Input: `{"type":"object","required":["name","data"],"additionalProperties":false,"properties":{
				"name":{"type":"string","description":"Letters, digits, _ and -; at most 64."},
				"data":{"description":"Any JSON value."},
				"description":{"type":"string","maxLength":4096},
				"over":{"type":"integer","minimum":0,"description":"Only if this version is the current one; 0: only if nothing has the name."},` + sessionArg + `}}`},
		Tool{Name: "context_get", Title: "Read a value", Run: m.get, ReadOnly: true,
			Description: `Read a stored value, or a part of it. A long value is read page by page, or searched with grep.`,
			Input: `{"type":"object","required":["name"],"additionalProperties":false,"properties":{` + nameArg + `,
				"path":{"type":"string","description":"A part, such as rows[0].title or [\"odd key\"]."},
				"version":{"type":"integer","minimum":1},
				"offset":{"type":"integer","minimum":0},
				"limit":{"type":"integer","minimum":1},
				"unit":{"enum":["elements","members","lines","characters"],"description":"What offset and limit count."},
				"grep":{"type":"string","maxLength":1000,"description":"A regular expression: answer with what matches."},
				"whole":{"type":"boolean","description":"However long it is."},` + sessionArg + `}}`},
		Tool{Name: "context_list", Title: "List the values", Run: m.list, ReadOnly: true,
			Description: `List what is stored: names, types, sizes and where values came from.`,
			Input:       `{"type":"object","additionalProperties":false,"properties":{"filter":{"type":"string","maxLength":200,"description":"Of names, such as api*."},` + pageArgs + `,` + sessionArg + `}}`},
		Tool{Name: "context_remove", Title: "Remove a value", Run: m.remove, Destructive: true, Idempotent: true,
			Description: `Remove a stored value and its history.`,
			Input:       `{"type":"object","required":["name"],"additionalProperties":false,"properties":{` + nameArg + `,` + sessionArg + `}}`},
		Tool{Name: "context_history", Title: "Earlier versions of a value", Run: m.history, ReadOnly: true,
			Description: `List the versions of a value, newest first.`,
			Input:       `{"type":"object","required":["name"],"additionalProperties":false,"properties":{` + nameArg + `,` + pageArgs + `,` + sessionArg + `}}`},
	)
}

type contextModule struct{ r *session.Registry }

type contextArgs struct {
	Name        string          `json:"name"`
	Data        json.RawMessage `json:"data"`
	Description string          `json:"description"`
	Over        *int            `json:"over"`
	Session     string          `json:"session"`
	Path        string          `json:"path"`
	Version     int             `json:"version"`
	Offset      *int            `json:"offset"`
	Limit       int             `json:"limit"`
	Unit        string          `json:"unit"`
	Grep        string          `json:"grep"`
	Whole       bool            `json:"whole"`
	Filter      string          `json:"filter"`
}

func (a *contextArgs) offset() int {
	if a.Offset == nil {
		return 0
	}
	return *a.Offset
}

// bound returns the arguments and the Session that they are about; nil if the
// request is bound to none.
func (m contextModule) bound(req *mcp.Request, raw json.RawMessage) (contextArgs, *session.Session, error) {
	a, err := decode[contextArgs](raw)
	if err != nil {
		return a, nil, err
	}
	name := a.Session
	if name == "" {
		name = req.Session
	}
	s, err := call.Bind(m.r, req.Client, name)
	return a, s, err
}

// must is bound for what needs a Session.
func (m contextModule) must(req *mcp.Request, raw json.RawMessage) (contextArgs, *session.Session, error) {
	a, s, err := m.bound(req, raw)
	if err == nil && s == nil {
		err = &fault.Error{Kind: fault.SessionRequired, Msg: "this request is bound to no session",
			Hint: `Pass the session that context_add answered with as the argument session, or name one by the header Stoa-Session.`}
	}
	return a, s, err
}

func (m contextModule) add(ctx context.Context, req *mcp.Request, raw json.RawMessage) (any, error) {
	a, s, err := m.bound(req, raw)
	if err != nil {
		return nil, err
	}
	minted := s == nil
	if minted {
		s = m.r.Mint(req.Client.Actor.Name())
	}
	// The data as it was written: decoding would lose what numbers look like.
	n := session.New{Name: a.Name, Data: wire.Get(raw, "data"), Description: a.Description, By: who(req.Client), Author: req.Client.Actor.Record()}
	if a.Over != nil {
		n.Over, n.Fresh = *a.Over, *a.Over == 0
	}
	v, replaced, err := s.Put(ctx, n)
	if err != nil {
		return nil, err
	}
	data := map[string]any{"name": v.Name, "version": v.Version, "type": v.Type, "size": v.Size, "reference": "@" + v.Name, "replaced": replaced > 0}
	text := fmt.Sprintf("stored %s", v.Name)
	if replaced > 0 {
		text = fmt.Sprintf("stored version %d of %s, which replaces version %d", v.Version, v.Name, replaced)
	}
	if minted {
		data["session"] = s.Name()
		data["reference"] = "@" + s.Name() + ":" + v.Name
		text += fmt.Sprintf(" in a new session; pass session %q to go on with it, or refer to @%s:%s", s.Name(), s.Name(), v.Name)
	}
	return Answer{Data: data, Message: text}, nil
}

// who is how a client calls itself.
func who(c *mcp.Client) string {
	if name, _ := wire.String(wire.Get(c.Info, "name")); name != "" {
		return name
	}
	return c.Actor.Name()
}

// wholeBytes is how long a value may be to be answered whole unasked.
const wholeBytes = 64 << 10

func (m contextModule) get(ctx context.Context, req *mcp.Request, raw json.RawMessage) (any, error) {
	a, s, err := m.must(req, raw)
	if err != nil {
		return nil, err
	}
	v, err := surely(ctx, s, func() (session.Value, error) {
		if a.Version > 0 {
			return s.Version(a.Name, a.Version, 0)
		}
		return s.Value(a.Name)
	})
	if err != nil {
		return nil, err
	}
	path, err := session.ParsePath(a.Path)
	if err != nil {
		return nil, err
	}
	data, err := s.Data(ctx, v)
	if err != nil {
		return nil, err
	}
	part, err := session.Dig(data, path)
	if err != nil {
		return nil, err
	}
	switch {
	case a.Grep != "":
		return m.grep(part, a, req.Kept)
	case a.Offset != nil || a.Limit > 0 || a.Unit != "":
		return m.page(part, a, req.Kept)
	case len(part) > wholeBytes && !a.Whole && !req.Kept:
		return m.page(part, a, false)
	}
	_, summary := session.Describe(part)
	return Answer{Data: json.RawMessage(part), Message: fmt.Sprintf("%s%s, version %d: %s", v.Name, session.FormatPath(path), v.Version, summary)}, nil
}

// surely has find say that something is not there only if it is at no hub: another
// may just have stored it.
func surely[T any](ctx context.Context, s *session.Session, find func() (T, error)) (T, error) {
	found, err := find()
	if err == nil {
		return found, nil
	}
	if err := s.Latest(ctx); err != nil {
		return found, err
	}
	return find()
}

// page is the part that is asked for. Where it is kept it is all that was asked for.
func (m contextModule) page(part []byte, a contextArgs, whole bool) (any, error) {
	r := session.Range{Unit: session.Unit(a.Unit), Offset: a.offset(), Limit: a.Limit}
	if whole {
		r.Bytes = math.MaxInt
	}
	p, err := session.PageOf(part, nil, r)
	if err != nil {
		return nil, err
	}
	data := map[string]any{"page": json.RawMessage(p.Data), "unit": p.Unit, "offset": p.Offset, "total": p.Total}
	text := fmt.Sprintf("%s from %d on, of %d", p.Unit, p.Offset, p.Total)
	if p.Next > 0 {
		data["next"] = p.Next
		text += fmt.Sprintf("; go on with offset %d", p.Next)
	}
	if p.Note != "" {
		text += "; " + p.Note
	}
	return Answer{Data: data, Message: text}, nil
}

func (m contextModule) grep(part []byte, a contextArgs, whole bool) (any, error) {
	search := session.Search{Max: a.Limit, Whole: whole}
	if whole && a.Limit == 0 {
		search.Max = math.MaxInt
	}
	found, more, err := session.Grep(part, a.Grep, search)
	if err != nil {
		return nil, err
	}
	text := count(len(found), "match", "matches")
	if more {
		text += "; there are more: use a narrower pattern, a path, or a higher limit"
	}
	return Answer{Data: map[string]any{"matches": found, "more": more}, Message: text}, nil
}

func (m contextModule) list(ctx context.Context, req *mcp.Request, raw json.RawMessage) (any, error) {
	a, s, err := m.must(req, raw)
	if err != nil {
		return nil, err
	}
	values, err := s.Values(a.Filter)
	if err != nil {
		return nil, err
	}
	return inFull(ctx, req, func(_ context.Context, whole bool) (Answer, error) {
		part, next := paged(values, a.offset(), a.Limit, whole)
		data := map[string]any{"session": s.Name(), "count": len(values), "values": part}
		if next > 0 {
			data["next"] = next
		}
		return Answer{Data: data, Message: pageText(len(values), a.offset(), len(part), next, "value", "values")}, nil
	})
}

func (m contextModule) remove(ctx context.Context, req *mcp.Request, raw json.RawMessage) (any, error) {
	a, s, err := m.must(req, raw)
	if err != nil {
		return nil, err
	}
	if err := s.Remove(ctx, a.Name); err != nil {
		return nil, err
	}
	return Answer{Data: map[string]any{"name": a.Name, "removed": true}, Message: "removed " + a.Name}, nil
}

func (m contextModule) history(ctx context.Context, req *mcp.Request, raw json.RawMessage) (any, error) {
	a, s, err := m.must(req, raw)
	if err != nil {
		return nil, err
	}
	versions, err := surely(ctx, s, func() ([]session.Value, error) { return s.History(a.Name) })
	if err != nil {
		return nil, err
	}
	return inFull(ctx, req, func(_ context.Context, whole bool) (Answer, error) {
		part, next := paged(versions, a.offset(), a.Limit, whole)
		data := map[string]any{"name": a.Name, "count": len(versions), "versions": part}
		if next > 0 {
			data["next"] = next
		}
		return Answer{Data: data, Message: pageText(len(versions), a.offset(), len(part), next, "version", "versions")}, nil
	})
}

// uriPrefix is that of the resources that are values.
const uriPrefix = "stoa://context/"

// ValueURI is the address of a value as a resource.
func ValueURI(name string) string { return uriPrefix + url.PathEscape(name) }

// ValueName returns the name of the value at an address.
func ValueName(uri string) (string, bool) {
	rest, ok := strings.CutPrefix(uri, uriPrefix)
	if !ok {
		return "", false
	}
	name, err := url.PathUnescape(rest)
	return name, err == nil && session.ValidName(name) == nil
}

// MIME is the type of a value as a resource. A value that is several things at
// once is read as what each of them is.
func MIME(typ string) string {
	switch {
	case strings.Contains(typ, "/"):
		return typ
	case typ == "text":
		return "text/plain"
	}
	return "application/json"
}

// read returns a value as the contents of a resource.
func (m contextModule) read(ctx context.Context, req *mcp.Request, uri string) ([]byte, error) {
	missing := fault.New(fault.ResourceNotFound, uri, "the session holds no such value")
	name, ok := ValueName(uri)
	if !ok {
		return nil, missing
	}
	s, err := call.Bind(m.r, req.Client, req.Session)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, missing
	}
	v, err := surely(ctx, s, func() (session.Value, error) { return s.Value(name) })
	if err != nil {
		return nil, missing.Because(err)
	}
	data, err := s.Data(ctx, v)
	if err != nil {
		return nil, err
	}
	return contents(uri, data), nil
}

// contents renders a value: text as text, pictures and sounds as what they
// are, all else as JSON.
func contents(uri string, data []byte) []byte {
	one := func(mime, member string, value []byte) []byte {
		out := wire.AppendString([]byte(`{"uri":`), uri)
		out = wire.AppendString(append(out, `,"mimeType":`...), mime)
		return append(append(append(append(out, `,"`...), member...), `":`...), append(value, '}')...)
	}
	if len(data) > 0 && data[0] == '"' {
		return one("text/plain", "text", data[:len(data):len(data)])
	}
	blocks, isList := wire.Elements(data)
	if !isList {
		blocks = [][]byte{data}
	}
	var parts [][]byte
	media := false
	for _, b := range blocks {
		kind, _ := wire.String(wire.Get(b, "type"))
		mime, _ := wire.String(wire.Get(b, "mimeType"))
		raw := wire.Get(b, "data")
		switch {
		case (kind == "image" || kind == "audio") && mime != "" && isText(raw):
			media = true
			parts = append(parts, one(mime, "blob", raw[:len(raw):len(raw)]))
		case kind == "text" && isText(wire.Get(b, "text")):
			raw = wire.Get(b, "text")
			parts = append(parts, one("text/plain", "text", raw[:len(raw):len(raw)]))
		}
	}
	if media && len(parts) == len(blocks) {
		return bytes.Join(parts, []byte{','})
	}
	return one("application/json", "text", wire.Quote(string(data)))
}

// count says how many of something there are.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func isText(raw []byte) bool { return len(raw) > 0 && raw[0] == '"' }
