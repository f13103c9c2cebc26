package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	js "github.com/santhosh-tekuri/jsonschema/v6"
)

// The bounds of a schema; see the package comment.
const (
	maxSchemaBytes   = 1 << 20
	maxSchemaObjects = 10_000
	maxSchemaDepth   = 200
)

// home is the address a schema is compiled under. It resolves to nothing.
const home = "stoa:///schema"

// Schema is a compiled JSON Schema.
type Schema struct {
	compiled *js.Schema
	root     *node                 // for the estimate of work
	closed   map[string]*js.Schema // subschemas with additionalProperties false, by location
	notes    []string
}

// Compile compiles a schema of the draft it names in $schema, or of 2020-12.
// A pattern that Go's regular expressions cannot express is taken as matching
// everything, and leaves a note.
func Compile(raw []byte) (s *Schema, err error) {
	if len(raw) > maxSchemaBytes {
		return nil, fmt.Errorf("compile schema: %d bytes are more than the %d allowed", len(raw), maxSchemaBytes)
	}
	// The compiler was written for schemas of people one trusts.
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("compile schema: the compiler gave up on it: %v", p)
		}
	}()
	doc, err := decodeSchema(raw)
	if err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	s = &Schema{}
	s.relaxPatternProperties(doc)
	c := js.NewCompiler()
	c.DefaultDraft(js.Draft2020)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(s.compilePattern)
	if err := c.AddResource(home, doc); err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	if s.compiled, err = c.Compile(home); err != nil {
		return nil, fmt.Errorf("compile schema: %w", tidy(err))
	}
	anchored, err := findAnchors(c, doc)
	if err == nil {
		err = s.survey(anchored)
	}
	if err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	slices.Sort(s.notes)
	s.notes = slices.Compact(s.notes)
	return s, nil
}

// Notes says what of the schema is not enforced, in a fixed order.
func (s *Schema) Notes() []string { return slices.Clone(s.notes) }

func decodeSchema(raw []byte) (any, error) {
	objects, err := measure(raw, maxSchemaDepth)
	if err != nil {
		return nil, err
	}
	if objects > maxSchemaObjects {
		return nil, fmt.Errorf("%d objects are more than the %d allowed", objects, maxSchemaObjects)
	}
	doc, err := decode(raw)
	if err != nil {
		return nil, err
	}
	switch doc.(type) {
	case map[string]any, bool:
		return doc, nil
	}
	return nil, errors.New("a schema is an object or a boolean")
}

// decode reads one JSON value with its numbers as they are written.
func decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not JSON: more text after the value")
	}
	return v, nil
}

// tidy drops the compiler's preface, which names our made-up address.
func tidy(err error) error {
	if e, ok := errors.AsType[*js.SchemaValidationError](err); ok {
		if v, ok := errors.AsType[*js.ValidationError](e.Err); ok {
			var at []string
			for _, f := range collect(v, nil, nil) {
				at = append(at, fmt.Sprintf("%q %s", f.Pointer, f.Message))
			}
			return errors.New("it breaks the rules of its draft: at " + strings.Join(at, "; at "))
		}
	}
	return err
}

type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("a reference to %s leaves the schema, and nothing is loaded from elsewhere: put it under $defs", url)
}

// compilePattern is the regular expression engine of the compiler.
func (s *Schema) compilePattern(pattern string) (js.Regexp, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		s.notePattern(pattern)
		return anything(pattern), nil
	}
	return re, nil
}

func (s *Schema) notePattern(pattern string) {
	s.notes = append(s.notes, fmt.Sprintf("the pattern %s is not checked: it uses syntax this engine does not have", quote(pattern)))
}

// anything is a pattern that could not be compiled and so matches all.
type anything string

func (a anything) String() string          { return string(a) }
func (a anything) MatchString(string) bool { return true }

// relaxPatternProperties lets a property under a pattern that cannot be
// compiled be anything: since the pattern matches every name, its subschema
// would otherwise be held against every property.
func (s *Schema) relaxPatternProperties(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			s.relaxPatternProperties(e)
		}
	case map[string]any:
		if byPattern, ok := v["patternProperties"].(map[string]any); ok {
			for pattern := range byPattern {
				if _, err := regexp.Compile(pattern); err != nil {
					byPattern[pattern] = true
					s.notePattern(pattern)
				}
			}
		}
		for _, e := range v {
			s.relaxPatternProperties(e)
		}
	}
}

// Lazy compiles a schema when it is first needed, once. The zero value is the
// schema that allows everything.
type Lazy struct {
	Raw []byte // not to be changed

	once sync.Once
	s    *Schema
	err  error
}

// Get returns the compiled schema or why there is none.
func (l *Lazy) Get() (*Schema, error) {
	l.once.Do(func() {
		raw := l.Raw
		if len(raw) == 0 {
			raw = []byte("true")
		}
		l.s, l.err = Compile(raw)
	})
	return l.s, l.err
}
