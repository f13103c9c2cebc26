package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// field is one key of an object of T: how it is read, shown and described.
// Its doc is the manual.
type field[T any] struct {
	key, doc string
	foreign  bool // another host's spelling of another key: read, never shown
	schema   func(def *T) *schema
	decode   func(d *decoder, n *node, path string, t *T)
	show     func(s *shower, path string, t *T) // nil: nothing to show
}

// check looks at a value and returns what is wrong with it and what to do;
// two empty strings mean that it is fine.
type check func(value string) (problem, hint string)

// how a string is read.
type reading uint8

const (
	asWritten reading = iota
	expanded          // ${VAR} is filled in
	asPath            // expanded, then ~ and relative paths are resolved
)

// read returns the string of n, and whether it is fit to be checked further.
func (d *decoder) read(n *node, path string, how reading) (string, bool) {
	s, ok := n.scalar()
	if !ok || (n.kind != text && how == asWritten) {
		return "", d.want(n, text, "")
	}
	d.record(path, n)
	if how == asWritten {
		return s, true
	}
	s, ok = d.expand(s, n, path)
	if how == asPath && ok && s != "" {
		s = d.resolve(s)
	}
	return s, ok
}

// resolve makes a path absolute: ~ is the user's home, the rest is relative to
// the file's folder.
func (d *decoder) resolve(p string) string {
	if p = d.src.env.tilde(p); filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(d.src.workspace, p)
}

func (d *decoder) check(n *node, value string, c check) {
	if c == nil {
		return
	}
	if problem, hint := c(value); problem != "" {
		d.problem(n.at, n.ptr, hint, "%s", problem)
	}
}

func textField[T any](key, doc string, how reading, p func(*T) *string, c check) field[T] {
	return field[T]{
		key: key, doc: doc,
		schema: func(def *T) *schema { return &schema{Type: "string", Default: orNil(*p(def))} },
		decode: func(d *decoder, n *node, path string, t *T) {
			v, ok := d.read(n, path, how)
			if *p(t) = v; ok {
				d.check(n, v, c)
			}
		},
		show: func(s *shower, path string, t *T) { s.text(path, *p(t)) },
	}
}

// textsField is a list of strings; where single is true one string will do.
func textsField[T any](key, doc string, how reading, single bool, p func(*T) *[]string, c check) field[T] {
	return field[T]{
		key: key, doc: doc,
		schema: func(def *T) *schema {
			s := &schema{Type: "array", Items: &schema{Type: "string"}}
			if how != asWritten {
				s.Items = &schema{AnyOf: []*schema{{Type: "string"}, {Type: "number"}, {Type: "boolean"}}}
			}
			if single {
				s = &schema{AnyOf: []*schema{{Type: "string"}, s}}
			}
			if v := *p(def); v != nil {
				s.Default = v
			}
			return s
		},
		decode: func(d *decoder, n *node, path string, t *T) {
			items := n.items
			if single && n.kind == text {
				items = []*node{n}
			} else if !d.want(n, list, `write it as ["…", "…"]`) {
				return
			}
			d.record(path, n)
			out, whole := make([]string, 0, len(items)), d.trace.places[path]
			for i, item := range items {
				at := under(path, strconv.Itoa(i))
				v, ok := d.read(item, at, how)
				if out = append(out, v); ok {
					d.check(item, v, c)
				}
				whole.vars = append(whole.vars, d.trace.places[at].vars...)
			}
			d.trace.places[path] = whole
			*p(t) = out
		},
		show: func(s *shower, path string, t *T) { s.texts(path, *p(t)) },
	}
}

func enumField[T any, E ~string](key, doc string, p func(*T) *E, values ...string) field[T] {
	return field[T]{
		key: key, doc: doc,
		schema: func(def *T) *schema { return &schema{Type: "string", Enum: values, Default: orNil(string(*p(def)))} },
		decode: func(d *decoder, n *node, path string, t *T) {
			if !d.want(n, text, "allowed: "+strings.Join(values, ", ")) {
				return
			}
			d.record(path, n)
			for _, v := range values {
				if n.text == v {
					*p(t) = E(v)
					return
				}
			}
			d.problem(n.at, n.ptr, "allowed: "+strings.Join(values, ", "), "unknown value %q", n.text)
		},
		show: func(s *shower, path string, t *T) { s.put(path, string(*p(t))) },
	}
}

func boolField[T any](key, doc string, p func(*T) *bool) field[T] {
	return field[T]{
		key: key, doc: doc,
		schema: func(def *T) *schema { return &schema{Type: "boolean", Default: *p(def)} },
		decode: func(d *decoder, n *node, path string, t *T) {
			if d.want(n, boolean, "write true or false, without quotes") {
				d.record(path, n)
				*p(t) = n.text == "true"
			}
		},
		show: func(s *shower, path string, t *T) { s.put(path, *p(t)) },
	}
}

// toggleField is a boolean that may be left open; "on" and "off" will do too.
func toggleField[T any](key, doc string, p func(*T) **bool) field[T] {
	return field[T]{
		key: key, doc: doc,
		schema: func(*T) *schema {
			return &schema{AnyOf: []*schema{{Type: "boolean"}, {Type: "string", Enum: []string{"on", "off"}}}}
		},
		decode: func(d *decoder, n *node, path string, t *T) {
			v := n.text == "true" || n.text == "on"
			if n.kind != boolean && (n.kind != text || n.text != "on" && n.text != "off") {
				d.problem(n.at, n.ptr, "allowed: true, false, on, off", "must be true or false, and is %s", n.describe())
				return
			}
			d.record(path, n)
			*p(t) = &v
		},
		show: func(s *shower, path string, t *T) {
			if v := *p(t); v != nil {
				s.put(path, *v)
			}
		},
	}
}

// objectField is an object with a table of its own.
func objectField[T, U any](key, doc string, p func(*T) *U, table []field[U]) field[T] {
	return field[T]{
		key: key, doc: doc,
		schema: func(def *T) *schema { return objectSchema(p(def), table) },
		decode: func(d *decoder, n *node, path string, t *T) { decodeObject(d, n, path, p(t), table) },
		show:   func(s *shower, path string, t *T) { showObject(s, path, p(t), table) },
	}
}

// rawField is a section that another package decodes.
func rawField[T any](key, doc string, p func(*T) *json.RawMessage, kinds ...kind) field[T] {
	return field[T]{
		key: key, doc: doc,
		schema: func(*T) *schema {
			if len(kinds) == 1 {
				return &schema{Type: schemaType(kinds[0])}
			}
			s := &schema{}
			for _, k := range kinds {
				s.AnyOf = append(s.AnyOf, &schema{Type: schemaType(k)})
			}
			return s
		},
		decode: func(d *decoder, n *node, path string, t *T) {
			for _, k := range kinds {
				if n.kind == k {
					d.record(path, n)
					*p(t) = n.json()
					return
				}
			}
			d.want(n, kinds[0], "")
		},
		show: func(s *shower, path string, t *T) { s.raw(path, *p(t)) },
	}
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// plainDuration prints a duration without the zero parts that Go adds.
func plainDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func between(lo, hi int64) string {
	return fmt.Sprintf("allowed: %d to %d", lo, hi)
}
