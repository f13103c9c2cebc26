package agentd

import (
	"bytes"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/spell"
	"github.com/stoahub/stoa/internal/wire"
)

// value is an argument as text.
type value struct {
	text   string
	worded bool // it was a string: the word "false" is not the same as false
}

// values are the arguments of a call by name; null counts as missing.
type values map[string]value

// readValues makes text of arguments: strings as they are, anything else as
// its JSON.
func readValues(args []byte) values {
	out := values{}
	for _, f := range wire.Members(args) {
		switch s, ok := wire.String(f.Value); {
		case ok:
			out[string(f.Name)] = value{s, true}
		case string(f.Value) == "null":
		default:
			var b bytes.Buffer
			if json.Compact(&b, f.Value) == nil {
				out[string(f.Name)] = value{text: b.String()}
			}
		}
	}
	return out
}

// command is a compiled config.Exec.
type command struct {
	program string
	groups  [][]template
	stdin   stdin
	text    template // of stdin, where that is stdinText
	env     map[string]template
	inherit []string
	dir     string
	timeout time.Duration
	max     time.Duration
	limit   int
}

type stdin uint8

const (
	stdinNone stdin = iota
	stdinJSON
	stdinText
)

// compiler collects what is wrong with a manifest beyond its form.
type compiler struct {
	m        *config.Manifest
	problems []config.Problem
}

func (c *compiler) wrong(path, hint, format string, args ...any) {
	c.problems = append(c.problems, c.m.Wrong(path, hint, format, args...))
}

const placeHint = "write {{name}}, or {{{{ for a literal {{"

// template reads a template whose arguments must be among names.
func (c *compiler) template(path, s string, names []string) template {
	t, err := parseTemplate(s)
	if err != nil {
		c.wrong(path, placeHint, "%v", err)
		return nil
	}
	for _, name := range t.names() {
		if slices.Contains(names, name) {
			continue
		}
		hint := "there are no arguments here"
		if near := spell.Nearest(name, names); near != "" {
			hint = "did you mean {{" + near + "}}?"
		} else if len(names) > 0 {
			hint = "known here: " + strings.Join(names, ", ")
		}
		c.wrong(path, hint, "{{%s}} is no argument", name)
	}
	return t
}

// command compiles what is at path, whose arguments are called names.
func (c *compiler) command(path string, e *config.Exec, names []string) *command {
	out := &command{inherit: e.InheritEnv.Names, dir: e.Cwd, timeout: e.Timeout, max: e.MaxTimeout, limit: e.OutputBytes, env: map[string]template{}}
	if out.dir == "" {
		out.dir = filepath.Dir(c.m.File)
	}
	uses := false
	for i, group := range e.Command {
		var compiled []template
		for j, element := range group {
			at := path + "/command/" + strconv.Itoa(i)
			if inner := at + "/" + strconv.Itoa(j); c.m.Said(inner) {
				at = inner
			}
			t := c.template(at, element, names)
			if i == 0 && len(t.names()) > 0 {
				c.wrong(at, "name the program itself", "the caller would choose the program")
			}
			uses = uses || len(t.names()) > 0
			compiled = append(compiled, t)
		}
		if i > 0 {
			out.groups = append(out.groups, compiled)
		} else if len(group) == 1 {
			out.program, _ = compiled[0].fill(nil)
		}
	}
	if out.program == "" && len(e.Command) > 0 && !uses {
		c.wrong(path+"/command", "name the program", "begins with no program")
	}
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		t := c.template(path+"/env/"+name, e.Env[name], names)
		uses = uses || len(t.names()) > 0
		out.env[name] = t
	}
	c.stdin(path, e.Stdin, names, uses, out)
	return out
}

func (c *compiler) stdin(path, said string, names []string, uses bool, out *command) {
	switch {
	case said == "json", said == "" && !uses:
		out.stdin = stdinJSON
	case said == "none", said == "":
	case strings.Contains(said, "{{"):
		out.stdin, out.text = stdinText, c.template(path+"/stdin", said, names)
	default:
		c.wrong(path+"/stdin", "allowed: json, none, or a text with {{name}}", "unknown value %q", said)
	}
}

// job makes of a command what is to be run with these arguments. subject is
// what faults are about.
func (c *command) job(subject string, args []byte, vars values) (*job, error) {
	line := argv{list: []string{c.program}}
	for _, group := range c.groups {
		if err := line.add(subject, group, vars); err != nil {
			return nil, err
		}
	}
	j := &job{argv: line.list, dir: c.dir, timeout: c.timeout, max: c.max, limit: c.limit}
	for name, t := range c.env {
		if v, ok := t.fill(vars); ok {
			j.env = append(j.env, name+"="+v)
		}
	}
	for _, s := range append(j.argv[1:len(j.argv):len(j.argv)], j.env...) {
		if strings.ContainsRune(s, 0) {
			return nil, fault.New(fault.InvalidArguments, subject, "an argument holds the character NUL, which no command line can")
		}
	}
	switch c.stdin {
	case stdinJSON:
		j.stdin = append(bytes.Clone(args), '\n')
	case stdinText:
		if text, ok := c.text.fill(vars); ok {
			j.stdin = []byte(text)
		}
	}
	return j, nil
}
