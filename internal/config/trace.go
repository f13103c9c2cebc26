package config

import (
	"fmt"
	"strings"
)

// trace remembers where each value in effect came from, by the pointer of the
// value in the effective configuration ("/servers/github/url").
type trace struct {
	places map[string]place
	env    environ
	asked  []asked  // modules, in the order they were named
	files  []string // what a Load reads or may read the next time, absolute
}

// place is the origin of one value: a file, or what else gave it.
type place struct {
	src      *source // nil: not of a file
	other    string  // "env PORT", "--listen"; only where src is nil
	at       position
	ptr      string
	vars     []string // the variables that took part
	written  string   // the text before its variables were filled in
	unfilled bool     // a variable of it has no value
	holder   bool     // of an object whose members may be defaults
}

// text is the origin as Show prints it.
func (p place) text() string {
	if p.src == nil {
		return p.other
	}
	s := fmt.Sprintf("%s:%d", p.src.name, p.at.line)
	if len(p.vars) > 0 {
		s += ", " + strings.Join(p.vars, ", ")
	}
	return s
}

// find returns the place of the value at path, or of what holds it.
func (t *trace) find(path string) (place, bool) {
	if t == nil {
		return place{}, false
	}
	for {
		if p, ok := t.places[path]; ok {
			return p, true
		}
		i := strings.LastIndexByte(path, '/')
		if i < 0 {
			return place{}, false
		}
		path = path[:i]
	}
}

// forget drops what is known of path and all below it.
func (t *trace) forget(path string) {
	for k := range t.places {
		if k == path || strings.HasPrefix(k, path+"/") {
			delete(t.places, k)
		}
	}
}

// Origin says where the value at path came from: "default", "stoa.yaml:12",
// "stoa.yaml:12, env TOKEN", "env PORT" or "--listen". The path is a JSON
// pointer into the configuration in effect, servers by their Name.
func (c *Config) Origin(path string) string {
	if p, ok := c.trace.find(path); ok && !p.holder {
		return p.text()
	}
	return "default"
}
