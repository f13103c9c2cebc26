package llmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// GeminiBody is what the rules of Gemini speak of.
type GeminiBody struct {
	Contents          []GeminiContent `json:"contents"`
	SystemInstruction *GeminiContent  `json:"systemInstruction"`
	Tools             []struct {
		Declarations []struct {
			Name       string `json:"name"`
			Parameters *struct {
				Type       string         `json:"type"`
				Properties map[string]any `json:"properties"`
			} `json:"parameters"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
}

// GeminiContent is a turn or a step of one.
type GeminiContent struct {
	Role  string       `json:"role"`
	Parts []GeminiPart `json:"parts"`
}

// GeminiPart is a part of a content.
type GeminiPart struct {
	Text      *string         `json:"text"`
	Call      *GeminiFunction `json:"functionCall"`
	Response  *GeminiFunction `json:"functionResponse"`
	Signature string          `json:"thoughtSignature"`
}

// GeminiFunction is a call or a response.
type GeminiFunction struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Args     json.RawMessage `json:"args"`
	Response json.RawMessage `json:"response"`
}

// functions returns the calls and the responses of a content.
func (c GeminiContent) functions() (calls, responses []GeminiFunction) {
	for _, p := range c.Parts {
		if p.Call != nil {
			calls = append(calls, *p.Call)
		}
		if p.Response != nil {
			responses = append(responses, *p.Response)
		}
	}
	return calls, responses
}

// CheckGemini holds to the rules of models.streamGenerateContent.
func CheckGemini(body []byte) error { return checkAll(body, GeminiRules) }

const geminiSDK = "google.golang.org/genai, "

var geminiName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.-]{0,63}$`)

// contents makes a rule of what holds for each content and the one before it,
// which is empty before the first.
func contents(holds func(before, c GeminiContent) error) func(GeminiBody) error {
	return func(b GeminiBody) error {
		var before GeminiContent
		for i, c := range b.Contents {
			if err := holds(before, c); err != nil {
				return fmt.Errorf("contents.%d: %w", i, err)
			}
			before = c
		}
		return nil
	}
}

// GeminiRules are the rules of streamGenerateContent.
var GeminiRules = []Rule[GeminiBody]{
	{"the user is first", "google-gemini/gemini-cli#11814: a history that starts with a function call is refused", func(b GeminiBody) error {
		if len(b.Contents) == 0 || b.Contents[0].Role != "user" {
			return errors.New("it is not")
		}
		return nil
	}},
	{"the user is last", "crewAIInc/crewAI#6973: a history that ends on a model turn is refused", func(b GeminiBody) error {
		if b.Contents[len(b.Contents)-1].Role != "user" {
			return errors.New("it is not")
		}
		return nil
	}},
	{"roles are user and model", geminiSDK + "Content.Role", contents(func(_, c GeminiContent) error {
		if c.Role != "user" && c.Role != "model" {
			return fmt.Errorf("%q", c.Role)
		}
		return nil
	})},
	{"contents have parts, and parts have data", "router-for-me/CLIProxyAPI#1293: «required oneof field 'data' must have one initialized field»", func(b GeminiBody) error {
		list := b.Contents
		if b.SystemInstruction != nil {
			list = append(slices.Clone(list), *b.SystemInstruction)
		}
		for i, c := range list {
			if len(c.Parts) == 0 || slices.ContainsFunc(c.Parts, func(p GeminiPart) bool {
				return p.Text == nil && p.Call == nil && p.Response == nil && p.Signature == ""
			}) {
				return fmt.Errorf("contents.%d", i)
			}
		}
		return nil
	}},
	{"functions stand with their role", geminiSDK + "Content.Role, FunctionCall, FunctionResponse", contents(func(_, c GeminiContent) error {
		if calls, responses := c.functions(); len(calls) > 0 && c.Role != "model" || len(responses) > 0 && c.Role != "user" {
			return fmt.Errorf("%s", c.Role)
		}
		return nil
	})},
	{"there are as many responses as calls, right after them and of their names", "google-gemini/gemini-cli#16984: «number of function response parts is equal to the number of function call parts of the function call turn»; " + geminiSDK + "FunctionResponse.Name", func(b GeminiBody) error {
		if calls, _ := b.Contents[len(b.Contents)-1].functions(); len(calls) > 0 {
			return errors.New("the last calls have none")
		}
		return contents(geminiPairs)(b)
	}},
	{"responses stand alone", "anomalyco/opencode#43479: a function-response turn contains only function responses", contents(func(_, c GeminiContent) error {
		if _, responses := c.functions(); len(responses) > 0 && len(responses) != len(c.Parts) {
			return errors.New("they do not")
		}
		return nil
	})},
	{"calls come right after a turn of the user or responses", "google-gemini/gemini-cli#26486: «function call turn comes immediately after a user turn or after a function response turn»", contents(func(before, c GeminiContent) error {
		if calls, _ := c.functions(); len(calls) > 0 && before.Role != "user" {
			return errors.New("they do not")
		}
		return nil
	})},
	{"otherwise roles alternate", "BrianShenCC/bob-plugin-gemini-translate#8: one after the other; parallel calls as one content, googleapis/js-genai#1275", contents(func(before, c GeminiContent) error {
		if _, responses := before.functions(); before.Role == c.Role && len(responses) == 0 {
			return fmt.Errorf("%s again", c.Role)
		}
		return nil
	})},
	{"in the current turn, the first call of each step is signed", "ai.google.dev/gemini-api/docs/thought-signatures", geminiSigned},
	{"names begin with a letter or _ and have 64 characters of a-z, A-Z, 0-9, _, . and - at most", "21st-dev/magic-mcp#34: «Invalid function name. Must start with a letter or an underscore…»", func(b GeminiBody) error {
		for _, t := range b.Tools {
			for _, d := range t.Declarations {
				if !geminiName.MatchString(d.Name) {
					return fmt.Errorf("%q", d.Name)
				}
			}
		}
		return contents(func(_, c GeminiContent) error {
			calls, responses := c.functions()
			for _, f := range append(calls, responses...) {
				if !geminiName.MatchString(f.Name) {
					return fmt.Errorf("%q", f.Name)
				}
			}
			return nil
		})(b)
	}},
	{"arguments and responses are objects", geminiSDK + "FunctionCall.Args, FunctionResponse.Response", contents(func(_, c GeminiContent) error {
		calls, responses := c.functions()
		for _, f := range calls {
			if len(f.Args) > 0 && f.Args[0] != '{' {
				return fmt.Errorf("%s", f.Args)
			}
		}
		for _, f := range responses {
			if len(f.Response) == 0 || f.Response[0] != '{' {
				return fmt.Errorf("%s", f.Response)
			}
		}
		return nil
	})},
	{"lists of functions are not empty", "google-gemini/gemini-cli#22210", func(b GeminiBody) error {
		for i, t := range b.Tools {
			if len(t.Declarations) == 0 {
				return fmt.Errorf("tools.%d", i)
			}
		}
		return nil
	}},
	{"parameters are an object with properties, or none", "pipecat-ai/pipecat-flows#110: «should be non-empty for OBJECT type»", func(b GeminiBody) error {
		for _, t := range b.Tools {
			for _, d := range t.Declarations {
				if p := d.Parameters; p != nil && (p.Type != "OBJECT" || len(p.Properties) == 0) {
					return fmt.Errorf("%s", d.Name)
				}
			}
		}
		return nil
	}},
}

func geminiPairs(before, c GeminiContent) error {
	calls, _ := before.functions()
	_, responses := c.functions()
	if len(calls) != len(responses) {
		return fmt.Errorf("%d responses to %d calls", len(responses), len(calls))
	}
	for i, call := range calls {
		if r := responses[i]; r.Name != call.Name || r.ID != call.ID {
			return fmt.Errorf("response %s %s to call %s %s", r.Name, r.ID, call.Name, call.ID)
		}
	}
	return nil
}

// geminiSigned looks back to the last content of the user's own words.
func geminiSigned(b GeminiBody) error {
	for i := len(b.Contents) - 1; i >= 0; i-- {
		c := b.Contents[i]
		if _, responses := c.functions(); c.Role == "user" && len(responses) == 0 {
			return nil
		}
		for _, p := range c.Parts {
			if p.Call == nil {
				continue
			}
			if p.Signature == "" {
				return fmt.Errorf("contents.%d: %s", i, p.Call.Name)
			}
			break
		}
	}
	return nil
}
