package config

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Document is an object that a person wrote as JSON (comments and trailing
// commas allowed) or as YAML, and that is no config: what is in it is for
// others to judge. Nothing is filled in: ${VAR} stays as it is.
type Document struct {
	File string
	JSON json.RawMessage // members in the order of the file

	root *node
}

// ReadDocument reads a document from a file. The error, if any, is Problems.
func ReadDocument(path string) (*Document, error) {
	data, err := readBounded(path)
	if err != nil {
		return nil, Problems{{File: path, Text: "reading the file: " + cause(err), Hint: "name an existing file"}}
	}
	return ParseDocument(path, data)
}

// ParseDocument reads a document that name stands for in messages. Whether it
// is YAML is told by the ending of name, else by how it begins. The error, if
// any, is Problems.
func ParseDocument(name string, data []byte) (*Document, error) {
	var r report
	n := parseAs(&source{name: name, strict: true}, data, &r, "begin with the names of its members")
	if n == nil && len(r.problems) == 0 {
		r.problem(Problem{File: name, Line: 1, Column: 1, Text: "the file is empty"})
	}
	if len(r.problems) > 0 {
		return nil, r.problems.sorted()
	}
	return &Document{File: name, JSON: n.json(), root: n}, nil
}

// Wrong returns a problem with the value at a JSON pointer, with its place in
// the file: that of the value, or of the nearest around it that is there.
func (d *Document) Wrong(pointer, hint, format string, args ...any) Problem {
	p := Problem{File: d.File, Pointer: pointer, Text: fmt.Sprintf(format, args...), Hint: hint}
	n := d.root
	at := n.at
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if n = n.child(strings.NewReplacer("~1", "/", "~0", "~").Replace(step)); n == nil {
			break
		}
		at = n.key
	}
	p.Line, p.Column = at.line, at.column
	return p
}

// Problems returns all of them as an error, in the order of the file.
func (d *Document) Problems(all []Problem) error { return Problems(all).sorted() }

// child is the member or the element that a step of a pointer leads to.
func (n *node) child(step string) *node {
	if n.kind != list {
		return n.get(step)
	}
	var i int
	if _, err := fmt.Sscanf(step, "%d", &i); err != nil || i < 0 || i >= len(n.items) {
		return nil
	}
	return n.items[i]
}
