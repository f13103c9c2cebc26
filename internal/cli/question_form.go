package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stoahub/stoa/internal/schema"
	"github.com/stoahub/stoa/internal/wire"
)

// formField is a member of what a server wants to know.
type formField struct {
	name     string
	raw      []byte // its schema
	required bool
	options  []option // what can be chosen; empty if anything can be written

	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Format      string          `json:"format"`
	Default     json.RawMessage `json:"default"`
	Enum        []string        `json:"enum"`
	EnumNames   []string        `json:"enumNames"`
	OneOf       []option        `json:"oneOf"`
	Items       struct {
		Enum  []string `json:"enum"`
		AnyOf []option `json:"anyOf"`
		OneOf []option `json:"oneOf"`
	} `json:"items"`
}

// option is one of the values that can be chosen.
type option struct {
	Value string `json:"const"`
	Title string `json:"title"`
}

// formFields are the members of a schema, in its order.
func formFields(raw []byte) ([]*formField, error) {
	var top struct {
		Required []string `json:"required"`
	}
	if err := json.Unmarshal(raw, &top); len(raw) > 0 && err != nil {
		return nil, err
	}
	var out []*formField
	for _, m := range wire.Members(wire.Get(raw, "properties")) {
		f := &formField{raw: m.Value}
		if err := json.Unmarshal(m.Value, f); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(`"`+string(m.Name)+`"`), &f.name); err != nil {
			f.name = string(m.Name)
		}
		f.required = slices.Contains(top.Required, f.name)
		f.options = slices.Concat(f.OneOf, f.Items.AnyOf, f.Items.OneOf)
		for i, v := range slices.Concat(f.Enum, f.Items.Enum) {
			o := option{Value: v}
			if i < len(f.EnumNames) {
				o.Title = f.EnumNames[i]
			}
			f.options = append(f.options, o)
		}
		out = append(out, f)
	}
	return out, nil
}

// form has the person fill in what a server wants to know.
func (q *questioner) form(ctx context.Context, raw []byte) ([]byte, error) {
	fields, err := formFields(raw)
	if err != nil {
		return nil, failed(exitFailed, "Ask whoever runs the server.", "the form that the server shows cannot be read: %w", err)
	}
	if len(fields) == 0 {
		return q.choose(ctx, "agreed? [y]es, [n]o, [c]ancel > ", func() ([]byte, error) { return content([]byte("{}")), nil })
	}
	var names []string
	for _, f := range fields {
		names = append(names, f.label())
	}
	q.say("  It wants to know: "+exactLine(strings.Join(names, ", ")), "")
	return q.choose(ctx, "answer? [y]es, [n]o, [c]ancel > ", func() ([]byte, error) { return q.fill(ctx, raw, fields) })
}

func content(object []byte) []byte {
	return wire.Edit(nil, accepted, wire.Change{Name: "content", Value: object})
}

// fill asks for each field, until what was written fits together and the person
// wants to send it.
func (q *questioner) fill(ctx context.Context, raw []byte, fields []*formField) ([]byte, error) {
	for {
		object := []byte("{}")
		for _, f := range fields {
			value, ok, err := q.field(ctx, f)
			if err != nil {
				return nil, err
			}
			if !ok {
				return cancelled, nil
			}
			if value != nil {
				object = wire.Edit(nil, object, wire.Change{Name: f.name, Value: value})
			}
		}
		if s, err := schema.Compile(raw); err == nil {
			if problem := schema.Describe(s.Validate(object)); problem != "" {
				q.say("", "That does not fit together: "+problem)
				continue
			}
		}
		if len(fields) == 1 {
			return content(object), nil
		}
		q.say("", indented(object))
		answer, err := q.choose(ctx, "send it? [y]es, [n]o, [c]ancel, [e]dit > ", func() ([]byte, error) { return content(object), nil })
		if !errors.Is(err, errEdit) {
			return answer, err
		}
	}
}

