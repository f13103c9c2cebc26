package plan

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/schema"
	"github.com/stoahub/stoa/internal/session"
)

// lookUp finds references in one object; what is not there is nil.
func lookUp(data string) func(session.Reference) ([]byte, error) {
	return func(r session.Reference) ([]byte, error) {
		v, err := session.Dig([]byte(data), append([]session.Step{session.Member(r.Name)}, r.Path...))
		if fault.Is(err, fault.BadReference) {
			return nil, nil
		}
		return v, err
	}
}

func TestConditions(t *testing.T) {
	const data = `{"n":3,"big":12345678901234567890123,"s":"hello","e":"","l":[1,{"a":2}],"o":{"k":null},"t":true,"f":false,"huge":1e999999999}`
	for text, want := range map[string]bool{
		`{"value":"@n"}`:                                             true,
		`{"value":"@x"}`:                                             false,
		`{"value":"@o.k"}`:                                           false,
		`{"value":"@x","is":"absent"}`:                               true,
		`{"value":"@o.k","is":"absent"}`:                             true,
		`{"value":"@t","is":"true"}`:                                 true,
		`{"value":"@f","is":"true"}`:                                 false,
		`{"value":"@f","is":"false"}`:                                true,
		`{"value":"@n","is":"true"}`:                                 false,
		`{"value":"@e","is":"empty"}`:                                true,
		`{"value":"@l","is":"empty"}`:                                false,
		`{"value":"@x","is":"empty"}`:                                true,
		`{"value":"@n","is":"equal","to":3.0}`:                       true,
		`{"value":"@n","is":"equal","to":"3"}`:                       false,
		`{"value":"@n","is":"unequal","to":4}`:                       true,
		`{"value":"@x","is":"unequal","to":4}`:                       false,
		`{"value":"@big","is":"equal","to":12345678901234567890124}`: false,
		`{"value":"@big","is":"less","to":12345678901234567890124}`:  true,
		`{"value":"@huge","is":"greater","to":1}`:                    true,
		`{"value":"@n","is":"less","to":10}`:                         true,
		`{"value":"@s","is":"less","to":10}`:                         false,
		`{"value":"@s","is":"greater","to":"hell"}`:                  true,
		`{"value":"@s","is":"contains","to":"ell"}`:                  true,
		`{"value":"@l","is":"contains","to":{"a":2}}`:                true,
		`{"value":"@o","is":"contains","to":"k"}`:                    true,
		`{"value":"@n","is":"contains","to":3}`:                      false,
		`{"value":"@s","is":"matches","to":"^h.*o$"}`:                true,
		`{"value":"@l[1].a","is":"equal","to":2}`:                    true,
		`{"value":"@n","is":"equal","to":"@l[0]"}`:                   false,
		`{"value":"@l[0]","is":"equal","to":"@l[0]"}`:                true,
		`{"value":"@l","is":"equal","to":[1,{"a":"@l[1].a"}]}`:       true,
		`{"not":{"value":"@t","is":"true"}}`:                         false,
		`{"all":[{"value":"@t"},{"value":"@x"}]}`:                    false,
		`{"any":[{"value":"@x"},{"value":"@t"}]}`:                    true,
	} {
		var c Condition
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
		if p := c.check("", 0); p != nil {
			t.Errorf("%s: %v", text, p)
		}
		got, err := c.Holds(lookUp(data))
		if err != nil || got != want {
			t.Errorf("%s is %v (%v), want %v", text, got, err, want)
		}
	}
	broken := errors.New("the store is away")
	c := Condition{Any: []Condition{{Value: "@x"}, {Value: "@t"}}}
	if _, err := c.Holds(func(session.Reference) ([]byte, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("an error is not an answer: %v", err)
	}
}

func TestPreflight(t *testing.T) {
	tools := map[string]Tool{
		"copy": {Input: &schema.Lazy{Raw: []byte(`{"type":"object","required":["from","to"],"additionalProperties":false,"properties":{"from":{"type":"string"},"to":{"type":"string"},"mode":{"enum":["fast","safe"]},"n":{"type":"integer"}}}`)}},
		"any":  {},
		"odd":  {Input: &schema.Lazy{Raw: []byte(`{"type":"object","anyOf":[{"required":["a"],"properties":{"a":{"type":"string"}}},{"required":["b"]}]}`)}},
	}
	find := func(name string) (Tool, error) {
		if t, ok := tools[name]; ok {
			return t, nil
		}
		return Tool{}, &fault.Error{Kind: fault.UnknownTool, Msg: "there is no such tool", Hint: "Is copy meant?"}
	}
	known := func(r session.Reference) []byte {
		v, _ := lookUp(`{"path":"/a","num":5}`)(r)
		return v
	}
	for _, c := range []struct{ step, want string }{
		{`{"id":"s","tool":"copy","args":{"from":"@later","to":"x"}}`, ""},
		{`{"id":"s","tool":"copy","args":{"from":"@path","to":"@later.b"}}`, ""},
		{`{"id":"s","tool":"copy","args":{"from":"@num","to":"x"}}`, "/steps/0/args/from"},
		{`{"id":"s","tool":"copy","args":{"from":"@later"}}`, "/steps/0/args"},
		{`{"id":"s","tool":"copy","args":{"from":"@later","to":"x","mod":"fast"}}`, "/steps/0/args/mod"},
		{`{"id":"s","tool":"copy","args":{"from":"@later","to":"x","mode":"slow"}}`, "/steps/0/args/mode"},
		{`{"id":"s","tool":"copy","args":{"from":"@later","to":"x","mode":"@later"}}`, ""},
		{`{"id":"s","tool":"odd","args":{"a":"@later"}}`, ""},
		{`{"id":"s","tool":"odd","args":{"c":"@later"}}`, "/steps/0/args"},
		{`{"id":"s","tool":"any","args":{"c":"@later"}}`, ""},
		{`{"id":"s","tool":"cpy"}`, "/steps/0/tool cpy cannot be called: there is no such tool. Is copy meant?"},
		{`{"id":"s","tool":"any","compensate":{"tool":"copy","args":{"from":1,"to":"@s"}}}`, "/steps/0/compensate/args/from"},
	} {
		p, problems := Decode([]byte(`{"steps":[` + c.step + `]}`))
		if problems != nil {
			t.Fatal(problems)
		}
		problems = Preflight(p, find, known)
		switch {
		case c.want == "" && len(problems) > 0:
			t.Errorf("%s: %v", c.step, problems)
		case c.want != "" && (len(problems) == 0 || !strings.HasPrefix(problems[0].String(), c.want)):
			t.Errorf("%s: got %v, want %s", c.step, problems, c.want)
		}
	}
}
