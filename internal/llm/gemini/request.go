package gemini

import (
	"encoding/json"
	"strings"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/shape"
)

type request struct {
	Contents          []content   `json:"contents"`
	SystemInstruction *content    `json:"systemInstruction,omitempty"`
	Tools             []toolList  `json:"tools,omitempty"`
	ToolConfig        *toolConfig `json:"toolConfig,omitempty"`
	GenerationConfig  *generation `json:"generationConfig,omitempty"`
}

type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts"`
}

type part struct {
	Text             string            `json:"text,omitempty"`
	Thought          bool              `json:"thought,omitempty"`
	FunctionCall     *functionCall     `json:"functionCall,omitempty"`
	FunctionResponse *functionResponse `json:"functionResponse,omitempty"`
	ThoughtSignature string            `json:"thoughtSignature,omitempty"`
}

type functionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

type functionResponse struct {
	ID       string            `json:"id,omitempty"`
	Name     string            `json:"name"`
	Response map[string]string `json:"response"`
}

type toolList struct {
	FunctionDeclarations []declaration `json:"functionDeclarations"`
}

type declaration struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitempty"`
	Parameters  map[string]any `json:"parameters,omitempty"`
}

type toolConfig struct {
	FunctionCallingConfig callingConfig `json:"functionCallingConfig"`
}

type callingConfig struct {
	Mode                 string   `json:"mode"`
	AllowedFunctionNames []string `json:"allowedFunctionNames,omitempty"`
}

type generation struct {
	Temperature     *float64  `json:"temperature,omitempty"`
	MaxOutputTokens int       `json:"maxOutputTokens,omitempty"`
	ThinkingConfig  *thinking `json:"thinkingConfig,omitempty"`
}

type thinking struct {
	ThinkingBudget  int  `json:"thinkingBudget"`
	IncludeThoughts bool `json:"includeThoughts"`
}

// keep is what Gemini wants back with a part.
type keep struct {
	ID        string `json:"id,omitempty"`
	Signature string `json:"signature,omitempty"`
}

func (k keep) opaque() *llm.Opaque {
	data, _ := json.Marshal(k) // two strings cannot fail
	return &llm.Opaque{Provider: provider, Data: data}
}

func kept(o *llm.Opaque) (k keep, own bool) {
	raw := o.For(provider)
	return k, raw != nil && json.Unmarshal(raw, &k) == nil
}

// skipSignature is what Gemini's manual gives for calls that it did not make.
const skipSignature = "skip_thought_signature_validator"

// body makes the request, and deltas for the tools that are not in it.
func (m *Model) body(req llm.Request, names *shape.Names) (*request, []llm.Delta) {
	b := &request{Contents: contents(req, names)}
	if req.System != "" {
		b.SystemInstruction = &content{Parts: []part{{Text: req.System}}}
	}
	missing := b.declare(req, names)
	g := generation{Temperature: req.Temperature, MaxOutputTokens: req.MaxTokens}
	if m.o.Thinking > 0 {
		g.ThinkingConfig = &thinking{ThinkingBudget: m.o.Thinking, IncludeThoughts: true}
	}
	if g != (generation{}) {
		b.GenerationConfig = &g
	}
	return b, missing
}

func (b *request) declare(req llm.Request, names *shape.Names) (missing []llm.Delta) {
	var list []declaration
	for _, t := range req.Tools {
		parameters, err := schema(t.Schema)
		if err != nil {
			missing = append(missing, llm.Delta{Kind: llm.LeftOut, Tool: t.Name, Text: err.Error()})
			continue
		}
		list = append(list, declaration{Name: names.Out(t.Name), Description: t.Description, Parameters: parameters})
	}
	if len(list) == 0 {
		return missing // an empty list is refused
	}
	b.Tools = []toolList{{list}}
	switch {
	case req.ToolChoice == llm.None:
		b.mode("NONE")
	case req.ToolChoice == llm.Always:
		b.mode("ANY")
		if req.ToolName != "" {
			b.ToolConfig.FunctionCallingConfig.AllowedFunctionNames = []string{names.Out(req.ToolName)}
		}
	}
	return missing
}

