package catalog

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// Handling is what is done with the arguments and results of a tool besides
// passing them on. The zero value is that of an upstream that says nothing.
type Handling struct {
	NoReferences bool   // @name in arguments is just text
	NoSaveAs     bool   // results are not kept by a name that the caller gives
	NoCards      bool   // long results are passed on whole everywhere
	CardBytes    int    // results over it are long; 0 means 16 KiB
	ResultSaveAs bool   // a result {"result": …, "saveAs": "name"} is kept under that name
	Envelope     bool   // results are envelopes, of which the data is kept
	Task         Task   // when a call becomes a durable task
	Carrier      bool   // all it does is to call other tools, each of which is decided about by itself
	Only         string // the principal that it is there for; empty means everybody
	Listed       bool   // lists name it also where its module is not offered
	Keyed        bool   // the same idempotency key twice is one call, so that one that was cut off may be made again
}

// Task says when a call becomes a durable task, for clients that know these.
type Task uint8

// When a call becomes a task.
const (
	TaskNever  Task = iota
	TaskSlow        // when it takes longer than a moment
	TaskAlways      // at once
	TaskMust        // at once, and nobody else may call it
)

// CardAbove is the size over which a result is long.
func (h *Handling) CardAbove() int {
	if h.CardBytes == 0 {
		return 16 << 10
	}
	return h.CardBytes
}

// SaveAs is the argument by which a result is kept.
const SaveAs = "saveAs"

// Extra is a definition that is not in the catalogue.
type Extra struct {
	Name string
	Def  []byte
}

// View is how a definition is looked at.
type View struct {
	Era    mcp.Era
	SaveAs bool    // tools take the argument saveAs
	Cards  bool    // a card may take the place of a long result
	More   []Extra // definitions that follow those of the catalogue, by their names
}

// As returns the definition for clients of that kind.
func (i *Item) As(v View) []byte {
	saveAs, cards := v.SaveAs && i.TakesSaveAs(), v.Cards && !i.Handling.NoCards
	if i.kept == nil || !saveAs && !cards {
		return i.For(v.Era)
	}
	n := 0
	for bit, on := range [...]bool{v.Era == mcp.Modern, saveAs, cards} {
		if on {
			n |= 1 << bit
		}
	}
	if def := i.kept.shown[n].Load(); def != nil {
		return *def
	}
	def := i.altered(v.Era, saveAs, cards)
	i.kept.shown[n].Store(&def)
	return def
}

// TakesSaveAs reports whether the argument saveAs is put into the tool's
// definition where results can be kept.
func (i *Item) TakesSaveAs() bool {
	if i.kept == nil || i.Handling.NoSaveAs {
		return false
	}
	i.kept.once.Do(func() { i.kept.plain = plain(wire.Get(i.Shown, "inputSchema")) })
	return i.kept.plain
}

// stateful is a tool as it is offered where results can be kept. It is made
// when it is first needed.
type stateful struct {
	once  sync.Once
	plain bool                      // the input schema is one that an argument can be added to
	shown [8]atomic.Pointer[[]byte] // by era, saveAs and cards
}

// altered makes a definition for where results can be kept. It has no output
// schema if a card may take the result's place.
func (i *Item) altered(era mcp.Era, saveAs, cards bool) []byte {
	def := i.For(era)
	var changes []wire.Change
	if saveAs {
		changes = append(changes, wire.Change{Name: "inputSchema", Value: withSaveAs(wire.Get(def, "inputSchema"))})
	}
	if cards {
		changes = append(changes, wire.Change{Name: "outputSchema"})
	}
	return wire.Edit(nil, def, changes...)
}

// saveAsSchema is short: it is said with every tool, each time that a model is
// told of them. The hub's instructions say more.
const saveAsSchema = `{"type":"string","description":"Keep the result as @name."}`

// combinators are the keywords with which a schema says more of an object than
// its properties do. What one more property means beside them is not ours to
// say.
var combinators = map[string]bool{
	"allOf": true, "anyOf": true, "oneOf": true, "not": true, "if": true, "then": true, "else": true, "$ref": true, "$dynamicRef": true,
	"dependentSchemas": true, "dependencies": true, "propertyNames": true, "patternProperties": true, "maxProperties": true, "enum": true, "const": true,
}

// plain reports whether a schema is that of an object with properties, and
// says nothing of one called saveAs.
func plain(input []byte) bool {
	object := false
	for _, f := range wire.Members(input) {
		switch name := string(f.Name); {
		case name == "type":
			object = string(f.Value) == `"object"`
		case name == "properties":
			if f.Value[0] != '{' || wire.Get(f.Value, SaveAs) != nil {
				return false
			}
		case name == "required":
			if names, _ := wire.Elements(f.Value); slices.ContainsFunc(names, func(n []byte) bool { return string(n) == `"`+SaveAs+`"` }) {
				return false
			}
		case combinators[name]:
			return false
		}
	}
	return object
}

// withSaveAs adds the argument to a plain schema.
func withSaveAs(input []byte) []byte {
	properties := wire.Edit(nil, wire.Get(input, "properties"), wire.Change{Name: SaveAs, Value: []byte(saveAsSchema)})
	return wire.Edit(nil, input, wire.Change{Name: "properties", Value: properties})
}
