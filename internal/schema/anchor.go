package schema

import (
	"errors"
	"net/url"
	"strconv"

	js "github.com/santhosh-tekuri/jsonschema/v6"
)

// findAnchors returns the subschemas that dynamic references can lead to, by
// anchor. Which of them they do lead to is only known while validating, so the
// estimate of work has to count them all.
func findAnchors(c *js.Compiler, doc any) (map[string][]*js.Schema, error) {
	f := anchorFinder{at: map[string][]string{}}
	f.walk(doc, nil)
	// With several documents in one, the target of $recursiveRef can be any
	// subschema, which has no useful bound. The keyword left with draft 2019-09.
	if f.recursive && f.nested {
		return nil, errors.New("$recursiveRef together with a nested $id is not supported: use $dynamicRef")
	}
	if !f.dynamic {
		return nil, nil
	}
	out := map[string][]*js.Schema{}
	for anchor, places := range f.at {
		for _, place := range places {
			// What does not compile is not a subschema, only data that looks like one.
			if s, err := c.Compile(home + "#" + (&url.URL{Fragment: place}).EscapedFragment()); err == nil {
				out[anchor] = append(out[anchor], s)
			}
		}
	}
	return out, nil
}

type anchorFinder struct {
	at                         map[string][]string // anchor -> pointers
	dynamic, recursive, nested bool
}

func (f *anchorFinder) walk(v any, path []string) {
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			f.walk(e, append(path, strconv.Itoa(i)))
		}
	case map[string]any:
		if anchor, ok := v["$dynamicAnchor"].(string); ok {
			f.at[anchor] = append(f.at[anchor], pointer(path))
		}
		f.dynamic = f.dynamic || v["$dynamicRef"] != nil
		f.recursive = f.recursive || v["$recursiveRef"] != nil
		f.nested = f.nested || v["$id"] != nil && len(path) > 0
		for key, e := range v {
			f.walk(e, append(path, key))
		}
	}
}
