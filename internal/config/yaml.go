package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// parseYAML reads YAML into the same tree as parseJSONC; what JSON cannot say
// (custom tags, NaN, keys that are no scalars, several documents) is refused.
// It returns nil, nil for an empty file.
func parseYAML(data []byte, dup func(m member, first position, ptr string)) (n *node, err error) {
	// The YAML parser is large and takes whatever a person wrote: a panic in
	// it must cost this file, not the process.
	defer func() {
		if p := recover(); p != nil {
			n, err = nil, &syntaxError{position{1, 1}, fmt.Sprintf("the YAML cannot be read: %v", p), "simplify it, or write the file as JSON"}
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if len(tokens) > maxTokens {
		return nil, &syntaxError{tokenPosition(tokens[maxTokens]), fmt.Sprintf("the YAML has more than %d words and marks", maxTokens), "split the file, or write it as JSON"}
	}
	if t := tooDeepYAML(tokens); t != nil {
		return nil, &syntaxError{tokenPosition(t), fmt.Sprintf("the file is nested more than %d deep", maxDepth), "flatten it"}
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, yamlSyntax(err)
	}
	docs := slices.DeleteFunc(file.Docs, func(d *ast.DocumentNode) bool { return d == nil || d.Body == nil })
	switch len(docs) {
	case 0:
		return nil, nil
	case 1:
	default:
		return nil, &syntaxError{yamlPosition(docs[1].Body), "the file holds several YAML documents", "keep one, without '---' between them"}
	}
	r := yamlReader{dup: dup, anchors: map[string]ast.Node{}}
	return r.node(docs[0].Body, "", 0)
}

func yamlSyntax(err error) error {
	e := &syntaxError{at: position{1, 1}, text: "the YAML is not well-formed", hint: "correct the YAML at this place"}
	var y yaml.Error
	if errors.As(err, &y) {
		e.at, e.text = tokenPosition(y.GetToken()), e.text+": "+y.GetMessage()
		if strings.Contains(y.GetMessage(), "'@' is a reserved character") {
			e.hint = `put it in quotes, as in "@name"` // references begin with it
		}
	}
	return e
}

// tooDeepYAML returns the token at which the nesting passes maxDepth, or nil.
// Flow brackets are counted; entries of compact sequences ("- - - x") nest
// by two columns each, anchors and tags by their run.
func tooDeepYAML(tokens token.Tokens) *token.Token {
	flow, run := 0, 0
	for _, t := range tokens {
		prefix := false
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType:
			if t.Position != nil && t.Position.Column > 4*maxDepth {
				return t
			}
		case token.TagType, token.AnchorType:
			prefix = true
		}
		if run++; !prefix {
			run = 0
		}
		if flow > maxDepth || run > maxDepth {
			return t
		}
	}
	return nil
}

type yamlReader struct {
	dup     func(m member, first position, ptr string)
	anchors map[string]ast.Node
	nodes   int
}

func (r *yamlReader) node(y ast.Node, ptr string, depth int) (*node, error) {
	n := &node{at: yamlPosition(y), ptr: ptr}
	n.key = n.at
	if r.nodes++; r.nodes > maxNodes {
		return nil, tooMany(n.at)
	}
	if depth > maxDepth {
		return nil, &syntaxError{n.at, fmt.Sprintf("the file is nested more than %d deep", maxDepth), "flatten it; an alias must not contain itself"}
	}
	switch t := y.(type) {
	case *ast.AnchorNode:
		r.anchors[t.Name.GetToken().Value] = t.Value
		return r.node(t.Value, ptr, depth+1)
	case *ast.AliasNode:
		name := t.Value.GetToken().Value
		to, ok := r.anchors[name]
		if !ok {
			return nil, &syntaxError{n.at, fmt.Sprintf("the alias *%s has no anchor before it", name), fmt.Sprintf("write &%s before the value it means", name)}
		}
		m, err := r.node(to, ptr, depth+1)
		if m != nil {
			m.at, m.key = n.at, n.at // the alias is what the reader has to look at
		}
		return m, err
	case *ast.TagNode:
		return r.tagged(t, n, ptr, depth)
	case *ast.MappingNode:
		return n, r.mapping(n, t.Values, depth)
	case *ast.MappingValueNode:
		return n, r.mapping(n, []*ast.MappingValueNode{t}, depth)
	case *ast.SequenceNode:
		n.kind = list
		for i, v := range t.Values {
			item, err := r.node(v, under(ptr, strconv.Itoa(i)), depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
		return n, nil
	}
	return n, n.yamlScalar(y)
}

func (n *node) yamlScalar(y ast.Node) error {
	switch t := y.(type) {
	case nil, *ast.NullNode:
		n.kind = null
	case *ast.BoolNode:
		n.kind, n.text = boolean, strconv.FormatBool(t.Value)
	case *ast.IntegerNode:
		n.kind, n.text = number, fmt.Sprint(t.Value)
	case *ast.FloatNode:
		n.kind, n.text = number, strconv.FormatFloat(t.Value, 'g', -1, 64)
	case *ast.StringNode:
		n.kind, n.text = text, t.Value
	case *ast.LiteralNode:
		n.kind, n.text = text, t.Value.Value
	default:
		return &syntaxError{n.at, fmt.Sprintf("%s has no equal in JSON", strings.TrimSpace(y.String())), "write a string, a number, true, false, a list or a map"}
	}
	if n.kind == boolean || n.kind == number {
		n.raw = y.GetToken().Value
	}
	return nil
}

// tagged reads a value with one of YAML's own tags; only !!str changes it.
func (r *yamlReader) tagged(t *ast.TagNode, n *node, ptr string, depth int) (*node, error) {
	tag := t.Start.Value
	switch tag {
	case "!!str", "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq":
	default:
		return nil, &syntaxError{n.at, fmt.Sprintf("the YAML tag %s is not known", tag), "remove the tag"}
	}
	v, err := r.node(t.Value, ptr, depth+1)
	if err == nil && tag == "!!str" {
		if s, ok := v.scalar(); ok {
			v.kind, v.text = text, s
		}
	}
	return v, err
}

func (r *yamlReader) mapping(n *node, pairs []*ast.MappingValueNode, depth int) error {
	n.kind = object
	seen := map[string]position{}
	var merged []member
	for _, p := range pairs {
		at := yamlPosition(p.Key)
		if p.Key.IsMergeKey() {
			m, err := r.merge(p.Value, n.ptr, depth)
			if err != nil {
				return err
			}
			merged = append(merged, m...)
			continue
		}
		name, err := yamlKey(p.Key)
		if err != nil {
			return err
		}
		value, err := r.node(p.Value, under(n.ptr, name), depth+1)
		if err != nil {
			return err
		}
		value.key = at
		add(n, member{name, at, value}, seen, r.dup)
	}
	for _, m := range merged { // what the map says itself wins, then the first merged
		if _, ok := seen[m.name]; !ok {
			seen[m.name] = m.at
			n.members = append(n.members, m)
		}
	}
	return nil
}

// merge returns the members that "<<" brings in.
func (r *yamlReader) merge(y ast.Node, ptr string, depth int) ([]member, error) {
	v, err := r.node(y, ptr, depth+1)
	if err != nil {
		return nil, err
	}
	sources := []*node{v}
	if v.kind == list {
		sources = v.items
	}
	var all []member
	for _, s := range sources {
		if s.kind != object {
			return nil, &syntaxError{s.at, "'<<' merges maps, and this is " + s.kind.String(), "give it the alias of a map"}
		}
		for _, m := range s.members {
			m.value.ptr = under(ptr, m.name)
			all = append(all, m)
		}
	}
	return all, nil
}

func yamlKey(k ast.MapKeyNode) (string, error) {
	var y ast.Node = k
	if e, ok := k.(*ast.MappingKeyNode); ok {
		y = e.Value
	}
	switch t := y.(type) {
	case *ast.StringNode:
		return t.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return t.GetToken().Value, nil
	}
	return "", &syntaxError{yamlPosition(k), "a key must be a word", "put it in quotes"}
}

// yamlPosition is where a person sees the value begin; the parser's own token
// of a block map is its first colon.
func yamlPosition(y ast.Node) position {
	switch t := y.(type) {
	case nil:
		return position{1, 1}
	case *ast.MappingNode:
		if !t.IsFlowStyle && len(t.Values) > 0 {
			return yamlPosition(t.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return yamlPosition(t.Key)
	case *ast.TagNode:
		return tokenPosition(t.Start)
	}
	return tokenPosition(y.GetToken())
}

func tokenPosition(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{max(1, t.Position.Line), max(1, t.Position.Column)}
}
