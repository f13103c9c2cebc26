package config

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/stoahub/stoa/internal/secret"
)

// reserved are the names that no server can have: the hub's own tools and
// references begin with them.
var reserved = []string{"stoa", "mcp", "context", "plan", "task", "file", "debug"}

const maxName = 20

// Reserved reports whether a name is the hub's own.
func Reserved(name string) bool { return slices.Contains(reserved, name) }

// Slug returns the name of a server as it appears in exposed names and paths,
// ^[a-z][a-z0-9-]{0,19}$: lower case, everything else a dash, cut to length.
// A name that begins with a digit gets "s-" before it. It is "" where nothing
// of the name can be kept.
func Slug(name string) string {
	var b strings.Builder
	dash := false
	for _, r := range strings.ToLower(name) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			if b.Len() == 0 && r <= '9' {
				b.WriteString("s-")
			} else if dash && b.Len() > 0 {
				b.WriteByte('-')
			}
			b.WriteRune(r)
			dash = false
			continue
		}
		dash = true
	}
	s := b.String()
	return strings.TrimRight(s[:min(len(s), maxName)], "-")
}

// checkName says what is wrong with a server's name.
func checkName(title string) (problem, hint string) {
	slug := Slug(title)
	switch {
	case slug == "":
		return fmt.Sprintf("the server name %q has no letter or digit of a-z, 0-9", title), "give it a name such as \"files\""
	case slices.Contains(reserved, slug):
		return fmt.Sprintf("the server name %q is reserved", slug), fmt.Sprintf("call it %q", slug+"-server")
	}
	return "", ""
}

// serversField reads servers by name, or a list of servers with id or name.
func serversField(key, doc string, foreign bool) field[Config] {
	return field[Config]{
		key: key, doc: doc, foreign: foreign,
		schema: func(*Config) *schema { return serversSchema() },
		decode: func(d *decoder, n *node, _ string, c *Config) { d.servers(n, c, !foreign) },
		show:   showServers(foreign),
	}
}

func serversSchema() *schema {
	return &schema{AnyOf: []*schema{
		{Type: "object", Values: &schema{Ref: "#/$defs/server"}},
		{Type: "array", Items: &schema{Ref: "#/$defs/listedServer"}},
	}}
}

// serverSchemas are what serversSchema refers to.
func serverSchemas() properties {
	def := DefaultServer()
	one, listed := objectSchema(&def, serverFields()), objectSchema(&def, serverFields())
	name := &schema{Type: "string", Description: "The server's name."}
	own := &schema{Type: "string", Description: "The server's name, where it is not the key."}
	one.Properties = append(one.Properties, property{"id", own})
	listed.Properties = append(properties{{"id", name}, {"name", name}}, listed.Properties...)
	return properties{{"server", one}, {"listedServer", listed}}
}

// servers reads them. Where ids is true, an id beside the key is the name: the
// hosts that write both call the server by it.
func (d *decoder) servers(n *node, c *Config, ids bool) {
	switch n.kind {
	case object:
		for _, m := range n.members {
			title, one := m.name, m.value
			if one.kind == null { // nothing was written below the name, and somebody waits for the server
				empty := *one
				empty.kind, one = object, &empty
			}
			if id := m.value.get("id"); ids && id != nil {
				title, one = d.byID(m, id)
			}
			d.server(title, one, m.value, c)
		}
	case list:
		for _, item := range n.items {
			if !d.want(item, object, "") {
				continue
			}
			name := item.get("id")
			if name == nil {
				name = item.get("name")
			}
			if name == nil || name.kind != text {
				d.problem(item.at, item.ptr, `give it an "id"`, "a server in a list needs a name")
				continue
			}
			d.server(name.text, item.without("id", "name"), name, c)
		}
	default:
		d.want(n, object, "write the servers by name")
	}
}

// byID returns the name of a server that has an id, and the rest of it.
func (d *decoder) byID(m member, id *node) (title string, rest *node) {
	title, rest = m.name, m.value.without("id")
	switch {
	case id.kind != text:
		d.want(id, text, "")
	case id.text != m.name:
		title = id.text
		d.note(id.at, id.ptr, "", "the server %q goes by its id, %q", m.name, id.text)
	}
	return title, rest
}

// without returns the object n without the members of these names.
func (n *node) without(names ...string) *node {
	rest := *n
	rest.members = slices.DeleteFunc(slices.Clone(n.members), func(m member) bool { return slices.Contains(names, m.name) })
	return &rest
}

// server reads one server; named is the node whose place its name has.
func (d *decoder) server(title string, n, named *node, c *Config) {
	before := len(d.problems)
	d.doubled(n.ptr)
	s, usable := d.readServer(title, n, named, c)
	if found := d.problems[before:]; d.tolerant && len(found) > 0 {
		if s.Enabled {
			s.Wrong = slices.Clone(found)
		}
		switch {
		case usable:
		case s.Enabled && len(c.Servers)+len(d.misnamed) < maxServers:
			d.misnamed = append(d.misnamed, s)
		default:
			for _, p := range found {
				d.notes = append(d.notes, Note{File: p.File, Line: p.Line, Column: p.Column, Pointer: p.Pointer, Text: "the server is left out: " + p.Text, Hint: p.Hint})
			}
		}
		d.problems = d.problems[:before]
	}
	if usable {
		c.Servers = append(c.Servers, s)
	}
}

