package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// readBounded reads a file of at most maxFileBytes.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("the file is larger than %d MiB", maxFileBytes>>20)
	}
	return data, nil
}

// parse reads the text of src into a tree; nil means that there is nothing in
// it, or nothing that can be read, which then was complained of.
func parse(src *source, data []byte, r *report) *node {
	return parseAs(src, data, r, "begin with the keys, as in stoa: 1")
}

// parseAs is parse for files of other forms; begin says how these do.
func parseAs(src *source, data []byte, r *report, begin string) *node {
	d := decoder{report: r, src: src}
	data = []byte(strings.TrimPrefix(string(data), "\ufeff"))
	if !utf8.Valid(data) {
		d.problem(position{1, 1}, "", "save it as UTF-8", "the file is not UTF-8 text")
		return nil
	}
	dup := func(m member, first position, ptr string) {
		p := Problem{src.name, m.at.line, m.at.column, ptr, fmt.Sprintf("the key %q is there twice, first in line %d", m.name, first.line), "keep one of them", src.rank}
		if src.tolerant {
			src.doubles = append(src.doubles, p)
			return
		}
		r.problem(p)
	}
	read := parseJSONC
	if isYAML(src.name, data) {
		read = parseYAML
	}
	n, err := read(data, dup)
	if err != nil {
		var s *syntaxError
		if !errors.As(err, &s) {
			s = &syntaxError{position{1, 1}, err.Error(), ""}
		}
		d.problem(s.at, "", s.hint, "%s", s.text)
		return nil
	}
	if n == nil || n.kind == null {
		d.note(position{1, 1}, "", "", "the file is empty")
		return nil
	}
	if !d.want(n, object, begin) {
		return nil
	}
	return n
}

// isYAML goes by the name, and where that says nothing by the first character.
func isYAML(name string, data []byte) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml":
		return true
	case ".json", ".jsonc", ".json5":
		return false
	}
	first := strings.TrimLeft(string(data[:min(len(data), 4096)]), " \t\r\n")
	return !strings.HasPrefix(first, "{") && !strings.HasPrefix(first, "/")
}

// decode reads the tree of one file over c.
func (d *decoder) decode(n *node, c *Config) {
	if n.get("stoa") != nil {
		d.src.strict = true
		decodeObject(d, n, "", c, configFields())
		return
	}
	d.foreign(n, c)
}

// doubled complains of the keys at and below ptr that are there twice, unless
// that was done before.
func (d *decoder) doubled(ptr string) {
	d.src.doubles = slices.DeleteFunc(d.src.doubles, func(p Problem) bool {
		here := p.Pointer == ptr || strings.HasPrefix(p.Pointer, ptr+"/")
		if here {
			d.report.problem(p)
		}
		return here
	})
}

// foreign reads the server map of another host's file and leaves the rest.
func (d *decoder) foreign(n *node, c *Config) {
	var unknown []member
	found, ours := false, []string{}
	own := keysOf(configFields())
	for _, m := range n.members {
		switch m.name {
		case "mcpServers", "servers":
			d.servers(m.value, c, m.name == "servers")
			found = true
		case "mcp":
			if m.value.kind == object {
				decodeObject(d, m.value, "", c, mcpFields())
				found = true
				continue
			}
			fallthrough
		default:
			unknown = append(unknown, m)
			for _, k := range own {
				if k == m.name {
					ours = append(ours, k)
				}
			}
		}
	}
	d.unknown(n, unknown, nil)
	hint := "write `stoa: 1` into the file if it is Stoa's own"
	if len(ours) > 0 {
		d.note(n.at, "", hint, "%s left out: the file is not marked as Stoa's own", strings.Join(ours, ", "))
		d.notes[len(d.notes)-1].Grave = true
	} else if !found {
		d.note(n.at, "", hint, "no servers found: neither mcpServers nor servers nor mcp.servers is there")
	}
}

// mcpField is the section of a Go application's file (servers, auto_discover,
// pool), understood in our own file too.
func mcpField() field[Config] {
	f := objectField("mcp", "`servers`, `autoDiscover` and `pool` as some applications have them: `servers` is a list with `id`, the other keys are `auto_discover` and `pool {max_idle_time, cleanup_interval}`.",
		func(c *Config) *Config { return c }, mcpFields())
	decode := f.decode
	f.foreign, f.show = true, nil
	f.decode = func(d *decoder, n *node, _ string, c *Config) { decode(d, n, "", c) }
	return f
}

func mcpFields() []field[Config] {
	discover := boolField("auto_discover", "`autoDiscover`.", func(c *Config) *bool { return &c.AutoDiscover })
	inner := discover.decode
	discover.decode = func(d *decoder, n *node, _ string, c *Config) { inner(d, n, "/autoDiscover", c) }
	pool := poolField()
	names := map[string]string{"max_idle_time": "maxIdleTime", "cleanup_interval": "cleanupInterval"}
	decode := pool.decode
	pool.decode = func(d *decoder, n *node, _ string, c *Config) {
		same := *n
		same.members = nil
		for _, m := range n.members {
			if to, ok := names[m.name]; ok {
				m.name = to
			}
			same.members = append(same.members, m)
		}
		decode(d, &same, "/pool", c)
	}
	pool.schema = func(*Config) *schema { return &schema{Type: "object"} }
	return []field[Config]{serversField("servers", "The servers.", false), discover, pool}
}
