package agentd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/mcp"
)

// offer is a compiled manifest. It does not change.
type offer struct {
	m         *config.Manifest
	tools     map[string]*tool
	names     []string // of the tools
	resources []*resource
	prompts   map[string]*prompt
	lists     map[string][]byte // the answers to the lists, by method
	legacy    []byte            // that to tools/list for legacy clients
}

// read reads and compiles a manifest.
func read(path string, env func(string) (string, bool)) (*offer, error) {
	m, err := config.LoadManifest(path, env)
	if err != nil {
		return nil, err
	}
	return compile(m)
}

// Check reads a manifest as Open does. It returns what is worth knowing of it,
// or config.Problems.
func Check(path string, env func(string) (string, bool)) (m *config.Manifest, notes []string, err error) {
	o, err := read(path, env)
	if err != nil {
		return nil, nil, err
	}
	return o.m, o.notes(), nil
}

func compile(m *config.Manifest) (*offer, error) {
	c := &compiler{m: m}
	o := &offer{m: m, tools: map[string]*tool{}, prompts: map[string]*prompt{}, lists: map[string][]byte{}}
	var tools, legacy, resources, templates, prompts [][]byte
	for i := range m.Tools {
		t := c.tool(&m.Tools[i])
		o.tools[t.name] = t
		o.names = append(o.names, t.name)
		tools = append(tools, mcp.Define(mcp.Modern, t.definition))
		legacy = append(legacy, mcp.Define(mcp.Legacy, t.definition))
	}
	for i := range m.Resources {
		r := c.resource(&m.Resources[i], o.resources)
		o.resources = append(o.resources, r)
		if r.address.fixed() {
			resources = append(resources, r.definition)
		} else {
			templates = append(templates, r.definition)
		}
	}
	for i := range m.Prompts {
		p := c.prompt(&m.Prompts[i])
		o.prompts[p.name] = p
		prompts = append(prompts, p.definition)
	}
	if err := m.Problems(c.problems); err != nil {
		return nil, err
	}
	o.lists["tools/list"] = listed("tools", tools)
	o.legacy = listed("tools", legacy)
	o.lists["resources/list"] = listed("resources", resources)
	o.lists["resources/templates/list"] = listed("resourceTemplates", templates)
	o.lists["prompts/list"] = listed("prompts", prompts)
	return o, nil
}

func listed(member string, items [][]byte) []byte {
	return slices.Concat([]byte(`{"`+member+`":[`), bytes.Join(items, []byte{','}), []byte("]}"))
}

// definition encodes what is listed; it is made of plain values.
func definition(v map[string]any) []byte {
	for name, one := range v {
		if one == "" {
			delete(v, name)
		}
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic("agentd: a definition cannot be encoded: " + err.Error())
	}
	return b
}

// notes tells of commands that cannot be run here and now.
func (o *offer) notes() (out []string) {
	missing := func(what string, c *command) {
		if c == nil {
			return
		}
		program := c.program
		if filepath.Base(program) != program && !filepath.IsAbs(program) {
			program = filepath.Join(c.dir, program)
		}
		if _, err := exec.LookPath(program); err != nil {
			out = append(out, fmt.Sprintf("%s: the program %s cannot be found: %v", what, c.program, err))
		}
	}
	for _, name := range o.names {
		missing("tool "+name, o.tools[name].command)
	}
	for _, r := range o.resources {
		missing("resource "+r.name, r.command)
	}
	return out
}

// changed are the notifications that tell clients of what is new in o.
func (o *offer) changed(from *offer) (notes []string) {
	differ := func(method string) bool { return !bytes.Equal(o.lists[method], from.lists[method]) }
	if differ("tools/list") {
		notes = append(notes, mcp.NoteToolsChanged)
	}
	if differ("prompts/list") {
		notes = append(notes, mcp.NotePromptsChanged)
	}
	if differ("resources/list") || differ("resources/templates/list") {
		notes = append(notes, mcp.NoteResourcesChanged)
	}
	return notes
}
