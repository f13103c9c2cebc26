package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/wire"
)

// defining are the members of a definition that say what it is.
var defining = []string{"name", "uri", "uriTemplate", "title", "description", "mimeType", "arguments", "inputSchema", "outputSchema", "annotations"}

// Digest is a hash of what the definition says: of what a model or a person
// goes by, whatever the order of its members and the way they are written.
//
// What a schema of arguments needs is a set: its order says nothing either.
func Digest(def []byte) string {
	h := sha256.New()
	if wire.Valid(def, wire.FromClient) != nil {
		// A name that is said twice is read by one as the first and by others as
		// the last: nothing but the bytes says what it is.
		h.Write(def)
		return hex.EncodeToString(h.Sum(nil))
	}
	for _, name := range defining {
		raw := wire.Get(def, name)
		if raw == nil {
			continue
		}
		h.Write([]byte(name))
		h.Write([]byte{0})
		h.Write(canonical(raw))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))
}

// canonical writes JSON in one way only: members sorted, numbers as they came.
func canonical(raw []byte) []byte {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return raw
	}
	out, err := json.Marshal(unordered(v))
	if err != nil {
		return raw
	}
	return out
}

// unordered sorts the lists of names in a schema that are sets.
func unordered(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if list, ok := member.([]any); ok && name == "required" {
				sortTexts(list)
			}
			unordered(member)
		}
	case []any:
		for _, e := range v {
			unordered(e)
		}
	}
	return v
}

// sortTexts sorts a list of texts; any other list stays as it is.
func sortTexts(list []any) {
	for _, e := range list {
		if _, ok := e.(string); !ok {
			return
		}
	}
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
}