// readServer reads one server and reports whether there is room for it.
func (d *decoder) readServer(title string, n, named *node, c *Config) (s Server, usable bool) {
	problem, hint := checkName(title)
	if problem != "" {
		d.problem(named.key, n.ptr, hint, "%s", problem)
	}
	s = DefaultServer()
	s.Name, s.Title = Slug(title), title
	at := under("/servers", s.Name)
	at, twice := d.replace(at, s, n, named, c)
	d.trace.places[at] = place{src: d.src, at: named.key, ptr: n.ptr, holder: true}
	if !d.want(n, object, "") {
		return s, d.tolerant && problem == "" && !twice
	}
	before := len(d.problems)
	d.lenient = isDisabled(n)
	decodeObject(d, n, at, &s, serverFields())
	d.envFile(&s, at)
	d.lenient = false
	if s.Name != title && s.Name != "" {
		d.note(named.key, n.ptr, "", "the server %q is called %s here", title, s.Name)
	}
	d.checkServer(&s, n, at, d.problems[before:])
	if len(c.Servers) == maxServers {
		d.problem(named.key, n.ptr, "configure fewer", "there are more than %d servers", maxServers)
	}
	if d.tolerant && (problem != "" || twice) {
		return s, false
	}
	return s, len(c.Servers) <= maxServers
}

// misspelt reports whether p is about a key that was meant to be command or url.
func misspelt(p Problem) bool {
	return p.Hint == `did you mean "command"?` || p.Hint == `did you mean "url"?`
}

// checkServer looks at the server as a whole. What is already known to be wrong
// (found, or a variable without value) is not blamed again for what follows
// from it.
func (d *decoder) checkServer(s *Server, n *node, at string, found Problems) {
	failed := func(keys ...string) bool {
		return slices.ContainsFunc(keys, func(key string) bool {
			return d.trace.places[under(at, key)].unfilled || slices.ContainsFunc(found, func(p Problem) bool {
				return p.Pointer == under(n.ptr, key)
			})
		})
	}
	s.settle(d.trace.places, at)
	if kind := n.get("type"); kind != nil && kind.text == "remote" && s.Command != "" && s.URL == "" {
		d.problem(kind.at, kind.ptr, "write local, or give the url to call instead of the command", "the server %q is remote, and has a command to run here", s.Title)
	}
	checkServer(s, func(key, problem, hint string) {
		both := s.Command != "" && s.URL != ""
		switch {
		case key == "" && (failed("command", "url", "serverUrl", "httpUrl") || slices.ContainsFunc(found, misspelt)):
		case key == "/url" && !both && failed("url", "serverUrl", "httpUrl"):
		case key == "/transport" && failed("transport", "type", "url", "serverUrl", "httpUrl"):
		case key == "/maxTimeoutMs" && failed("timeoutMs", "maxTimeoutMs"):
		default:
			p, _ := d.trace.find(at + key)
			d.problem(p.at, p.ptr, hint, "%s", problem)
		}
	}, func(key, text string) {
		p, _ := d.trace.find(at + key)
		d.note(p.at, p.ptr, "", "%s", text)
	})
}

// replace makes room for s where a server of its name is known: an earlier
// file's is dropped, this file's own is a problem. It returns the path to
// record s under, and whether the name is there twice.
func (d *decoder) replace(at string, s Server, n, named *node, c *Config) (string, bool) {
	i := slices.IndexFunc(c.Servers, func(o Server) bool { return o.Name == s.Name })
	if i < 0 || s.Name == "" {
		return at, false
	}
	old, other := d.trace.places[at], c.Servers[i].Title
	if old.src == d.src || other != s.Title {
		d.problem(named.key, n.ptr, "rename one of them", "the server names %q and %q (%s:%d) are both %s", s.Title, other, old.src.name, old.at.line, s.Name)
		return at + "'", true // keep the first one's places
	}
	d.note(named.key, n.ptr, "", "the server %q replaces that of %s:%d", s.Title, old.src.name, old.at.line)
	d.trace.forget(at)
	c.Servers = slices.Delete(c.Servers, i, i+1)
	return at, false
}

func isDisabled(n *node) bool {
	off, on := n.get("disabled"), n.get("enabled")
	return off != nil && off.text == "true" || on != nil && on.kind == boolean && on.text == "false"
}

// envFile adds the variables of the server's own file.
func (d *decoder) envFile(s *Server, at string) {
	p, ok := d.trace.places[at+"/envFile"]
	if !ok || d.lenient || s.EnvFile == "" || strings.Contains(s.EnvFile, "${") {
		return
	}
	var r report
	f := readEnvFile(s.EnvFile, false, &r, d.src.rank)
	for _, bad := range r.problems {
		d.problem(p.at, p.ptr, bad.Hint, "%s:%d: %s", bad.File, bad.Line, bad.Text)
	}
	if f == nil {
		return
	}
	if s.Env == nil {
		s.Env = map[string]secret.String{}
	}
	for name, v := range f.vars {
		if _, ok := s.Env[name]; !ok {
			s.Env[name] = secret.New(v)
			d.trace.places[under(at+"/env", name)] = place{other: f.name}
		}
	}
}

