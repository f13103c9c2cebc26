package catalog

import (
	"sync"

	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// Handling is what is done with the arguments and results of a tool besides
// passing them on. The zero value is that of an upstream that says nothing.
type Handling struct {
	NoReferences bool // @name in arguments is just text
	NoSaveAs     bool // results are not kept by a name that the caller gives
	NoCards      bool // long results are passed on whole everywhere
	CardBytes    int  // results over it are long; 0 means 16 KiB
	ResultSaveAs bool // a result {"result": …, "saveAs": "name"} is kept under that name
	Envelope     bool // results are envelopes, of which the data is kept
}

// CardAbove is the size over which a result is long.
func (h *Handling) CardAbove() int {
	if h.CardBytes == 0 {
		return 16 << 10
	}
	return h.CardBytes
}

// SaveAs is the argument by which a result is kept.
const SaveAs = "saveAs"

// View is how a definition is looked at.
type View struct {
	Era      mcp.Era
	Stateful bool     // results can be kept
	More     [][]byte // definitions that follow those of the catalogue
}

// As returns the definition for clients of that kind.
func (i *Item) As(v View) []byte {
	if !v.Stateful || i.kept == nil {
		return i.For(v.Era)
	}
	i.kept.once.Do(i.keep)
	return i.kept.shown[v.Era == mcp.Modern]
}

// TakesSaveAs reports whether the argument saveAs was put into the tool's
// definition on stateful faces.
func (i *Item) TakesSaveAs() bool {
	if i.kept == nil {
		return false
	}
	i.kept.once.Do(i.keep)
	return i.kept.inject
}

// stateful is a tool as it is offered where results can be kept. It is made
// when it is first needed.
type stateful struct {
	once   sync.Once
	shown  map[bool][]byte // by whether it is for the modern era
	inject bool
}

// keep makes the definitions for stateful faces. They have no output schema if
// a card may take the result's place.
func (i *Item) keep() {
	s := i.kept
	s.shown = map[bool][]byte{}
	for modern, shown := range map[bool][]byte{false: i.For(mcp.Legacy), true: i.For(mcp.Modern)} {
		var changes []wire.Change
		if !i.Handling.NoSaveAs {
			if input, ok := withSaveAs(wire.Get(shown, "inputSchema")); ok {
				s.inject = true
				changes = append(changes, wire.Change{Name: "inputSchema", Value: input})
			}
		}
		if (!i.Handling.NoCards || s.inject) && wire.Get(shown, "outputSchema") != nil {
			changes = append(changes, wire.Change{Name: "outputSchema"})
		}
		if s.shown[modern] = shown; changes != nil {
			s.shown[modern] = wire.Edit(nil, shown, changes...)
		}
	}
}

const saveAsSchema = `{"type":"string","pattern":"^[A-Za-z_][A-Za-z0-9_-]{0,63}$","description":"Keep the result in the session under this name, and answer with a short card. Other tools take it as \"@name\" or \"@name.path\"."}`

// combinators are the keywords with which a schema says more of an object than
// its properties do. What one more property means beside them is not ours to
// say.
var combinators = map[string]bool{
	"allOf": true, "anyOf": true, "oneOf": true, "not": true, "if": true, "then": true, "else": true, "$ref": true, "$dynamicRef": true,
	"dependentSchemas": true, "dependencies": true, "propertyNames": true, "maxProperties": true, "enum": true, "const": true,
}

// withSaveAs adds the argument to a plain schema of an object. It reports false
// if the schema is not plain or has an argument of that name.
func withSaveAs(input []byte) ([]byte, bool) {
	plain := false
	var properties []byte
	for _, f := range wire.Members(input) {
		switch name := string(f.Name); {
		case name == "type":
			plain = string(f.Value) == `"object"`
		case name == "properties":
			properties = f.Value
		case combinators[name]:
			return nil, false
		}
	}
	if !plain || properties != nil && properties[0] != '{' || wire.Get(properties, SaveAs) != nil {
		return nil, false
	}
	properties = wire.Edit(nil, properties, wire.Change{Name: SaveAs, Value: []byte(saveAsSchema)})
	return wire.Edit(nil, input, wire.Change{Name: "properties", Value: properties}), true
}