func (b *request) mode(mode string) {
	b.ToolConfig = &toolConfig{callingConfig{Mode: mode}}
}

const note = "Your last answer could not be read. Answer with text, or call one of the functions with arguments that match its parameters exactly."

// correct asks again after an answer that could not be used. VALIDATED keeps
// calls to their schemas and still allows an answer in words.
func (b *request) correct() {
	if b.SystemInstruction == nil {
		b.SystemInstruction = &content{}
	}
	if parts := b.SystemInstruction.Parts; len(parts) == 0 || parts[len(parts)-1].Text != note {
		b.SystemInstruction.Parts = append(parts, part{Text: note})
	}
	if len(b.Tools) > 0 && b.ToolConfig == nil {
		b.mode("VALIDATED")
	}
}

// contents turns the history into contents: the user's first and last, all
// calls of an answer in one, their responses in the next with nothing else, and
// otherwise alternating.
func contents(req llm.Request, names *shape.Names) []content {
	now := 0 // where the current turn begins
	for i, m := range req.Messages {
		if m.Role == llm.User && strings.TrimSpace(m.Text()) != "" {
			now = i
		}
	}
	ids := map[string][]string{} // those that Gemini itself gave, by ours and in order
	list := []content{}
	for i, m := range req.Messages {
		role := "user"
		if m.Role == llm.Assistant {
			role = "model"
			ids = map[string][]string{}
		}
		var parts []part
		for _, p := range m.Parts {
			parts = append(parts, convert(p, names, ids)...)
		}
		if role == "model" && i >= now && wantsSignatures(req.Model) {
			signFirst(parts)
		}
		if len(parts) == 0 {
			continue
		}
		if n := len(list); n > 0 && list[n-1].Role == role && list[n-1].responds() == (m.Role == llm.FromTool) {
			list[n-1].Parts = append(list[n-1].Parts, parts...)
		} else {
			list = append(list, content{role, parts})
		}
	}
	if len(list) > 0 && list[0].Role == "model" {
		list = append([]content{{"user", []part{{Text: "(continued)"}}}}, list...)
	}
	if n := len(list); n > 0 && list[n-1].Role == "model" {
		list = append(list, content{"user", []part{{Text: "(continue)"}}})
	}
	return list
}

func (c content) responds() bool { return c.Parts[0].FunctionResponse != nil }

// wantsSignatures reports whether a model refuses calls of the current turn
// that have none: all do since the third generation.
func wantsSignatures(model string) bool {
	model = strings.TrimPrefix(model, "models/")
	return !strings.HasPrefix(model, "gemini-1") && !strings.HasPrefix(model, "gemini-2")
}

func convert(p llm.Part, names *shape.Names, ids map[string][]string) []part {
	k, own := kept(p.Opaque)
	switch {
	case p.Call != nil:
		ids[p.Call.ID] = append(ids[p.Call.ID], k.ID)
		return []part{{FunctionCall: &functionCall{ID: k.ID, Name: names.Out(p.Call.Name), Args: p.Call.Args}, ThoughtSignature: k.Signature}}
	case p.Result != nil:
		name := "output"
		if p.Result.IsError {
			name = "error"
		}
		var id string
		if list := ids[p.Result.ID]; len(list) > 0 {
			id, ids[p.Result.ID] = list[0], list[1:]
		}
		return []part{{FunctionResponse: &functionResponse{ID: id, Name: names.Out(p.Result.Name), Response: map[string]string{name: p.Result.Content}}}}
	case p.Reasoning != "":
		if !own {
			return nil // another's thoughts, or none that are wanted back
		}
		return []part{{Text: p.Reasoning, Thought: true, ThoughtSignature: k.Signature}}
	case strings.TrimSpace(p.Text) != "" || k.Signature != "":
		return []part{{Text: p.Text, ThoughtSignature: k.Signature}}
	}
	return nil
}

// signFirst marks the first call of an answer if it came without a signature,
// from another model or an older one.
func signFirst(parts []part) {
	for i := range parts {
		if parts[i].FunctionCall == nil {
			continue
		}
		if parts[i].ThoughtSignature == "" {
			parts[i].ThoughtSignature = skipSignature
		}
		return
	}
}
