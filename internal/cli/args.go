package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/wire"
)

const argsHint = `Give key=value pairs (key:=JSON for any JSON, key.sub=value for nesting), or one of '{"key": …}', @file and - for stdin.`

// arguments makes a JSON object of what was said after a tool's name.
func arguments(words []string, s shape, stdin io.Reader) ([]byte, error) {
	if len(words) == 0 {
		return []byte("{}"), nil
	}
	if whole := len(words) == 1; whole || slices.ContainsFunc(words, isWhole) {
		switch {
		case !whole:
			return nil, failed(exitUsage, argsHint, "arguments: a whole object cannot be mixed with others")
		case words[0] == "-":
			b, err := io.ReadAll(stdin)
			if err != nil {
				return nil, fmt.Errorf("read the arguments from stdin: %w", err)
			}
			return object(b, "stdin")
		case strings.HasPrefix(words[0], "@"):
			b, err := os.ReadFile(words[0][1:])
			if err != nil {
				return nil, failed(exitUsage, argsHint, "read the arguments: %w", err)
			}
			return object(b, words[0][1:])
		case isWhole(words[0]):
			return object([]byte(words[0]), "arguments")
		}
	}
	top := members{}
	for _, word := range words {
		if err := top.add(word, s); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(top); err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

func isWhole(word string) bool {
	return word == "-" || strings.HasPrefix(word, "@") || strings.HasPrefix(strings.TrimSpace(word), "{")
}

// object checks that text is a JSON object, which the hub wants of arguments.
func object(text []byte, from string) ([]byte, error) {
	text = bytes.TrimSpace(text)
	var m map[string]json.RawMessage
	if err := json.Unmarshal(text, &m); err != nil || m == nil {
		if err == nil {
			err = fmt.Errorf("it is null")
		}
		return nil, failed(exitUsage, argsHint, "%s: not a JSON object: %w", from, err)
	}
	return text, nil
}

// members is an object that is being made: its values are members, list or
// json.RawMessage.
type members map[string]any

// list collects the elements of an array that are given one by one.
type list []json.RawMessage

// add takes one key=value.
func (m members) add(word string, s shape) error {
	key, value, ok := strings.Cut(word, "=")
	if !ok || key == "" || key == ":" {
		return failed(exitUsage, argsHint, "argument %q is not key=value", word)
	}
	key, exact := strings.CutSuffix(key, ":")
	if exact && !json.Valid([]byte(value)) {
		return failed(exitUsage, "Use = instead of := to give it as text.", "argument %s: %q is not JSON", key, value)
	}
	steps := []string{key}
	if !s.has(key) {
		steps = strings.Split(key, ".")
	}
	for i, step := range steps {
		if step == "" {
			return failed(exitUsage, argsHint, "argument %q has an empty part between its dots", key)
		}
		s = s.property(step)
		if i == len(steps)-1 {
			return m.set(step, key, value, exact, s)
		}
		inner, isObject := m[step].(members)
		if m[step] == nil {
			inner, isObject = members{}, true
			m[step] = inner
		}
		if !isObject {
			return failed(exitUsage, argsHint, "argument %q: %s has been given a value already", key, step)
		}
		m = inner
	}
	return nil
}

// set gives a member its value, or one more element if it is an array.
func (m members) set(name, key, value string, exact bool, s shape) error {
	kinds := s.kinds()
	before, given := m[name]
	elements, isList := before.(list)
	if kinds["array"] && !kinds["string"] && !exact && !isArray(value) && (!given || isList) {
		m[name] = append(elements, typed(value, s.items()))
		return nil
	}
	if given {
		return failed(exitUsage, argsHint, "argument %q is given twice", key)
	}
	if exact {
		m[name] = json.RawMessage(value)
	} else {
		m[name] = typed(value, s)
	}
	return nil
}

func isArray(value string) bool {
	return strings.HasPrefix(strings.TrimSpace(value), "[") && json.Valid([]byte(value))
}

// typed reads a value: as text where the schema allows text, else as JSON if
// it is some, else as text.
func typed(value string, s shape) json.RawMessage {
	if !s.kinds()["string"] && json.Valid([]byte(value)) {
		return json.RawMessage(value)
	}
	return wire.Quote(value)
}
