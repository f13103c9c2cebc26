package catalog

import "testing"

// The digest tells definitions apart by what they say, however that is written.
func TestDigest(t *testing.T) {
	const def = `{"name":"a","description":"Adds.","inputSchema":{"type":"object","required":["x","y"],"properties":{"x":{"type":"number","default":1.0}}},"annotations":{"readOnlyHint":true}}`
	for name, tc := range map[string]struct {
		def  string
		same bool
	}{
		"order, spaces, _meta and icons": {`{ "annotations":{"readOnlyHint":true}, "_meta":{"x":1}, "icons":[{}], "inputSchema":{"properties":{"x":{"default":1.0,"type":"number"}},"required":["y","x"],"type":"object"},"description":"Adds\u002e","name":"a"}`, true},
		"a description":                  {`{"name":"a","description":"Adds!","inputSchema":{"type":"object","required":["x","y"],"properties":{"x":{"type":"number","default":1.0}}},"annotations":{"readOnlyHint":true}}`, false},
		"a deep default":                 {`{"name":"a","description":"Adds.","inputSchema":{"type":"object","required":["x","y"],"properties":{"x":{"type":"number","default":2.0}}},"annotations":{"readOnlyHint":true}}`, false},
		"an annotation":                  {`{"name":"a","description":"Adds.","inputSchema":{"type":"object","required":["x","y"],"properties":{"x":{"type":"number","default":1.0}}},"annotations":{"readOnlyHint":false}}`, false},
		"a title":                        {`{"name":"a","title":"A","description":"Adds.","inputSchema":{"type":"object","required":["x","y"],"properties":{"x":{"type":"number","default":1.0}}},"annotations":{"readOnlyHint":true}}`, false},
		"an output schema":               {`{"name":"a","description":"Adds.","outputSchema":{},"inputSchema":{"type":"object","required":["x","y"],"properties":{"x":{"type":"number","default":1.0}}},"annotations":{"readOnlyHint":true}}`, false},
		// Some readers take the second.
		"a description that is there twice": {`{"name":"a","description":"Adds.","description":"Sends.","inputSchema":{"type":"object","required":["x","y"],"properties":{"x":{"type":"number","default":1.0}}},"annotations":{"readOnlyHint":true}}`, false},
	} {
		if got := Digest([]byte(def)) == Digest([]byte(tc.def)); got != tc.same {
			t.Errorf("%s: the same %t", name, got)
		}
	}
}
