package config

import (
	"bytes"
	"encoding/json"
)

// schema is a JSON Schema, as far as the tables need one.
type schema struct {
	Dialect     string     `json:"$schema,omitempty"`
	Ref         string     `json:"$ref,omitempty"`
	Title       string     `json:"title,omitempty"`
	Description string     `json:"description,omitempty"`
	Type        string     `json:"type,omitempty"`
	Enum        []string   `json:"enum,omitempty"`
	Const       *bool      `json:"const,omitempty"`
	Pattern     string     `json:"pattern,omitempty"`
	Minimum     *int64     `json:"minimum,omitempty"`
	Maximum     *int64     `json:"maximum,omitempty"`
	Default     any        `json:"default,omitempty"`
	AnyOf       []*schema  `json:"anyOf,omitempty"`
	Items       *schema    `json:"items,omitempty"`
	Required    []string   `json:"required,omitempty"`
	Properties  properties `json:"properties,omitempty"`
	Values      any        `json:"additionalProperties,omitempty"` // *schema, or false
	Defs        properties `json:"$defs,omitempty"`

	foreign bool // of another host: the manual lists it apart
}

// properties keep the order of the table.
type properties []property

type property struct {
	key    string
	schema *schema
}

func (p properties) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, one := range p {
		if i > 0 {
			b.WriteByte(',')
		}
		writeText(&b, one.key)
		b.WriteByte(':')
		v, err := json.Marshal(one.schema)
		if err != nil {
			return nil, err
		}
		b.Write(v)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// objectSchema describes the objects that the table reads, with the defaults
// that def has.
func objectSchema[T any](def *T, table []field[T]) *schema {
	s := &schema{Type: "object", Values: false}
	for _, f := range table {
		one := f.schema(def)
		one.Description, one.foreign = f.doc, f.foreign
		s.Properties = append(s.Properties, property{f.key, one})
	}
	return s
}

func schemaType(k kind) string {
	return [...]string{"null", "boolean", "number", "string", "array", "object"}[k]
}

// tree is the schema of Stoa's own file.
func tree() *schema {
	def := Default()
	s := objectSchema(&def, configFields())
	s.Dialect = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "Stoa"
	s.Description = "The configuration of a Stoa hub."
	s.Required = []string{"stoa"}
	model := DefaultModel()
	s.Defs = append(serverSchemas(),
		property{"model", objectSchema(&model, modelFields())}, property{"agent", objectSchema(&Agent{Listed: true}, agentFields())}, property{"condition", condSchema()})
	return s
}

// Schema returns the JSON Schema (2020-12) of Stoa's own file, indented.
func Schema() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(tree()); err != nil {
		panic("config: the schema cannot be encoded: " + err.Error()) // only plain values are in it
	}
	return b.Bytes()
}
