package config

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Bounds of a file. A configuration that meets one is a mistake or an attack;
// either way the reader says so instead of growing.
const (
	maxFileBytes = 4 << 20
	maxDepth     = 100
	maxNodes     = 200_000 // after YAML's aliases were followed
	maxTokens    = 100_000 // of YAML, whose parser's time grows with their square
	maxServers   = 1000
	maxProblems  = 200
)

type kind uint8

const (
	null kind = iota
	boolean
	number
	text
	list
	object
)

func (k kind) String() string {
	return [...]string{"null", "true or false", "a number", "a string", "a list", "an object"}[k]
}

// position is a place in a file; both count from 1, columns in characters.
type position struct{ line, column int }

// node is one JSON value of a file, whichever syntax the file has.
type node struct {
	kind    kind
	text    string // text: the string; boolean, number: as JSON has it
	raw     string // boolean, number: as the file has it ("0755")
	at      position
	key     position // of the member's name; equal to at where there is none
	ptr     string   // JSON pointer in the file
	items   []*node
	members []member
}

type member struct {
	name  string
	at    position
	value *node
}

// get returns the member of that name, or nil.
func (n *node) get(name string) *node {
	for i := range n.members {
		if n.members[i].name == name {
			return n.members[i].value
		}
	}
	return nil
}

// scalar returns the text of a string, number or boolean as the file has it.
func (n *node) scalar() (string, bool) {
	switch n.kind {
	case text:
		return n.text, true
	case boolean, number:
		return n.raw, true
	}
	return "", false
}

// json renders n as JSON, members in the file's order.
func (n *node) json() json.RawMessage {
	var b bytes.Buffer
	n.write(&b)
	return b.Bytes()
}

func (n *node) write(b *bytes.Buffer) {
	switch n.kind {
	case null:
		b.WriteString("null")
	case boolean, number:
		b.WriteString(n.text)
	case text:
		writeText(b, n.text)
	case list:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.write(b)
		}
		b.WriteByte(']')
	case object:
		b.WriteByte('{')
		for i, m := range n.members {
			if i > 0 {
				b.WriteByte(',')
			}
			writeText(b, m.name)
			b.WriteByte(':')
			m.value.write(b)
		}
		b.WriteByte('}')
	}
}

func writeText(b *bytes.Buffer, s string) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string and a buffer: cannot fail
	b.Truncate(b.Len() - 1)
}

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

// under returns the pointer of the member or item name of the value at ptr.
func under(ptr, name string) string { return ptr + "/" + pointerEscape.Replace(name) }
