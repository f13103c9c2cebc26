package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// registry is how module names are written for the system that the variables
// AIUR_* come from.
const registry = "@legion/tools-registry/"

// asked is a module that somebody asked for by name.
type asked struct {
	name  string
	place place
}

// modulesField reads modules by name, or a list of names to turn on. Names that
// are no module's are remembered until all servers are known.
func modulesField() field[Config] {
	const doc = "Which built-in tools clients and models are offered: a list of modules (`context`, `plan`, `task`, `file`, `debug`, `stoa`), which is the whole choice, or an object by name. " +
		"The tools of other modules can be called by name, but lists do not show them. Left out, clients in a session are offered `context`, `plan` and `debug`; see [sessions.md](sessions.md#modules). " +
		"A name that is no module's means the server of that name; one that is no server's either is reported, and the hub runs without it. `" + registry + "X` means X. Names in `AIUR_MODULES` are added where the file does not say otherwise; `file=FOLDER:FOLDER` there gives the module file its `roots`."
	table := moduleFields()
	get := func(c *Config) *Modules { return &c.Modules }
	return field[Config]{
		key: "modules", doc: doc,
		schema: func(def *Config) *schema {
			s := objectSchema(get(def), table)
			s.Values = &schema{Type: "object"}
			return &schema{AnyOf: []*schema{s, {Type: "array", Items: &schema{Type: "string"}}}}
		},
		decode: func(d *decoder, n *node, path string, c *Config) {
			switch n.kind {
			case object:
				d.modulesByName(n, path, c, table)
			case list:
				c.Modules.Listed = true
				for _, item := range n.items {
					if d.want(item, text, "name a module, as in \"context\"") {
						d.ask(moduleName(item.text), item, c)
					}
				}
			default:
				d.want(n, object, `write {"file": {"roots": ["…"]}}, or a list of names`)
			}
		},
		show: func(s *shower, path string, c *Config) { showObject(s, path, get(c), table) },
	}
}

// moduleName is the name of a module as it was asked for.
func moduleName(s string) string {
	return strings.TrimPrefix(strings.TrimSpace(s), registry)
}

func (d *decoder) modulesByName(n *node, path string, c *Config, table []field[Modules]) {
	for _, m := range n.members {
		i := slices.IndexFunc(table, func(f field[Modules]) bool { return f.key == moduleName(m.name) })
		switch {
		case m.value.kind == null:
		case i >= 0:
			table[i].decode(d, m.value, under(path, table[i].key), &c.Modules)
			c.Modules.name(table[i].key)
		case !isDisabled(m.value):
			named := *m.value
			named.at = m.at
			d.ask(moduleName(m.name), &named, c)
		}
	}
}

// ask notes that the module was asked for at n.
func (d *decoder) ask(name string, n *node, c *Config) {
	d.trace.asked = append(d.trace.asked, asked{name, place{src: d.src, at: n.at, ptr: n.ptr}})
	if on := c.Modules.enabled(name); on != nil {
		d.trace.places["/modules/"+name+"/enabled"] = place{src: d.src, at: n.at, ptr: n.ptr}
		*on = true
	}
	c.Modules.name(name)
}

// controlModule is the module of the hub's own tools, which has no switch.
const controlModule = "stoa"

// name notes that a module is asked for, unless it is switched off.
func (m *Modules) name(module string) {
	on := m.enabled(module)
	isModule := on != nil || module == controlModule
	switch named := slices.Contains(m.Named, module); {
	case on != nil && !*on:
		m.Named = slices.DeleteFunc(m.Named, func(n string) bool { return n == module })
	case isModule && !named:
		m.Named = append(m.Named, module)
	}
}

// enabled returns the switch of the module, or nil where there is none of that
// name.
func (m *Modules) enabled(name string) *bool {
	switch name {
	case "context":
		return &m.Context.Enabled
	case "plan":
		return &m.Plan.Enabled
	case "file":
		return &m.File.Enabled
	case "task":
		return &m.Task.Enabled
	case "debug":
		return &m.Debug.Enabled
	}
	return nil
}

func moduleFields() []field[Modules] {
	plain := func(key, doc string, p func(*Modules) *Module) field[Modules] {
		return objectField(key, doc, p, []field[Module]{
			boolField("enabled", "False takes its tools away. True, or naming the module at all, offers them to every client and model.", func(m *Module) *bool { return &m.Enabled }),
		})
	}
	return []field[Modules]{
		plain("context", "Tools that store values in the session.", func(m *Modules) *Module { return &m.Context }),
		plain("plan", "Tools that make and run plans.", func(m *Modules) *Module { return &m.Plan }),
		plain("task", "Tools that run other tools as durable tasks, for clients that do not know the extension.", func(m *Modules) *Module { return &m.Task }),
		fileModuleField(),
		plain("debug", "Tools that look into the hub.", func(m *Modules) *Module { return &m.Debug }),
	}
}

