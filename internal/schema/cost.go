package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp/syntax"

	js "github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	maxWork  = 300_000 // units per validation
	maxChain = 64      // subschemas applied to one value inside each other
	maxDepth = 1_000   // levels of arguments
)

// node is what the estimate of work needs to know of a subschema.
type node struct {
	types   uint8 // bits of kindOf; 0 means any
	enum    int   // values to compare with
	states  int   // size of the pattern's automaton
	unique  bool
	inPlace []*node          // applied to the same value
	props   map[string]*node // applied to the member of that name
	each    []*node          // applied, at worst, to every member or element
	names   int              // states of all patterns that members' names are matched with
}

// survey walks the compiled schema once, builds the nodes and refuses what
// could not be bounded.
func (s *Schema) survey(anchored map[string][]*js.Schema) error {
	w := &surveyor{nodes: map[*js.Schema]*node{}, closed: map[string]*js.Schema{}, anchored: anchored}
	s.root = w.node(s.compiled)
	lengths := map[*node]int{}
	for _, n := range w.nodes {
		length, ok := chain(n, lengths)
		if !ok {
			return errors.New("a subschema refers to itself without going down into the value")
		}
		if length > maxChain {
			return fmt.Errorf("more than %d subschemas inside each other apply to one value", maxChain)
		}
	}
	s.closed = w.closed
	return nil
}

// chain returns the length of the longest path of in-place edges from n, or
// false if there is a circle. In lengths, 0 marks a node that is being visited.
func chain(n *node, lengths map[*node]int) (int, bool) {
	if l, seen := lengths[n]; seen {
		return l, l > 0
	}
	lengths[n] = 0
	longest := 0
	for _, child := range n.inPlace {
		l, ok := chain(child, lengths)
		if !ok {
			return 0, false
		}
		longest = max(longest, l)
	}
	lengths[n] = longest + 1
	return longest + 1, true
}

type surveyor struct {
	nodes    map[*js.Schema]*node
	closed   map[string]*js.Schema   // with additionalProperties false, by location
	anchored map[string][]*js.Schema // possible targets of dynamic references
}

func (w *surveyor) node(s *js.Schema) *node {
	if n, ok := w.nodes[s]; ok {
		return n
	}
	n := &node{unique: s.UniqueItems}
	w.nodes[s] = n
	if s.Types != nil {
		for _, name := range s.Types.ToStrings() {
			n.types |= kindNamed(name)
		}
	}
	if s.Enum != nil {
		n.enum = len(s.Enum.Values)
	}
	if s.Pattern != nil {
		n.states = states(s.Pattern.String())
	}
	if s.AdditionalProperties == false {
		w.closed[s.Location] = s
	}
	for re := range s.PatternProperties {
		n.names += states(re.String())
	}
	for _, child := range w.sameValue(s) {
		n.inPlace = append(n.inPlace, w.node(child))
	}
	for name, child := range s.Properties {
		if n.props == nil {
			n.props = make(map[string]*node, len(s.Properties))
		}
		n.props[name] = w.node(child)
	}
	for _, child := range below(s) {
		n.each = append(n.each, w.node(child))
	}
	return n
}

// sameValue lists the subschemas that s applies to the value it is applied to.
func (w *surveyor) sameValue(s *js.Schema) []*js.Schema {
	out := append([]*js.Schema(nil), s.AllOf...)
	out = append(out, s.AnyOf...)
	out = append(out, s.OneOf...)
	for _, one := range []*js.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else} {
		if one != nil {
			out = append(out, one)
		}
	}
	for _, one := range s.DependentSchemas {
		out = append(out, one)
	}
	for _, one := range s.Dependencies {
		if one, ok := one.(*js.Schema); ok {
			out = append(out, one)
		}
	}
	if s.DynamicRef != nil {
		out = append(out, s.DynamicRef.Ref)
		if s.DynamicRef.Anchor != "" {
			out = append(out, w.anchored[s.DynamicRef.Anchor]...)
		}
	}
	return out
}

// below lists the subschemas, other than those of named properties, that s
// applies to what the value contains.
func below(s *js.Schema) []*js.Schema {
	out := append([]*js.Schema(nil), s.PrefixItems...)
	for _, one := range []*js.Schema{s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems} {
		if one != nil {
			out = append(out, one)
		}
	}
	for _, one := range s.PatternProperties {
		out = append(out, one)
	}
	for _, mixed := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		switch mixed := mixed.(type) {
		case *js.Schema:
			out = append(out, mixed)
		case []*js.Schema:
			out = append(out, mixed...)
		}
	}
	return out
}

// states is the size of a pattern's automaton: matching costs at most that
// much per character.
func states(pattern string) int {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return 0
	}
	return len(prog.Inst)
}

// The kinds of JSON values, as bits.
const (
	kindNull uint8 = 1 << iota
	kindBoolean
	kindNumber
	kindString
	kindArray
	kindObject
)

func kindNamed(name string) uint8 {
	switch name {
	case "null":
		return kindNull
	case "boolean":
		return kindBoolean
	case "number", "integer":
		return kindNumber
	case "string":
		return kindString
	case "array":
		return kindArray
	default:
		return kindObject
	}
}

func kindOf(v any) uint8 {
	switch v.(type) {
	case nil:
		return kindNull
	case bool:
		return kindBoolean
	case json.Number:
		return kindNumber
	case string:
		return kindString
	case []any:
		return kindArray
	default:
		return kindObject
	}
}

// afford subtracts from budget what validating v against n costs at worst and
// returns what is left; once that is negative it stops. It visits what the
// validator could visit, so its own work is bounded by the budget too.
func (n *node) afford(v any, depth, budget int) int {
	// An error found at a deep place carries the whole path to it.
	budget -= 1 + depth/8
	if budget < 0 || n.types != 0 && n.types&kindOf(v) == 0 {
		return budget
	}
	budget -= n.enum / 16
	for _, child := range n.inPlace {
		if budget = child.afford(v, depth, budget); budget < 0 {
			return budget
		}
	}
	switch v := v.(type) {
	case string:
		budget -= n.states * (len(v)/64 + 1) / 16
	case []any:
		budget -= len(v) / 8
		if n.unique {
			budget -= 16 + size(v)
		}
		for _, e := range v {
			if budget = n.affordEach(e, depth, budget); budget < 0 {
				return budget
			}
		}
	case map[string]any:
		budget -= len(v) / 8
		for name, e := range v {
			budget -= n.names * (len(name)/64 + 1) / 16
			if child, ok := n.props[name]; ok {
				budget = child.afford(e, depth+1, budget)
			}
			if budget = n.affordEach(e, depth, budget); budget < 0 {
				return budget
			}
		}
	}
	return budget
}

func (n *node) affordEach(e any, depth, budget int) int {
	for _, child := range n.each {
		if budget < 0 {
			return budget
		}
		budget = child.afford(e, depth+1, budget)
	}
	return budget
}

// size counts the values in v.
func size(v any) int {
	total := 1
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			total += size(e)
		}
	case map[string]any:
		for _, e := range v {
			total += size(e)
		}
	}
	return total
}
