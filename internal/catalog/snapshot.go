package catalog

import (
	"encoding/base64"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/spell"
	"github.com/stoahub/stoa/internal/wire"
)

// Snapshot is the merged catalogue at one moment.
type Snapshot struct {
	items   [kinds][]*Item        // sorted by Exposed
	exposed [2]map[string]*Item   // tools and prompts
	bare    [2]map[string][]*Item // tools and prompts by the upstream's name
	uris    map[string][]*Item    // resources by URI
	sources map[string]*Lists     // by upstream
}

// Tools, prompts and so on, sorted by their exposed name.
func (s *Snapshot) Items(k Kind) []*Item { return s.items[k] }

// Of returns the lists of one upstream, or nil.
func (s *Snapshot) Of(upstream string) *Lists { return s.sources[upstream] }

// Tool returns an upstream's tool by the upstream's own name for it, or nil.
func (s *Snapshot) Tool(upstream, name string) *Item {
	for _, it := range s.bare[Tool][name] {
		if it.Upstream == upstream {
			return it
		}
	}
	if l := s.sources[upstream]; l != nil && l.Unlisted {
		for _, it := range l.Items[Tool] {
			if it.Name == name {
				return it
			}
		}
	}
	return nil
}

// BySource returns the tools of one upstream, sorted by their exposed name.
func (s *Snapshot) BySource(upstream string) []*Item {
	var out []*Item
	for _, it := range s.items[Tool] {
		if it.Upstream == upstream {
			out = append(out, it)
		}
	}
	return out
}

func build(sources map[string]*Lists) *Snapshot {
	s := &Snapshot{uris: map[string][]*Item{}, sources: sources}
	names := make([]string, 0, len(sources))
	for name := range sources {
		names = append(names, name)
	}
	sort.Strings(names)
	for k := range 2 {
		s.exposed[k], s.bare[k] = map[string]*Item{}, map[string][]*Item{}
	}
	for _, name := range names {
		if sources[name].Unlisted {
			continue
		}
		for k := range kinds {
			for _, it := range sources[name].Items[k] {
				s.add(it)
			}
		}
	}
	s.collide()
	for k := range kinds {
		slices.SortStableFunc(s.items[k], func(a, b *Item) int { return a.compare(b.Exposed, b.Upstream) })
	}
	return s
}

func (s *Snapshot) add(it *Item) {
	switch it.Kind {
	case Tool, Prompt:
		if _, dup := s.exposed[it.Kind][it.Exposed]; dup {
			return // the upstream says it twice; the first is kept
		}
		s.exposed[it.Kind][it.Exposed] = it
		s.bare[it.Kind][it.Name] = append(s.bare[it.Kind][it.Name], it)
	case Resource:
		for _, other := range s.uris[it.Name] {
			if other.Upstream == it.Upstream {
				return
			}
		}
		s.uris[it.Name] = append(s.uris[it.Name], it)
	}
	s.items[it.Kind] = append(s.items[it.Kind], it)
}

// collide gives resources that several upstreams offer under one URI names
// that tell them apart. Items are shared with other snapshots, so the renamed
// ones are copies.
func (s *Snapshot) collide() {
	for i, it := range s.items[Resource] {
		if len(s.uris[it.Name]) < 2 {
			continue
		}
		c := *it
		c.Exposed = Prefixed(it.Upstream, it.Name)
		c.Shown = wire.Edit(nil, it.Raw, wire.Change{Name: "uri", Value: wire.Quote(c.Exposed)})
		s.items[Resource][i] = &c
	}
}

// Prefixed is the URI that names one upstream's resource without doubt.
func Prefixed(upstream, uri string) string { return upstream + "+" + uri }

// Sight says what is there for somebody. To them, the rest does not exist.
type Sight struct {
	Server func(name string) bool // whether anything of a server may be
	Item   func(*Item) bool       // whether an item is
}

// All is the sight of who sees everything.
var All = Sight{Server: func(string) bool { return true }, Item: func(*Item) bool { return true }}