func fileModuleField() field[Modules] {
	table := []field[FileModule]{
		boolField("enabled", "False takes its tools away; left out, every client and model is offered them where there are `roots`.", func(m *FileModule) *bool { return &m.Enabled }),
		textsField("roots", "The folders whose files the tools may use. Without any, the module is off. The hub's configuration, `.env` files, manifests, the data folder and the files of keys and tokens are out of reach wherever they are; see [sessions.md](sessions.md#files)."+pathDoc, asPath, true, func(m *FileModule) *[]string { return &m.Roots }, nil),
		boolField("readOnly", "Offer only tools that change nothing.", func(m *FileModule) *bool { return &m.ReadOnly }),
	}
	f := objectField("file", "Tools that work with files.", func(m *Modules) *FileModule { return &m.File }, table)
	decode := f.decode
	f.decode = func(d *decoder, n *node, path string, m *Modules) {
		decode(d, n, path, m)
		if !known(d.trace, path+"/enabled") {
			m.File.Enabled = len(m.File.Roots) > 0
		}
		if m.File.Enabled {
			d.trace.asked = append(d.trace.asked, asked{"file", place{src: d.src, at: n.at, ptr: n.ptr}})
		}
	}
	return f
}

// settleModules turns on what AIUR_MODULES names, and says what of all that was
// asked for cannot be had.
func (l *loader) settleModules(c *Config) {
	v, from, _ := l.env.get("AIUR_MODULES")
	for one := range strings.SplitSeq(v, ",") {
		name := moduleName(one)
		if name == "" {
			continue
		}
		if module, roots, ok := strings.Cut(name, "="); ok && strings.TrimSpace(module) == "file" {
			name = "file"
			l.setRoots(c, roots, from)
		}
		on := c.Modules.enabled(name)
		if on != nil && known(c.trace, "/modules/"+name+"/enabled") {
			continue // the file has said
		}
		c.trace.asked = append(c.trace.asked, asked{name, place{other: from}})
		if on != nil {
			*on = true
			c.trace.places["/modules/"+name+"/enabled"] = place{other: from}
		}
		c.Modules.name(name)
	}
	seen := map[string]bool{}
	for _, a := range c.trace.asked {
		text, hint := c.missing(a.name)
		if text == "" || seen[a.name] {
			continue
		}
		seen[a.name] = true
		c.Modules.Failed = append(c.Modules.Failed, ModuleFailure{a.name, a.place.text(), text, hint})
		n := Note{File: a.place.other, Text: text, Hint: hint}
		if p := a.place; p.src != nil {
			n = Note{File: p.src.name, Line: p.at.line, Column: p.at.column, Pointer: p.ptr, Text: text, Hint: hint}
		}
		l.notes = append(l.notes, n)
	}
	if len(c.Modules.File.Roots) == 0 {
		c.Modules.File.Enabled = false
	}
}

// setRoots gives the module file the folders that AIUR_MODULES names, where no
// file has named any.
func (l *loader) setRoots(c *Config, roots, from string) {
	const path = "/modules/file/roots"
	if known(c.trace, path) {
		return
	}
	for _, one := range filepath.SplitList(roots) {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		dir := l.path(l.env.tilde(one))
		if abs, err := filepath.Abs(dir); err == nil {
			dir = abs
		}
		c.Modules.File.Roots = append(c.Modules.File.Roots, dir)
		c.trace.places[path] = place{other: from}
	}
}

// missing says why the module of that name cannot be had; "" where it can.
func (c *Config) missing(name string) (text, hint string) {
	if on := c.Modules.enabled(name); on != nil {
		if name == "file" && *on && len(c.Modules.File.Roots) == 0 {
			return "the module file is off: there is no folder that it may use", "name the folders in modules.file.roots, or as file=/folder in AIUR_MODULES"
		}
		return "", ""
	}
	if name == controlModule {
		return "", ""
	}
	switch s := c.Server(Slug(name)); {
	case s == nil:
		return fmt.Sprintf("there is neither a module nor a server called %q", name), "modules: context, plan, task, file, debug, stoa; or configure a server of that name"
	case !s.Enabled:
		return fmt.Sprintf("%q is a server that is not enabled", name), "enable it, or do not name it here"
	}
	return "", ""
}
