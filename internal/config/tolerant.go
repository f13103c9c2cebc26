package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// contain leaves what is wrong with one server, the problems from before on, in that
// server, if that is wanted. One that is not usable, because nobody could find it by
// its name, gets another name later.
func (d *decoder) contain(before int, s *Server, usable bool, c *Config) {
	found := d.problems[before:]
	if !d.tolerant || len(found) == 0 {
		return
	}
	if s.Enabled {
		s.Wrong = slices.Clone(found)
	}
	switch {
	case usable:
	case s.Enabled && len(c.Servers)+len(d.misnamed) < maxServers:
		d.misnamed = append(d.misnamed, *s)
	default:
		for _, p := range found {
			d.notes = append(d.notes, p.note("the server is left out: "))
		}
	}
	d.problems = d.problems[:before]
}

// note tells of a problem without which all goes on.
func (p Problem) note(prefix string) Note {
	return Note{File: p.File, Line: p.Line, Column: p.Column, Pointer: p.Pointer, Text: prefix + p.Text, Hint: p.Hint}
}

// containAgent leaves what is wrong with one agent in that agent, as contain does.
func (d *decoder) containAgent(before int, title string, c *Config) {
	if !d.tolerant || len(d.problems) == before {
		return
	}
	slug := Slug(title)
	c.Agents = slices.DeleteFunc(c.Agents, func(a Agent) bool { return a.Name == slug })
	s := wrongAgent(title, d.problems[before:]...)
	d.contain(before, &s, false, c)
}

// wrongAgent stands for an agent that cannot be used.
func wrongAgent(title string, found ...Problem) Server {
	s := DefaultServer()
	s.Name, s.Title, s.Wrong = Slug(title), title, slices.Clone(found)
	return s
}

// containWhole leaves a problem that was found by looking at the whole in the server
// or the agent at path. It reports whether there is one.
func (l *loader) containWhole(c *Config, path string, bad Problem) bool {
	kind, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	name, _, _ := strings.Cut(rest, "/")
	switch kind {
	case "servers":
		s := c.Server(name)
		if s == nil {
			return false
		}
		if s.Enabled {
			s.Wrong = append(s.Wrong, bad)
		} else {
			l.notes = append(l.notes, bad.note(""))
		}
		return true
	case "agents":
		if c.Agent(name) == nil {
			return false
		}
		if l.wrongAgents == nil {
			l.wrongAgents = map[string]Problems{}
		}
		l.wrongAgents[name] = append(l.wrongAgents[name], bad)
		return true
	}
	return false
}

// nameMisnamed gives servers that cannot have their own name one under which
// people see what is wrong. Only now is it known which are free: agents that cannot
// be used leave theirs.
func (l *loader) nameMisnamed(c *Config) {
	for _, name := range sortedKeys(l.wrongAgents) {
		l.misnamed = append(l.misnamed, wrongAgent(c.Agent(name).Title, l.wrongAgents[name]...))
		c.Agents = slices.DeleteFunc(c.Agents, func(a Agent) bool { return a.Name == name })
	}
	for _, s := range l.misnamed {
		s.Name = freeName(c, s.Name)
		c.Servers = append(c.Servers, s)
	}
	slices.SortFunc(c.Servers, func(a, b Server) int { return strings.Compare(a.Name, b.Name) })
}

// freeName is a name like the one that is taken or reserved.
func freeName(c *Config, taken string) string {
	base := cmp.Or(taken, "server")
	if Reserved(base) {
		base += "-server"
	}
	name := base
	for i := 2; Reserved(name) || c.Server(name) != nil || c.Agent(name) != nil; i++ {
		end := "-" + strconv.Itoa(i)
		name = strings.TrimRight(base[:min(len(base), maxName-len(end))], "-") + end
	}
	return name
}