// Find resolves the name of a tool or prompt in any form that we accept.
func (s *Snapshot) Find(k Kind, name string, see Sight) (*Item, error) {
	if it := s.exposed[k][name]; it != nil && see.Item(it) {
		return it, nil
	}
	ref := strings.TrimPrefix(name, "mcp:")
	if upstream, bare, ok := strings.Cut(ref, ":"); ok {
		for _, it := range s.bare[k][bare] {
			if it.Upstream == upstream && see.Item(it) {
				return it, nil
			}
		}
	}
	var found []*Item
	for _, it := range s.bare[k][name] {
		if see.Item(it) {
			found = append(found, it)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, s.unknown(k, name, see)
	}
	var candidates []string
	for _, it := range found {
		candidates = append(candidates, it.Exposed)
	}
	f := fault.New(fault.UnknownTool, name, "several upstreams have a %s of that name: %s", k, strings.Join(candidates, ", "))
	f.Hint = "Use one of these names."
	return nil, f.With("candidates", candidates)
}

func (s *Snapshot) unknown(k Kind, name string, see Sight) error {
	f := fault.New(fault.UnknownTool, name, "unknown %s", k)
	if near := s.near(k, name, see); len(near) > 0 {
		f.Hint = fmt.Sprintf("Did you mean %s?", strings.Join(near, " or "))
		f.With("close", near)
	}
	return f
}

// near lists the exposed names that are closest to a misspelt one, which may
// have been meant as an upstream's own name.
func (s *Snapshot) near(k Kind, name string, see Sight) []string {
	var exposed, bare []string
	whose := map[string]string{}
	for _, it := range s.items[k] {
		if see.Item(it) {
			exposed, bare = append(exposed, it.Exposed), append(bare, it.Name)
			whose[it.Name] = it.Exposed
		}
	}
	near := spell.Near(name, exposed, 3)
	for _, b := range spell.Near(name, bare, 3-len(near)) {
		if !slices.Contains(near, whose[b]) {
			near = append(near, whose[b])
		}
	}
	return near
}

// Route finds whose resource a URI is, and the URI that upstream knows it by.
// It tries, in order: the prefixed form of a listed resource, the lists, the
// prefixed form of any other, the templates, and the only upstream with
// resources of that scheme. A URI that merely looks prefixed, such as
// git+ssh://host where there is an upstream git, is thus found if it is listed.
func (s *Snapshot) Route(uri string, see Sight) (upstream, own string, err error) {
	up, rest, prefixed := strings.Cut(uri, "+")
	prefixed = prefixed && s.sources[up] != nil && see.Server(up) && strings.Contains(rest, ":")
	if prefixed && slices.ContainsFunc(s.uris[rest], func(it *Item) bool { return it.Upstream == up && see.Item(it) }) {
		return up, rest, nil
	}
	for _, it := range s.uris[uri] {
		if see.Item(it) {
			return it.Upstream, uri, nil
		}
	}
	if prefixed {
		return up, rest, nil
	}
	for _, it := range s.items[Template] {
		if see.Item(it) && it.Matches(uri) {
			return it.Upstream, uri, nil
		}
	}
	if up := s.onlyOf(scheme(uri), see); up != "" {
		return up, uri, nil
	}
	return "", "", fault.New(fault.ResourceNotFound, uri, "no upstream offers this resource").With("uri", uri)
}

func scheme(uri string) string {
	sch, _, _ := strings.Cut(uri, ":")
	return sch
}

func (s *Snapshot) onlyOf(sch string, see Sight) string {
	found := ""
	for _, k := range []Kind{Resource, Template} {
		for _, it := range s.items[k] {
			if scheme(it.Name) != sch || !see.Item(it) || it.Upstream == found {
				continue
			}
			if found != "" {
				return ""
			}
			found = it.Upstream
		}
	}
	return found
}

// The size of one page of a list.
const (
	pageItems = 1000
	pageBytes = 4 << 20
	moreItems = 100 // of View.More: clients read them to a model
	moreBytes = 64 << 10
)

// Page renders one page of a list as the members of a result, without braces:
// the array and, if there is more, the cursor. Definitions are those for clients
// of the era; on stateful faces tools take saveAs.
func (s *Snapshot) Page(k Kind, v View, cursor string, sees func(*Item) bool) ([]byte, error) {
	items, more := s.items[k], v.More
	start := 0
	if cursor != "" {
		b, err := base64.RawURLEncoding.DecodeString(cursor)
		switch {
		case err == nil && len(b) > 0 && b[0] == 'a'+byte(k):
			upstream, name, _ := strings.Cut(string(b[1:]), " ")
			start = sort.Search(len(items), func(i int) bool { return items[i].compare(name, upstream) > 0 })
		case err == nil && len(b) > 0 && b[0] == 'A'+byte(k):
			start = len(items)
			more = more[sort.Search(len(more), func(i int) bool { return more[i].Name > string(b[1:]) }):]
		default:
			return nil, fault.New(fault.InvalidParams, k.Method(), "the cursor is none of ours")
		}
	}
	out := append(append([]byte{'"'}, k.Member()...), `":[`...)
	n, last := 0, (*Item)(nil)
	for _, it := range items[start:] {
		if !sees(it) {
			continue
		}
		shown := it.As(v)
		if n > 0 && (n >= pageItems || len(out)+len(shown) > pageBytes) {
			return endPage(out, 'a'+byte(k), last.Upstream+" "+last.Exposed), nil
		}
		if n > 0 {
			out = append(out, ',')
		}
		out = append(out, shown...)
		n, last = n+1, it
	}
	size := 0
	for i, x := range more {
		if size += len(x.Def); i > 0 && (i >= moreItems || size > moreBytes) {
			return endPage(out, 'A'+byte(k), more[i-1].Name), nil
		}
		if n++; n > 1 {
			out = append(out, ',')
		}
		out = append(out, x.Def...)
	}
	return append(out, ']'), nil
}

// endPage ends a page after which there are more: what kind of thing is said, and the
// last of the page.
func endPage(page []byte, kind byte, last string) []byte {
	next := base64.RawURLEncoding.EncodeToString(append([]byte{kind}, last...))
	return append(append(append(page, `],"nextCursor":"`...), next...), '"')
}
