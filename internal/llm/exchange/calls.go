package exchange

import (
	"github.com/stoahub/stoa/internal/llm"
)

// Calls puts the calls of one answer together from their pieces.
type Calls struct {
	Emit Emit
	IDs  *llm.IDs
	Name func(string) string // the name that our side knows
	list []*open
}

type open struct {
	id, name string
	args     []byte
	ended    bool
}

// Len is how many calls the answer has so far.
func (c *Calls) Len() int { return len(c.list) }

// Start begins a call and returns its index. An empty id is made up; an empty
// name may follow by Named.
func (c *Calls) Start(id, name string) (int, error) {
	if id == "" {
		id = c.IDs.Next()
	}
	call := &open{id: id}
	if name != "" {
		call.name = c.Name(name)
	}
	c.list = append(c.list, call)
	i := len(c.list) - 1
	return i, c.Emit(llm.Delta{Kind: llm.CallStart, Index: i, Call: llm.ToolCall{ID: id, Name: call.name}})
}

// Named gives a name to call i if it has none.
func (c *Calls) Named(i int, name string) {
	if call := c.list[i]; call.name == "" && name != "" {
		call.name = c.Name(name)
	}
}

// Args adds to the arguments of call i.
func (c *Calls) Args(i int, piece string) error {
	if piece == "" || c.list[i].ended {
		return nil
	}
	c.list[i].args = append(c.list[i].args, piece...)
	return c.Emit(llm.Delta{Kind: llm.CallArgs, Index: i, Text: piece})
}

// End ends call i, once.
func (c *Calls) End(i int, opaque *llm.Opaque) error {
	call := c.list[i]
	if call.ended {
		return nil
	}
	call.ended = true
	return c.Emit(llm.Delta{Kind: llm.CallEnd, Index: i, Call: llm.NewCall(call.id, call.name, string(call.args)), Opaque: opaque})
}

// Finish ends what is open, in order.
func (c *Calls) Finish() error {
	for i := range c.list {
		if err := c.End(i, nil); err != nil {
			return err
		}
	}
	return nil
}
