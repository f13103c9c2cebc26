package config

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand fills the variables of s in: ${NAME}, ${NAME:-default}, and what
// editors write, ${env:NAME}, ${workspaceFolder}, ${workspaceFolderBasename},
// ${userHome}. $$ is a dollar sign; a dollar sign before anything else stands
// for itself, since nothing here is a shell. What was filled in is not looked
// at again. It reports whether all of s could be filled in.
func (d *decoder) expand(s string, n *node, path string) (string, bool) {
	if !strings.Contains(s, "$") {
		return s, true
	}
	var out strings.Builder
	var used []string
	ok := true
	for rest := s; rest != ""; {
		before, after, found := strings.Cut(rest, "$")
		out.WriteString(before)
		if !found {
			break
		}
		switch {
		case strings.HasPrefix(after, "$"):
			out.WriteByte('$')
			rest = after[1:]
		case strings.HasPrefix(after, "{"):
			name, tail, closed := strings.Cut(after[1:], "}")
			if !closed {
				d.problem(n.at, n.ptr, "close it, or write $$ for a dollar sign", "${ without }")
				ok, rest = false, ""
				break
			}
			value, from, good := d.variable(name, n)
			out.WriteString(value)
			if from != "" {
				used = append(used, from)
			}
			ok = ok && good
			rest = tail
		default:
			out.WriteByte('$')
			rest = after
		}
	}
	p := d.trace.places[path]
	p.vars, p.written, p.unfilled = used, s, !ok
	d.trace.places[path] = p
	if !ok {
		return s, false
	}
	return out.String(), true
}

// variable returns the value of ${expr} and which variable gave it.
func (d *decoder) variable(expr string, n *node) (value, from string, ok bool) {
	switch expr {
	case "workspaceFolder":
		return d.src.workspace, "", true
	case "workspaceFolderBasename":
		return filepath.Base(d.src.workspace), "", true
	case "userHome":
		return d.src.env.home(), "", true
	}
	if id, found := strings.CutPrefix(expr, "input:"); found {
		d.unset(n, fmt.Sprintf("put the value into the environment or into .env, and write ${%s} here", envName(id)),
			"${%s} asks a person in the editor, and here is nobody to ask", expr)
		return "", "", false
	}
	name, fallback, hasFallback := strings.Cut(strings.TrimPrefix(expr, "env:"), ":-")
	if !variableName.MatchString(name) {
		d.problem(n.at, n.ptr, "write ${NAME} or ${NAME:-default}; $${ is a literal ${", "${%s} names no variable", expr)
		return "", "", false
	}
	value, from, ok = d.src.env.get(name)
	if hasFallback && value == "" {
		return fallback, "", true
	}
	if !ok {
		d.unset(n, fmt.Sprintf("set %s in the environment or in .env, or write ${%s:-default}", name, name),
			"the variable %s is not set", name)
		return "", "", false
	}
	return value, from, true
}

// unset complains of a variable without value; of a disabled server's it only
// tells, since nobody will need it.
func (d *decoder) unset(n *node, hint, format string, args ...any) {
	if d.lenient {
		d.note(n.at, n.ptr, hint, format, args...)
		return
	}
	d.problem(n.at, n.ptr, hint, format, args...)
}

// envName makes a variable's name of an editor's input id.
func envName(id string) string {
	name := regexp.MustCompile(`[^A-Za-z0-9_]+`).ReplaceAllString(strings.ToUpper(id), "_")
	if !variableName.MatchString(name) {
		return "MY_" + name
	}
	return name
}
