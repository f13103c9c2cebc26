package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// environ is where variables are looked up: the environment first, then the
// files in their order.
type environ struct {
	env   func(string) (string, bool)
	files []*envFile
}

// envFile is one file of NAME=value lines.
type envFile struct {
	name string
	vars map[string]string
	line map[string]int // of each
}

// get returns a variable and who gave it.
func (e environ) get(name string) (value, from string, ok bool) {
	if e.env != nil {
		if v, ok := e.env(name); ok {
			return v, "env " + name, true
		}
	}
	for _, f := range e.files {
		if v, ok := f.vars[name]; ok {
			return v, filepath.Base(f.name) + " " + name, true
		}
	}
	return "", "", false
}

// file returns the file that gives the variable, and the line; "" where it is
// the environment that does.
func (e environ) file(name string) (path string, line int) {
	if e.env != nil {
		if _, ok := e.env(name); ok {
			return "", 0
		}
	}
	for _, f := range e.files {
		if _, ok := f.vars[name]; ok {
			return f.name, f.line[name]
		}
	}
	return "", 0
}

// with returns e with one more file, looked into last.
func (e environ) with(f *envFile) environ {
	if f == nil {
		return e
	}
	return environ{e.env, append(e.files[:len(e.files):len(e.files)], f)}
}

// tilde replaces ~ at the beginning of a path by the user's home.
func (e environ) tilde(p string) string {
	if rest, ok := strings.CutPrefix(p, "~"); ok && (rest == "" || rest[0] == '/' || rest[0] == filepath.Separator) {
		if home := e.home(); home != "" {
			return filepath.Join(home, rest)
		}
	}
	return p
}

func (e environ) home() string {
	if v, _, ok := e.get("HOME"); ok && v != "" {
		return v
	}
	home, _ := os.UserHomeDir() // unknown: the path stays as it is
	return home
}

// readEnvFile reads the file; a missing one is nil where it may be missing.
func readEnvFile(path string, mayMiss bool, r *report, rank int) *envFile {
	data, err := readBounded(path)
	if err != nil {
		if !mayMiss || !errors.Is(err, fs.ErrNotExist) {
			r.problem(Problem{File: path, Text: "reading the variables: " + cause(err), Hint: "give an existing file of NAME=value lines", rank: rank})
		}
		return nil
	}
	f := &envFile{name: path, vars: map[string]string{}, line: map[string]int{}}
	text := strings.TrimPrefix(strings.ReplaceAll(string(data), "\r\n", "\n"), "\ufeff")
	for line := 1; text != ""; {
		used, name, value, err := envLine(text)
		if err != nil {
			r.problem(Problem{File: path, Line: line, Column: 1, Text: err.Error(), Hint: "write NAME=value, one a line", rank: rank})
		} else if name != "" {
			f.vars[name], f.line[name] = value, line
		}
		line += strings.Count(text[:used], "\n")
		text = text[used:]
	}
	return f
}

// envLine reads one assignment from the front of text: plain (to the end of
// the line or " #"), 'literal' or "with \n escapes"; the quoted ones may span
// lines. used is how much of text it took.
func envLine(text string) (used int, name, value string, err error) {
	line, _, more := strings.Cut(text, "\n")
	used = len(line)
	if more {
		used++
	}
	bare := strings.TrimSpace(line)
	if bare == "" || bare[0] == '#' {
		return used, "", "", nil
	}
	left, _, found := strings.Cut(line, "=")
	name = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(left), "export "))
	if !found || !variableName.MatchString(name) {
		return used, "", "", errors.New("this line is no assignment")
	}
	rest := strings.TrimLeft(text[len(left)+1:], " \t")
	skipped := len(text) - len(rest)
	if rest == "" || rest[0] != '"' && rest[0] != '\'' {
		value, _, _ = strings.Cut(rest, "\n")
		value, _, _ = strings.Cut(" "+value, " #")
		return used, name, strings.TrimSpace(value), nil
	}
	value, length, ok := quoted(rest)
	if !ok {
		return used, "", "", fmt.Errorf("the value of %s has no closing quote", name)
	}
	tail, _, more := strings.Cut(rest[length:], "\n")
	used = skipped + length + len(tail)
	if more {
		used++
	}
	if t := strings.TrimSpace(tail); t != "" && t[0] != '#' {
		return used, "", "", fmt.Errorf("there is more after the closing quote of %s", name)
	}
	return used, name, value, nil
}

// quoted reads the quoted string at the front of s.
func quoted(s string) (value string, length int, ok bool) {
	var out strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == s[0]:
			return out.String(), i + 1, true
		case s[i] == '\\' && s[0] == '"' && i+1 < len(s):
			i++
			if at := strings.IndexByte(`nrt"\$`, s[i]); at >= 0 {
				out.WriteByte("\n\r\t\"\\$"[at])
			} else {
				out.WriteByte('\\')
				out.WriteByte(s[i])
			}
		default:
			out.WriteByte(s[i])
		}
	}
	return "", 0, false
}

// cause is the reason of a file error without the path, which the message has.
func cause(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}