func (f *formField) label() string {
	if f.Title != "" && f.Title != f.name {
		return f.Title
	}
	return f.name
}

// hints say what may be written.
func (f *formField) hints() string {
	var all []string
	switch what := f.Type; {
	case f.Type == "array" && len(f.options) > 0:
		all = append(all, "any of these, with commas between")
	case len(f.options) > 0:
		all = append(all, "one of these")
	case f.Type == "boolean":
		all = append(all, "yes or no")
	case f.Format != "":
		all = append(all, exactLine(f.Format))
	case what == "integer":
		all = append(all, "a whole number")
	case what == "number":
		all = append(all, "a number")
	}
	if !f.required {
		all = append(all, "may be left empty")
	}
	if f.Default != nil {
		all = append(all, "empty means "+exactLine(string(f.Default)))
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, "; ") + ")"
}

// field asks for one field. The value is nil for none; ok is false if the person
// has ended the input.
func (q *questioner) field(ctx context.Context, f *formField) (value []byte, ok bool, err error) {
	if f.Description != "" {
		q.say("", f.Description)
	}
	for i, o := range f.options {
		line := fmt.Sprintf("  %d. %s", i+1, exactLine(o.Value))
		if o.Title != "" && o.Title != o.Value {
			line = fmt.Sprintf("  %d. %s (%s)", i+1, exactLine(o.Title), exactLine(o.Value))
		}
		q.say(line, "")
	}
	for {
		line, ok, err := q.read(ctx, exactLine(f.label())+f.hints()+" > ")
		switch {
		case err != nil || !ok:
			return nil, false, err
		case line == "" && f.Default != nil:
			return f.Default, true, nil
		case line == "" && !f.required:
			return nil, true, nil
		case line == "":
			q.say("  Something has to be written here; Ctrl-D cancels.", "")
			continue
		}
		value, err := f.read(line)
		if err == nil {
			err = f.check(value)
		}
		if err == nil {
			return value, true, nil
		}
		q.say("", "That cannot be: "+err.Error())
	}
}

// read makes a value of what a person wrote.
func (f *formField) read(line string) ([]byte, error) {
	switch {
	case f.Type == "array" && len(f.options) > 0:
		all := []string{}
		for _, part := range strings.Split(line, ",") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			value, err := f.option(part)
			if err != nil {
				return nil, err
			}
			all = append(all, value)
		}
		return json.Marshal(all)
	case len(f.options) > 0:
		value, err := f.option(line)
		return wire.Quote(value), err
	case f.Type == "string":
		return wire.Quote(line), nil
	case f.Type == "boolean":
		switch strings.ToLower(line) {
		case "y", "yes", "true":
			return []byte("true"), nil
		case "n", "no", "false":
			return []byte("false"), nil
		}
		return nil, errors.New("write yes or no")
	case f.Type == "integer", f.Type == "number":
		if _, err := strconv.ParseFloat(line, 64); err != nil || !json.Valid([]byte(line)) {
			return nil, errors.New("write a number")
		}
		return []byte(line), nil
	case json.Valid([]byte(line)):
		return []byte(line), nil
	}
	return wire.Quote(line), nil
}

// option finds what is chosen: by its value, its title or its number.
func (f *formField) option(text string) (string, error) {
	for _, o := range f.options {
		if o.Value == text || o.Title != "" && strings.EqualFold(o.Title, text) {
			return o.Value, nil
		}
	}
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(f.options) {
		return f.options[n-1].Value, nil
	}
	return "", fmt.Errorf("%q is none of them: write its number, or what it says", text)
}

// check says what is wrong with a value.
func (f *formField) check(value []byte) error {
	s, err := schema.Compile(f.raw)
	if err != nil {
		return nil // the server will say
	}
	for _, fault := range s.Validate(value) {
		return errors.New("it " + fault.Message)
	}
	return nil
}