// settle fills in what follows from the rest. places may be nil.
func (s *Server) settle(places map[string]place, at string) {
	if s.Transport == Auto && s.Command != "" && s.URL == "" {
		s.Transport = Stdio
	}
	if u, err := url.Parse(s.URL); s.Transport == Auto && err == nil && (u.Scheme == "ws" || u.Scheme == "wss") {
		s.Transport = WS
	}
	if _, given := places[at+"/maxTimeoutMs"]; !given && s.MaxTimeout < s.Timeout {
		s.MaxTimeout = s.Timeout
	}
}

// checkServer looks at a server as a whole. Keys are pointers below the
// server, "" for itself.
func checkServer(s *Server, problem func(key, text, hint string), note func(key, text string)) {
	switch {
	case s.Command != "" && s.URL != "":
		problem("/url", fmt.Sprintf("the server %q has both command and url", s.Title), "keep the one that is meant")
		return
	case s.Command == "" && s.URL == "":
		problem("", fmt.Sprintf("the server %q has neither command nor url", s.Title), "give it the command to run or the url to call")
		return
	case s.URL != "":
		checkURL(s, problem)
	case s.Transport != Stdio:
		problem("/transport", fmt.Sprintf("a command cannot be reached by %s", s.Transport), "write stdio, or leave it out")
	}
	checkTrust(s, problem, note)
	if s.MaxTimeout < s.Timeout {
		problem("/maxTimeoutMs", fmt.Sprintf("%d is less than timeoutMs, %d", s.MaxTimeout.Milliseconds(), s.Timeout.Milliseconds()), "raise it, or leave it out")
	}
	for _, name := range sortedKeys(s.Env) {
		if p, hint := checkVariable(name); p != "" || strings.ContainsRune(s.Env[name].Reveal(), 0) {
			problem(under("/env", name), "the name or the value cannot be that of a variable", hint)
		}
	}
	checkHeaders(s.Headers, problem)
	if s.URL != "" && (len(s.Args) > 0 || len(s.Env) > 0 || s.Cwd != "") {
		note("", "args, env and cwd have no effect on a server with a url")
	}
	if s.Command != "" && len(s.Headers) > 0 {
		note("/headers", "headers have no effect on a server with a command")
	}
}

func checkHeaders(headers map[string]secret.String, problem func(key, text, hint string)) {
	for _, name := range sortedKeys(headers) {
		if !isToken(name) {
			problem(under("/headers", name), strconv.Quote(name)+" is no name of a header", "write letters, digits and dashes, as in Authorization")
		} else if strings.ContainsAny(headers[name].Reveal(), "\r\n\x00") {
			problem(under("/headers", name), "the value has a line break", "remove it")
		}
	}
}

func checkTrust(s *Server, problem func(key, text, hint string), note func(key, text string)) {
	checkPair("/tls", s.TLS.Cert, s.TLS.Key, problem)
	if s.TLS.Insecure && s.TLS.CA != "" {
		problem("/tls/insecure", "there is a ca to trust, and insecure trusts anybody", "keep the one that is meant")
	}
	if u, err := url.Parse(s.URL); s.TLS != (Trust{}) && err == nil && u.Scheme != "https" && u.Scheme != "wss" {
		note("/tls", "tls has no effect on a server that is not at a https or wss url")
	}
}

// checkPair looks at a certificate and its key, which are below path.
func checkPair(path, cert, key string, problem func(path, text, hint string)) {
	switch {
	case cert != "" && key == "":
		problem(path+"/cert", "the certificate has no key", "give key, the file of its key, too")
	case cert == "" && key != "":
		problem(path+"/key", "the key has no certificate", "give cert, the file of its certificate, too")
	}
}

func checkURL(s *Server, problem func(key, text, hint string)) {
	const hint = "write it as in https://example.com/mcp"
	u, err := url.Parse(s.URL)
	switch {
	case err != nil: // the parser's message quotes the URL, which may hold a key
		problem("/url", "the url cannot be read", hint)
	case !slices.Contains([]string{"http", "https", "ws", "wss"}, u.Scheme):
		problem("/url", fmt.Sprintf("the url has the scheme %q", u.Scheme), "allowed: http, https, ws, wss")
	case u.Hostname() == "":
		problem("/url", "the url has no host", hint)
	case s.Transport == Stdio:
		problem("/transport", "a url cannot be reached by stdio", "write http, sse, ws or ailumina, or leave it out")
	case strings.HasPrefix(u.Scheme, "ws") != (s.Transport == WS || s.Transport == Ailumina):
		problem("/transport", fmt.Sprintf("the transport %s cannot reach a %s url", s.Transport, u.Scheme), "leave the transport out, or correct the url")
	}
}

func isToken(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r) {
			return false
		}
	}
	return s != ""
}
