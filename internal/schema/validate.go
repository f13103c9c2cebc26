package schema

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	js "github.com/santhosh-tekuri/jsonschema/v6"
)

// maxFaults is how many faults are reported of one value.
const maxFaults = 50

// maxAllowed is how many allowed values a fault lists.
const maxAllowed = 50

// Fault is one thing that is wrong with arguments.
type Fault struct {
	Pointer string `json:"pointer"`           // RFC 6901, into the arguments; "" is the whole
	Message string `json:"message"`           // a clause whose subject is the value at Pointer
	Allowed []any  `json:"allowed,omitempty"` // the values or names that would be right, where they are few
	Close   string `json:"close,omitempty"`   // the name or value that was probably meant
}

// Validate checks arguments and returns every fault, ordered by pointer; none
// means that they are valid. Absent arguments and null count as {}.
func (s *Schema) Validate(args []byte) (faults []Fault) {
	args = bytes.TrimSpace(args)
	if len(args) == 0 || bytes.Equal(args, []byte("null")) {
		args = []byte("{}")
	}
	if _, err := measure(args, maxDepth); err != nil {
		return []Fault{{Message: "cannot be checked: " + err.Error()}}
	}
	v, err := decode(args)
	if err != nil {
		return []Fault{{Message: "is " + err.Error()}}
	}
	if s.root.afford(v, 0, maxWork) < 0 {
		return []Fault{{Message: "is too much to be checked against this tool's schema: send fewer or smaller values"}}
	}
	defer func() {
		if p := recover(); p != nil {
			faults = []Fault{{Message: fmt.Sprintf("cannot be checked: the tool's schema broke the validator: %v", p)}}
		}
	}()
	err = s.compiled.Validate(v)
	if err == nil {
		return nil
	}
	bad, ok := errors.AsType[*js.ValidationError](err)
	if !ok {
		return []Fault{{Message: "cannot be checked: " + err.Error()}}
	}
	return collect(bad, s, v)
}

// collect turns the validator's tree of errors into an ordered list. s and v
// may be nil where there is nothing to look up for suggestions.
func collect(bad *js.ValidationError, s *Schema, v any) []Fault {
	c := collector{s: s, v: v}
	c.walk(bad)
	// The validator walks objects in random order.
	slices.SortFunc(c.faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Message, b.Message))
	})
	out := slices.CompactFunc(c.faults, func(a, b Fault) bool {
		return a.Pointer == b.Pointer && a.Message == b.Message
	})
	if len(out) > maxFaults {
		rest := len(out) - maxFaults + 1
		out = append(out[:maxFaults-1:maxFaults-1], Fault{Message: fmt.Sprintf("has %d more faults, not listed", rest)})
	}
	return out
}
