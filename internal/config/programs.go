package config

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Programs returns the files, absolute and sorted, that the command lines of
// servers, of their manifests and of the cluster key name: programs, scripts
// and what else they are given. Whoever changes one decides what runs. It
// looks at the disk, so that folders are left out and what is missing is in it
// only where it can be nothing but a file.
func (c *Config) Programs() []string {
	var out []string
	if key := c.Store.KeyCommand; len(key) > 0 {
		out = append(out, commandFiles("", key)...)
	}
	for i := range c.Servers {
		s := &c.Servers[i]
		if s.Command == "" {
			continue
		}
		out = append(out, commandFiles(s.Cwd, append([]string{s.Command}, s.Args...))...)
		for _, value := range s.Env { // as NODE_OPTIONS names a script
			out = append(out, slices.DeleteFunc(namedFiles(s.Cwd, []string{value.Reveal()}), func(f string) bool { return !isFile(f) })...)
		}
		for _, file := range s.manifests() {
			out = append(out, manifestPrograms(file, s)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// manifests are the files that a server's command line gives to `stoa agent`,
// however it is started.
func (s *Server) manifests() []string {
	line := words(append([]string{s.Command}, s.Args...))
	at := slices.Index(line, "agent")
	if s.Command == "" || at < 0 {
		return nil
	}
	return namedFiles(s.Cwd, line[at+1:])
}

// manifestPrograms are the files that the commands of a manifest name. One that
// cannot be read runs none.
func manifestPrograms(file string, s *Server) []string {
	if !isFile(file) {
		return nil
	}
	m, err := LoadManifest(file, func(name string) (string, bool) {
		if v, ok := s.Env[name]; ok {
			return v.Reveal(), true
		}
		return os.LookupEnv(name)
	})
	if err != nil {
		return nil
	}
	var out []string
	add := func(e *Exec) {
		dir := e.Cwd
		if dir == "" {
			dir = filepath.Dir(m.File)
		}
		if line := slices.Concat(e.Command...); len(line) > 0 {
			out = append(out, commandFiles(dir, line)...)
			out = append(out, slices.DeleteFunc(namedFiles(dir, slices.Collect(maps.Values(e.Env))), func(f string) bool { return !isFile(f) })...)
		}
	}
	for i := range m.Tools {
		add(&m.Tools[i].Exec)
	}
	for i := range m.Resources {
		add(&m.Resources[i].Exec)
	}
	return out
}

// commandFiles are the files that a command line names: its program, whether or
// not it is there, and what namedFiles finds.
func commandFiles(dir string, line []string) []string {
	program := line[0]
	if filepath.Base(program) == program {
		program, _ = exec.LookPath(program)
	} else {
		program = inFolder(dir, program)
	}
	out := namedFiles(dir, line)
	if program == "" {
		return out
	}
	if abs, err := filepath.Abs(program); err == nil {
		out = append(out, abs)
	}
	return out
}

// namedFiles are the files that words may mean: those that are there, and those
// that are missing and whose name has an extension. A name is taken from dir
// and from each folder that is named too, as in `uv --directory app run it.py`.
func namedFiles(dir string, line []string) []string {
	all, in := words(line), []string{dir}
	for _, word := range all {
		if at := inFolder(dir, word); at != "" {
			if info, err := os.Stat(at); err == nil && info.IsDir() {
				in = append(in, at)
			}
		}
	}
	var out []string
	for _, word := range all {
		for _, dir := range in {
			at := inFolder(dir, word)
			if at == "" {
				continue
			}
			info, err := os.Stat(at)
			if err == nil && info.Mode().IsRegular() || errors.Is(err, fs.ErrNotExist) && filepath.Ext(at) != "" {
				out = append(out, at)
			}
		}
	}
	return out
}

// words are the elements of a command line, and the parts of those that are
// lists, settings or lines for a shell. Options are none.
func words(line []string) []string {
	var out []string
	for _, element := range line {
		parts := strings.FieldsFunc(element, func(r rune) bool { return strings.ContainsRune(" \t\r\n'\"`;|&()<>=,:", r) })
		if len(parts) != 1 || parts[0] != element {
			parts = append(parts, element)
		}
		out = append(out, slices.DeleteFunc(parts, func(w string) bool { return w == "" || w[0] == '-' || strings.ContainsRune(w, 0) })...)
	}
	return out
}

// inFolder is a path as a program that runs in dir takes it, absolute; "" if
// that cannot be known. As in the config, "" is the hub's own folder.
func inFolder(dir, name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		dir, _ = os.UserHomeDir()
		name = rest
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	if abs, err := filepath.Abs(name); err == nil {
		return abs
	}
	return ""
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}
