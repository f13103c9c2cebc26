package catalog

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/schema"
	"github.com/stoahub/stoa/internal/wire"
)

// Kind is what an Item is.
type Kind int

const (
	Tool Kind = iota
	Prompt
	Resource
	Template
	kinds
)

// Method is the protocol's method that lists the kind, and Member the member
// of its result.
func (k Kind) Method() string {
	return [...]string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"}[k]
}

func (k Kind) Member() string {
	return [...]string{"tools", "prompts", "resources", "resourceTemplates"}[k]
}

func (k Kind) String() string {
	return [...]string{"tool", "prompt", "resource", "resource template"}[k]
}

// identity is the member of a definition that names it.
func (k Kind) identity() string {
	return [...]string{"name", "name", "uri", "uriTemplate"}[k]
}

// Item is one tool, prompt, resource or template of an upstream.
type Item struct {
	Kind       Kind
	Upstream   string
	Name       string    // as the upstream says: a name, a URI or a template
	Exposed    string    // as we say on merged faces
	Raw        []byte    // the definition, as the upstream said it
	Shown      []byte    // the definition, as we say it on merged faces
	eras       [2][]byte // Shown for legacy and for modern clients; nil where it is the same
	Notes      []string
	Schema     *schema.Lazy     // of a tool's arguments
	Bindings   []schema.Binding // of a tool's arguments to headers
	ReadOnly   bool             // the tool is said to change nothing
	Idempotent bool             // the tool is said to bear repetition
	CacheFor   time.Duration    // the config has results reused for so long; 0 means never. See Caches
	Digest     string           // then: of the definition
	Priority   string           // of a call in the upstream's queue; empty for none in particular
	Timeout    time.Duration    // of a call of the tool; 0 means the upstream's own
	Handling   Handling
	Trusted    bool      // what the definition says of itself counts: its annotations
	Standing   *Standing // nil if its server's definitions are not pinned
	Stat       *Stat

	pure    bool           // the tool says both that it is read-only and that it is idempotent
	kept    *stateful      // of a tool
	own     []byte         // what Shown is if the definition is not held; nil if it never was
	pattern *regexp.Regexp // of a template
}

// Ref is the item's name across upstreams.
func (i *Item) Ref() string { return i.Upstream + ":" + i.Name }

// compare orders lists. Templates of several upstreams may have one name, so
// that the name alone would not tell where a page ended.
func (i *Item) compare(exposed, upstream string) int {
	return cmp.Or(strings.Compare(i.Exposed, exposed), strings.Compare(i.Upstream, upstream))
}

// Parse makes an Item of a definition. It fails only if the definition has no
// usable name.
func Parse(kind Kind, upstream string, raw []byte) (*Item, error) {
	fields := wire.Members(raw)
	var name string
	for _, f := range fields {
		if string(f.Name) == kind.identity() {
			name, _ = wire.String(f.Value)
			break
		}
	}
	if name == "" {
		return nil, fmt.Errorf("a %s without a %s: %.80s", kind, kind.identity(), raw)
	}
	if len(name) > 4096 {
		return nil, fmt.Errorf("a %s whose %s is %d bytes long: %.80s…", kind, kind.identity(), len(name), name)
	}
	it := &Item{Kind: kind, Upstream: upstream, Name: name, Exposed: name, Raw: raw, Shown: raw, Stat: &Stat{}}
	switch kind {
	case Tool:
		it.Exposed = Expose(upstream, name)
		it.kept = &stateful{}
		it.tool(fields)
	case Prompt:
		it.Exposed = Expose(upstream, name)
		it.Shown = wire.EditFields(nil, fields, wire.Change{Name: "name", Value: wire.Quote(it.Exposed)})
	case Template:
		it.pattern = pattern(name)
		if it.pattern == nil {
			it.note("the URI template %q cannot be matched; its resources are found only by other ways", name)
		}
	}
	return it, nil
}

func (i *Item) note(format string, args ...any) {
	i.Notes = append(i.Notes, fmt.Sprintf(format, args...))
}

