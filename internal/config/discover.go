package config

import (
	"cmp"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Options are what the command line and the environment say. The zero value
// looks into the current folder, the user's folder and the environment of the
// process.
type Options struct {
	Files    []string                    // --config; none: they are looked for
	EnvFiles []string                    // --env-file, the later wins
	Env      func(string) (string, bool) // nil: os.LookupEnv
	Dir      string                      // where relative names start; "": the current folder
	UserDir  string                      // Stoa's folder in the user's configuration; "": the system's
	Listen   []string                    // --listen; wins over everything
	Data     string                      // --data; wins over everything
	TLSCert  string                      // --tls-cert; wins over everything
	TLSKey   string                      // --tls-key; wins over everything
	// Tolerant leaves what is wrong with one server or agent in that one, as
	// Server.Wrong: it is no problem of the others. One whose name it cannot
	// have gets another. An agent with something wrong is a server that cannot be
	// used, so that everybody sees it and why.
	Tolerant bool
}

// names are the files looked for in a folder, the first found is taken.
var names = []string{"stoa.yaml", "stoa.yml", "stoa.jsonc", "stoa.json", "mcp.json"}

// Load reads the configuration in effect. The error, if any, is Problems with
// everything that is wrong; the notes are worth telling in either case.
func Load(o Options) (*Config, []Note, error) {
	l, c := read(o)
	c.trace.files = l.candidates()
	c.trace.env = l.env
	l.settle(&c)
	if len(l.problems) > 0 {
		slices.SortStableFunc(l.problems, func(a, b Problem) int {
			return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
		return nil, l.notes, l.problems
	}
	return &c, l.notes, nil
}

// DataFolder is the data folder that Load would find, also where something else
// in the files is wrong; "" if it cannot be told.
func DataFolder(o Options) string {
	l, c := read(o)
	l.settleData(&c)
	return c.Data
}

// read reads the files, and decides nothing yet.
func read(o Options) (*loader, Config) {
	o.Files, o.EnvFiles, o.Listen = slices.Clone(o.Files), slices.Clone(o.EnvFiles), slices.Clone(o.Listen)
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	l := &loader{Options: o, env: environ{env: o.Env}}
	for _, f := range slices.Backward(o.EnvFiles) {
		l.env = l.env.with(readEnvFile(l.path(f), false, &l.report, 0))
	}
	c := Default()
	c.trace = &trace{places: map[string]place{}}
	l.files(&c)
	return l, c
}

// loader is one Load.
type loader struct {
	Options
	report
	env environ // grows by the .env beside each file
	// wrongAgents are what was found wrong with agents by looking at the whole.
	wrongAgents map[string]Problems
}

// path makes a name of the command line relative to Dir.
func (l *loader) path(name string) string {
	if l.Dir == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(l.Dir, name)
}

// files reads the files over c, one after the other.
func (l *loader) files(c *Config) {
	paths, why := l.discover()
	shared := l.env
	if len(paths) == 0 {
		l.env = l.env.with(readEnvFile(l.path(".env"), true, &l.report, 0))
	}
	for i, path := range paths {
		rank := i + 1
		data, err := readBounded(path)
		if err != nil {
			l.report.problem(Problem{File: path, Text: "reading the configuration" + why + ": " + cause(err), Hint: "name an existing file", rank: rank})
			continue
		}
		beside := readEnvFile(filepath.Join(filepath.Dir(path), ".env"), true, &l.report, rank)
		l.env = l.env.with(beside)
		src := &source{name: path, workspace: workspace(path), rank: rank, env: shared.with(beside), tolerant: l.Tolerant}
		d := decoder{report: &l.report, src: src, trace: c.trace, tolerant: l.Tolerant}
		if n := parse(src, data, &l.report); n != nil {
			d.decode(n, c)
		} else {
			d.salvageData(data, c)
		}
		d.doubled("") // those of no server
	}
}

// discover returns the files to read, and what named them.
func (l *loader) discover() (paths []string, why string) {
	if len(l.Files) > 0 {
		for _, f := range l.Files {
			paths = append(paths, l.path(f))
		}
		return paths, ""
	}
	if v, from, ok := l.env.get("MCP_JSON_PATH"); ok && v != "" {
		return []string{l.path(v)}, " named by " + from
	}
	// A .env in the folder may name the file; then it speaks for that file too.
	if f := readEnvFile(l.path(".env"), true, &report{}, 0); f != nil && f.vars["MCP_JSON_PATH"] != "" {
		l.env = l.env.with(f)
		return []string{l.path(f.vars["MCP_JSON_PATH"])}, " named by " + f.name
	}
	user := l.userDir()
	for _, dir := range []string{l.Dir, user} {
		for _, name := range names {
			path := filepath.Join(dir, name)
			if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				return []string{path}, ""
			}
		}
		if user == "" {
			break
		}
	}
	return nil, ""
}

// userDir is Stoa's folder in the user's configuration; "" if there is none.
func (l *loader) userDir() string {
	if l.UserDir != "" {
		return l.UserDir
	}
	if dir, err := os.UserConfigDir(); err == nil {
		return filepath.Join(dir, "stoa")
	}
	return ""
}

// workspace is the folder that relative paths in the file start at: its own,
// or the one that holds an editor's folder.
func workspace(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = path
	}
	dir := filepath.Dir(abs)
	switch filepath.Base(dir) {
	case ".vscode", ".cursor":
		return filepath.Dir(dir)
	}
	return dir
}

// settle decides what no file has decided, and looks at the whole.
func (l *loader) settle(c *Config) {
	l.settleListen(c)
	l.settleData(c)
	l.settleTLS(c)
	l.settleVariables(c)
	t := c.trace
	for i := range c.Servers {
		at := "/servers/" + c.Servers[i].Name + "/idle"
		if p, pooled := t.places["/pool"]; pooled && !known(t, at) {
			if own, ok := t.places["/pool/maxIdleTime"]; ok {
				p = own
			}
			p.holder = false
			c.Servers[i].Idle = c.Pool.MaxIdleTime
			t.places[at] = p
		}
	}
	slices.SortFunc(c.Servers, func(a, b Server) int { return strings.Compare(a.Name, b.Name) })
	c.settleAgents()
	checkWhole(c, func(path, problem, hint string) {
		p, _ := t.find(path)
		bad := Problem{File: p.other, Pointer: path, Text: problem, Hint: hint}
		if p.src != nil {
			bad = Problem{p.src.name, p.at.line, p.at.column, p.ptr, problem, hint, p.src.rank}
		}
		if !l.Tolerant || !l.containWhole(c, path, bad) {
			l.report.problem(bad)
		}
	})
	l.nameMisnamed(c)
}

func known(t *trace, path string) bool {
	_, ok := t.places[path]
	return ok
}

func (l *loader) settleListen(c *Config) {
	// decisive is the variable to blame; "" where it is the flag.
	set := func(from, decisive string, addrs ...string) {
		c.Listen = addrs
		c.trace.forget("/listen")
		c.trace.places["/listen"] = place{other: from}
		for _, a := range addrs {
			problem, hint := checkListen(a)
			switch {
			case problem == "":
			case decisive != "":
				l.wrong(decisive, problem, hint)
			default:
				l.report.problem(Problem{File: from, Text: problem, Hint: hint})
			}
		}
	}
	host, fromHost, _ := l.env.get("AIUR_SERVER_HOST")
	port, fromPort, _ := l.env.get("AIUR_SERVER_PORT")
	plain, fromPlain, _ := l.env.get("PORT")
	switch {
	case len(l.Listen) > 0:
		set("--listen", "", l.Listen...)
	case known(c.trace, "/listen"):
	case host != "" || port != "":
		from := strings.Join(slices.DeleteFunc([]string{fromHost, fromPort}, func(s string) bool { return s == "" }), ", ")
		decisive := "AIUR_SERVER_PORT"
		if _, err := strconv.ParseUint(cmp.Or(port, "8080"), 10, 16); err == nil {
			decisive = "AIUR_SERVER_HOST"
		}
		set(from, decisive, net.JoinHostPort(cmp.Or(host, "127.0.0.1"), cmp.Or(port, "8080")))
	case plain != "":
		set(fromPlain, "PORT", net.JoinHostPort("127.0.0.1", plain))
	}
}

func (l *loader) settleTLS(c *Config) {
	for _, f := range []struct {
		flag, path, value string
		to                *string
	}{{"--tls-cert", "/tls/cert", l.TLSCert, &c.TLS.Cert}, {"--tls-key", "/tls/key", l.TLSKey, &c.TLS.Key}} {
		if f.value == "" {
			continue
		}
		*f.to = l.path(f.value)
		if abs, err := filepath.Abs(*f.to); err == nil {
			*f.to = abs
		}
		c.trace.places[f.path] = place{other: f.flag}
	}
}

func (l *loader) settleData(c *Config) {
	set := func(from, dir string) {
		if abs, err := filepath.Abs(dir); err == nil {
			dir = abs
		}
		c.Data = dir
		c.trace.places["/data"] = place{other: from}
	}
	env, from, _ := l.env.get("STOA_DATA")
	state, fromState, _ := l.env.get("XDG_STATE_HOME")
	home := l.env.home()
	switch {
	case l.Data != "":
		set("--data", l.path(l.Data))
	case c.Data != "":
	case env != "":
		set(from, l.path(env))
	case filepath.IsAbs(state): // the standard says that a relative one is not to be used
		set(fromState, filepath.Join(state, "stoa"))
	case home != "":
		set("default", filepath.Join(home, ".local", "state", "stoa"))
	default:
		l.report.problem(Problem{File: "--data", Text: "there is no home folder to keep the data in", Hint: "give --data, or set STOA_DATA"})
	}
}
