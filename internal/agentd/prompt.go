package agentd

import (
	"slices"
	"strconv"
	"strings"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/spell"
	"github.com/stoahub/stoa/internal/wire"
)

// prompt is a compiled prompt.
type prompt struct {
	name        string
	description string
	definition  []byte
	names       []string
	required    []string
	messages    []message
}

type message struct {
	role string
	text template
}

func (c *compiler) prompt(m *config.ManifestPrompt) *prompt {
	path := "/prompts/" + pointer(m.Name)
	p := &prompt{name: m.Name, description: m.Description}
	args := []map[string]any{}
	for i, a := range m.Arguments {
		at := path + "/arguments/" + strconv.Itoa(i)
		switch {
		case a.Name == "" && !c.m.Said(at+"/name"):
			c.wrong(at, "write `name: …`", "an argument has no name")
		case slices.Contains(p.names, a.Name):
			c.wrong(at, "keep one of them", "the argument %q is there twice", a.Name)
		}
		p.names = append(p.names, a.Name)
		one := map[string]any{"name": a.Name}
		if a.Title != "" {
			one["title"] = a.Title
		}
		if a.Description != "" {
			one["description"] = a.Description
		}
		if a.Required {
			p.required = append(p.required, a.Name)
			one["required"] = true
		}
		args = append(args, one)
	}
	if len(m.Messages) == 0 {
		p.messages = []message{{"user", c.template(path+"/text", m.Text, p.names)}}
	}
	for i, msg := range m.Messages {
		at := path + "/messages/" + strconv.Itoa(i)
		if msg.Role == "" && !c.m.Said(at+"/role") {
			c.wrong(at, "write `role: user` or `role: assistant`", "nobody says the message")
		}
		p.messages = append(p.messages, message{msg.Role, c.template(at+"/text", msg.Text, p.names)})
	}
	p.definition = definition(map[string]any{"name": m.Name, "title": m.Title, "description": m.Description, "arguments": args})
	return p
}

// prompt answers prompts/get.
func (a *Agent) prompt(req *mcp.Request) (mcp.Response, error) {
	name, ok := req.Text("name")
	if !ok {
		return mcp.Response{}, fault.New(fault.InvalidParams, req.Method, "name is missing or not a string")
	}
	p := a.offer.Load().prompts[name]
	if p == nil {
		return mcp.Response{}, fault.New(fault.UnknownTool, name, "unknown prompt")
	}
	args, err := p.values(req.Param("arguments"))
	if err != nil {
		return mcp.Response{}, err
	}
	out := []byte(`{`)
	if p.description != "" {
		out = append(wire.AppendString(append(out, `"description":`...), p.description), ',')
	}
	out = append(out, `"messages":[`...)
	for i, m := range p.messages {
		if i > 0 {
			out = append(out, ',')
		}
		text, _ := m.text.fill(args) // values has all of them
		out = wire.AppendString(append(out, `{"role":`...), m.role)
		out = append(wire.AppendString(append(out, `,"content":{"type":"text","text":`...), text), "}}"...)
	}
	return answer(req, append(out, "]}"...))
}

// values reads the arguments of a prompt; those that are not required and not
// given are empty.
func (p *prompt) values(raw []byte) (values, error) {
	out := values{}
	for _, f := range wire.Members(raw) {
		text, ok := wire.String(f.Value)
		name := string(f.Name)
		switch {
		case !slices.Contains(p.names, name):
			e := fault.New(fault.InvalidParams, p.name, "the prompt has no argument %q", name)
			if near := spell.Nearest(name, p.names); near != "" {
				e.Hint = "Did you mean " + near + "?"
			} else {
				e.Hint = "It has: " + strings.Join(p.names, ", ")
			}
			return nil, e
		case !ok:
			return nil, fault.New(fault.InvalidParams, p.name, "the argument %q is not a string", name)
		}
		out[name] = value{text, true}
	}
	for _, name := range p.required {
		if _, ok := out[name]; !ok {
			return nil, fault.New(fault.InvalidParams, p.name, "the argument %q is missing", name)
		}
	}
	for _, name := range p.names {
		if _, ok := out[name]; !ok {
			out[name] = value{}
		}
	}
	return out, nil
}