// tool reads what a tool's definition says besides its name. A schema that
// strict clients would refuse the whole list for is mended where it is shown.
func (i *Item) tool(fields []wire.Field) {
	changes := []wire.Change{{Name: "name", Value: wire.Quote(i.Exposed)}}
	var input []byte
	for _, f := range fields {
		switch string(f.Name) {
		case "inputSchema":
			input = f.Value
		case "annotations":
			i.annotate(f.Value)
		}
	}
	switch {
	case len(input) == 0 || input[0] != '{':
		i.note("the input schema is missing or no object; the tool is offered with one that takes anything")
		changes = append(changes, wire.Change{Name: "inputSchema", Value: []byte(`{"type":"object"}`)})
		input = nil
	case string(wire.Get(input, "type")) != `"object"`:
		i.note(`the input schema does not say "type": "object"; it is offered as if it did`)
		changes = append(changes, wire.Change{Name: "inputSchema", Value: wire.Edit(nil, input, wire.Change{Name: "type", Value: []byte(`"object"`)})})
	}
	if input != nil {
		i.Schema = &schema.Lazy{Raw: input}
		bindings, err := schema.Headers(input)
		if err != nil {
			i.note("x-mcp-header: %v", err)
		}
		i.Bindings = bindings
	}
	i.show(wire.EditFields(nil, fields, changes...))
}

// annotate takes in what a tool's annotations say of repetition.
func (i *Item) annotate(annotations []byte) {
	i.ReadOnly = string(wire.Get(annotations, "readOnlyHint")) == "true"
	idempotent := string(wire.Get(annotations, "idempotentHint")) == "true"
	i.Idempotent = i.ReadOnly || idempotent
	i.pure = i.ReadOnly && idempotent
}

// show makes def what is said of a tool on merged faces.
func (i *Item) show(def []byte) {
	i.Shown = def
	for n, era := range [...]mcp.Era{mcp.Legacy, mcp.Modern} {
		i.eras[n] = nil
		if other := mcp.Define(era, def); len(other) != len(def) { // it only takes away
			i.eras[n] = other
		}
	}
}

// For is Shown as clients of the era can read it.
func (i *Item) For(era mcp.Era) []byte {
	n := 0
	if era == mcp.Modern {
		n = 1
	}
	if i.eras[n] != nil {
		return i.eras[n]
	}
	return i.Shown
}

// Filter says which of an upstream's tools are offered: those that match a
// glob of allow, if there are any, and none of deny.
type Filter struct {
	Allow, Deny []string
}

// Passes reports whether a tool of that name is offered.
func (f Filter) Passes(name string) bool {
	match := func(globs []string) bool {
		for _, g := range globs {
			if ok, _ := path.Match(g, name); ok || g == name {
				return true
			}
		}
		return false
	}
	return (len(f.Allow) == 0 || match(f.Allow)) && !match(f.Deny)
}

// Empty reports whether the filter lets everything pass.
func (f Filter) Empty() bool { return len(f.Allow) == 0 && len(f.Deny) == 0 }

// pattern makes a matcher of a URI template (RFC 6570); nil if it has none.
func pattern(template string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString("^")
	for rest := template; rest != ""; {
		open := strings.IndexByte(rest, '{')
		if open < 0 {
			b.WriteString(regexp.QuoteMeta(rest))
			break
		}
		b.WriteString(regexp.QuoteMeta(rest[:open]))
		end := strings.IndexByte(rest[open:], '}')
		if end < 2 {
			return nil
		}
		b.WriteString(expression(rest[open+1 : open+end]))
		rest = rest[open+end+1:]
	}
	b.WriteString("$")
	re, err := regexp.Compile(b.String())
	if err != nil {
		return nil
	}
	return re
}

func expression(e string) string {
	switch e[0] {
	case '+':
		return "(.+)"
	case '#':
		return "(#.*)?"
	case '/':
		return "(/.*)?"
	case '.':
		return `(\.[^/?#]*)?`
	case ';':
		return "(;[^/?#]*)?"
	case '?', '&':
		return `([?&][^#]*)?`
	}
	if strings.Contains(e, "*") || strings.Contains(e, ",") {
		return "([^?#]*)"
	}
	return "([^/?#]+)"
}
