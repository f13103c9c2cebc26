package config

import (
	"path/filepath"
	"slices"
)

// PrivateNames are the names of files that configure a hub, an agent or
// another MCP host in whatever folder they are, or hold its variables, as
// patterns of path.Match; one that begins with ! is an exception. A hub or an
// agent that is started in that folder would run what they say.
func PrivateNames() []string {
	out := []string{".env", ".env.*", "!.env.example", "!.env.sample", "!.env.template", ".mcp.json", "claude_desktop_config.json"}
	return append(append(out, names...), manifestNames...)
}

// Private returns the files and folders, absolute, sorted and whether or not
// they exist, that must be kept from whoever may use tools only: what this
// configuration was read from, what the next Load may read it from, the files
// it names that hold secrets or say whom to trust, the manifests of the agents
// that it starts, and the data folder.
func (c *Config) Private() []string {
	files := []string{c.Data, c.TLS.Cert, c.TLS.Key, c.Auth.TokensFile, c.Log.File.Directory,
		c.Store.Credentials, c.Store.KeyFile, c.Store.TLS.CA, c.Store.TLS.Cert, c.Store.TLS.Key}
	for i := range c.Servers {
		s := &c.Servers[i]
		files = append(files, s.EnvFile, s.TLS.CA, s.TLS.Cert, s.TLS.Key)
		files = append(files, s.manifests()...)
	}
	for i := range c.Models.Named {
		files = append(files, c.Models.Named[i].Script)
	}
	if c.trace != nil {
		files = append(files, c.trace.files...)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return f == "" })
	for i, f := range files {
		if abs, err := filepath.Abs(f); err == nil {
			files[i] = abs
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// candidates are the files that Load reads, or would if they were there, as
// long as the command line stays the same.
func (l *loader) candidates() []string {
	var files []string
	add := func(path string) {
		if abs, err := filepath.Abs(path); err == nil {
			files = append(files, abs)
		}
	}
	probe := *l // looking for the files may add to its variables
	paths, _ := probe.discover()
	if v, _, ok := probe.env.get("MCP_JSON_PATH"); ok && v != "" {
		paths = append(paths, l.path(v)) // without --config it is the one
	}
	for _, p := range paths {
		add(p)
		add(filepath.Join(filepath.Dir(p), ".env"))
	}
	for _, p := range l.EnvFiles {
		add(l.path(p))
	}
	for _, name := range append([]string{".env"}, names...) {
		add(l.path(name))
		if user := l.userDir(); user != "" {
			add(filepath.Join(user, name))
		}
	}
	return files
}
