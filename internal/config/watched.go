package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Watched says what can change what Load(o) returns: the folders to watch, and
// which files in them matter. c is what Load returned last; nil if that failed.
// Folders rather than files, because editors and deployments put new files in
// the place of old ones.
func Watched(o Options, c *Config) (folders []string, matters func(path string) bool) {
	o.Files, o.EnvFiles = slices.Clone(o.Files), slices.Clone(o.EnvFiles)
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	l := loader{Options: o, env: environ{env: o.Env}}
	files := map[string]bool{}
	add := func(path string) {
		abs, err := filepath.Abs(path)
		if err != nil {
			return
		}
		files[abs] = true
		if target, err := filepath.EvalSymlinks(abs); err == nil {
			files[target] = true
		}
	}
	paths, _ := l.discover()
	for _, p := range paths {
		add(p)
		add(filepath.Join(filepath.Dir(p), ".env"))
	}
	if len(o.Files) == 0 {
		// One that is found before those, or the first of all, may appear.
		for _, name := range append([]string{".env"}, names...) {
			add(l.path(name))
		}
	}
	for _, p := range o.EnvFiles {
		add(l.path(p))
	}
	if c != nil {
		for i := range c.Servers {
			if p := c.Servers[i].EnvFile; p != "" {
				add(p)
			}
		}
	}
	for f := range files {
		if dir := filepath.Dir(f); !slices.Contains(folders, dir) {
			folders = append(folders, dir)
		}
	}
	slices.Sort(folders)
	return folders, func(path string) bool {
		// Kubernetes changes files by changing the link ..data beside them.
		return files[path] || strings.HasPrefix(filepath.Base(path), "..")
	}
}
