package agentd

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/spell"
	"github.com/stoahub/stoa/internal/wire"
)

// resource is a compiled resource.
type resource struct {
	name       string
	mime       string
	definition []byte
	address    *address
	root       string   // of a file with variables: what cannot be left
	private    []string // files that variables cannot lead to
	file       template // nil where a command gives the contents
	limit      int
	command    *command
}

func (c *compiler) resource(m *config.ManifestResource, others []*resource) *resource {
	path := "/resources/" + pointer(m.Name)
	r := &resource{name: m.Name, mime: m.MimeType, limit: m.Exec.OutputBytes, address: &address{}}
	a, err := parseAddress(m.URI)
	if err != nil {
		c.wrong(path+"/uri", `write an address such as "notes://today" or "logs://{day}"`, "%v", err)
	} else {
		r.address = a
	}
	for _, other := range others {
		if other.address.uri == m.URI {
			c.wrong(path+"/uri", "give each an address of its own", "%q has the same address", other.name)
		}
	}
	for name, pattern := range m.Variables {
		at := path + "/variables/" + pointer(name)
		if !slices.Contains(r.address.names, name) {
			hint := "the address has no variables"
			if near := spell.Nearest(name, r.address.names); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			} else if len(r.address.names) > 0 {
				hint = "known here: " + strings.Join(r.address.names, ", ")
			}
			c.wrong(at, hint, "%q is no variable of the address", name)
		} else if p, err := regexp.Compile("^(?:" + pattern + ")$"); err == nil {
			r.address.patterns[name] = p
		}
	}
	if m.File != "" {
		r.setFile(c.template(path+"/file", m.File, r.address.names))
		r.private = []string{c.m.File, filepath.Join(filepath.Dir(c.m.File), ".env")}
	} else {
		r.command = c.command(path, &m.Exec, r.address.names)
	}
	def := map[string]any{"name": m.Name, "title": m.Title, "description": m.Description, "mimeType": m.MimeType}
	if r.address.fixed() {
		def["uri"] = m.URI
	} else {
		def["uriTemplate"] = m.URI
	}
	r.definition = definition(def)
	return r
}

// setFile splits a file with variables into the folder that is certain and
// what the variables decide. The path is absolute.
func (r *resource) setFile(t template) {
	r.file = t
	if len(t.names()) == 0 {
		return
	}
	dir := t[0].text[:strings.LastIndexByte(t[0].text, '/')+1]
	r.file = append(template{{text: t[0].text[len(dir):]}}, t[1:]...)
	r.root = filepath.Clean(dir)
}

// find returns the resource that has the URI, and its variables.
func (o *offer) find(uri string) (*resource, map[string]string) {
	var found *resource
	var vars map[string]string
	for _, r := range o.resources {
		if v := r.address.match(uri); v != nil {
			if r.address.fixed() {
				return r, v
			}
			if found == nil {
				found, vars = r, v
			}
		}
	}
	return found, vars
}

// path is the file of a resource with these variables; "" where it has none.
func (r *resource) path(vars map[string]string) string {
	if r.file == nil {
		return ""
	}
	name, _ := r.file.fill(asValues(vars))
	return filepath.Join(r.root, name)
}

func asValues(vars map[string]string) values {
	out := values{}
	for name, v := range vars {
		out[name] = value{v, true}
	}
	return out
}

func unknownResource(uri string) error {
	return fault.New(fault.ResourceNotFound, uri, "there is no such resource").With("uri", uri)
}

// read answers resources/read.
func (a *Agent) read(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	uri, ok := req.Text("uri")
	if !ok {
		return mcp.Response{}, fault.New(fault.InvalidParams, req.Method, "uri is missing or not a string")
	}
	r, vars := a.offer.Load().find(uri)
	if r == nil {
		return mcp.Response{}, unknownResource(uri)
	}
	var body []byte
	var err error
	if r.file != nil {
		body, err = r.readFile(uri, vars)
	} else {
		body, err = a.readCommand(ctx, req, r, vars)
	}
	if err != nil {
		return mcp.Response{}, about(uri, err)
	}
	out := wire.AppendString([]byte(`{"contents":[{"uri":`), uri)
	if r.mime != "" {
		out = wire.AppendString(append(out, `,"mimeType":`...), r.mime)
	}
	if utf8.Valid(body) {
		out = wire.AppendString(append(out, `,"text":`...), string(body))
	} else {
		out = wire.AppendString(append(out, `,"blob":`...), base64.StdEncoding.EncodeToString(body))
	}
	return answer(req, append(out, "}]}"...))
}

// isPrivate reports whether a file is the manifest or its variables, by
// whatever name it was opened.
func (r *resource) isPrivate(opened os.FileInfo) bool {
	for _, name := range r.private {
		if info, err := os.Stat(name); err == nil && os.SameFile(info, opened) {
			return true
		}
	}
	return false
}

// readFile reads a file. Variables cannot lead out of the folder before them,
// nor to the manifest and its variables.
func (r *resource) readFile(uri string, vars map[string]string) ([]byte, error) {
	const how = os.O_RDONLY | syscall.O_NONBLOCK // a pipe must not make us wait
	name, _ := r.file.fill(asValues(vars))
	var f *os.File
	var err error
	if r.root == "" {
		f, err = os.OpenFile(name, how, 0)
	} else {
		var root *os.Root
		if root, err = os.OpenRoot(r.root); err == nil {
			defer root.Close()
			f, err = root.OpenFile(name, how, 0)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, unknownResource(uri)
	}
	if err == nil {
		defer f.Close()
		var st os.FileInfo
		if st, err = f.Stat(); err == nil && (!st.Mode().IsRegular() || r.root != "" && r.isPrivate(st)) {
			return nil, unknownResource(uri)
		}
	}
	var body []byte
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(f, int64(r.limit)+1))
	}
	if err != nil {
		if r.root != "" { // it may lie outside, or be a folder: for the caller it is not there
			return nil, fault.New(fault.ResourceNotFound, uri, "there is no such resource").With("uri", uri).Because(err)
		}
		return nil, fault.New(fault.Internal, uri, "the file cannot be read").Because(err)
	}
	if len(body) > r.limit {
		return nil, &fault.Error{Kind: fault.Limit, Subject: uri, Msg: fmt.Sprintf("the file is larger than %d bytes", r.limit), Hint: "Raise outputBytes of the resource in the manifest."}
	}
	return body, nil
}

// readCommand runs the command of a resource.
func (a *Agent) readCommand(ctx context.Context, req *mcp.Request, r *resource, vars map[string]string) (body []byte, err error) {
	args, err := json.Marshal(vars)
	if err != nil {
		return nil, err
	}
	j, err := r.command.job(r.name, args, asValues(vars))
	if err != nil {
		return nil, err
	}
	err = a.queued(ctx, req, func(ctx context.Context) (bool, error) {
		out, err := a.exec(ctx, req, r.name, r.command, j)
		if large, ok := errors.AsType[*tooMuch](err); ok {
			return false, &fault.Error{Kind: fault.Limit, Msg: large.Error(), Hint: "Raise outputBytes of the resource in the manifest."}
		}
		if start, ok := errors.AsType[*errStart](err); ok {
			return false, fault.New(fault.Internal, "", "the command cannot be started: %v", start)
		}
		if err != nil {
			return false, err
		}
		if out.code != 0 {
			return false, fault.New(fault.Internal, "", "the command failed: %s", out.state).With("exitCode", out.code).With("stderr", out.stderr)
		}
		body = out.stdout
		return true, nil
	})
	return body, err
}
