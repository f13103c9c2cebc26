package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/stoahub/stoa/internal/secret"
)

// shower collects the values in effect, without secrets.
type shower struct {
	c       *Config
	entries []entry
}

type entry struct {
	path  string
	value any
}

func (s *shower) put(path string, v any) { s.entries = append(s.entries, entry{path, v}) }

// text shows a string as it was written where variables were filled in: what
// they held may be a secret.
func (s *shower) text(path, v string) {
	if v != "" {
		s.put(path, maskURL(s.written(path, v)))
	}
}

func (s *shower) written(path, v string) string {
	if s.c.trace != nil {
		if p := s.c.trace.places[path]; p.written != "" {
			return p.written
		}
	}
	return v
}

func (s *shower) texts(path string, values []string) {
	if len(values) == 0 {
		return
	}
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = maskURL(s.written(under(path, strconv.Itoa(i)), v))
	}
	maskFlags(out)
	s.put(path, out)
}

func (s *shower) secrets(path string, m map[string]secret.String) {
	for _, name := range sortedKeys(m) {
		s.put(under(path, name), secret.Dots)
	}
}

// raw shows a section that is not decoded here; members that are named like
// secrets are dots.
func (s *shower) raw(path string, section json.RawMessage) {
	if section == nil {
		return
	}
	d := json.NewDecoder(bytes.NewReader(section))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		v = secret.Dots // made by hand and no JSON: nothing of it is safe to show
	}
	s.put(path, maskJSON(v))
}

func showObject[T any](s *shower, path string, t *T, table []field[T]) {
	for _, f := range table {
		if f.show != nil {
			f.show(s, under(path, f.key), t)
		}
	}
}

func showServers(foreign bool) func(*shower, string, *Config) {
	if foreign {
		return nil
	}
	return func(s *shower, path string, c *Config) {
		for i := range c.Servers {
			at := under(path, c.Servers[i].Name)
			if c.Servers[i].Title != c.Servers[i].Name {
				s.put(under(at, "title"), c.Servers[i].Title)
			}
			showObject(s, at, &c.Servers[i], serverFields())
		}
	}
}

func (c *Config) shown() []entry {
	s := shower{c: c}
	showObject(&s, "", c, configFields())
	return s.entries
}

// Show writes the configuration in effect and the origin of each value: lines
// for a person, or JSON {"config": …, "origins": {pointer: origin}}. Values of
// env and headers are dots, strings with variables are shown as they were
// written. In args, URLs and raw sections only what is named like a secret is
// dots; a bare positional argument or a part of a URL's path is shown.
func (c *Config) Show(w io.Writer, asJSON bool) error {
	if asJSON {
		return c.showJSON(w)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, e := range c.shown() {
		fmt.Fprintf(t, "%s\t%s\t%s\n", e.path, compact(e.value), c.Origin(e.path))
	}
	return t.Flush()
}

func (c *Config) showJSON(w io.Writer) error {
	config, origins := map[string]any{}, map[string]string{}
	for _, e := range c.shown() {
		origins[e.path] = c.Origin(e.path)
		at := config
		steps := strings.Split(e.path[1:], "/")
		for i, step := range steps {
			step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
			if i == len(steps)-1 {
				at[step] = e.value
				break
			}
			next, ok := at[step].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[step] = next
			}
			at = next
		}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(map[string]any{"config": config, "origins": origins})
}

// Hash identifies the configuration in effect: the same values give the same
// hash wherever they came from. It is made of what Show shows, so it tells
// nothing of env, headers and variables, nor changes with their values.
func (c *Config) Hash() string {
	h := sha256.New()
	for _, e := range c.shown() {
		fmt.Fprintf(h, "%q %s\n", e.path, compact(e.value))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func compact(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprintf("%q", secret.Dots)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// maskURL hides the user's part of URLs in s and query values with a name like
// a secret's.
func maskURL(s string) string {
	if !strings.Contains(s, "://") {
		return s
	}
	parts := strings.Split(s, ",") // the store takes several
	for i, p := range parts {
		parts[i] = maskOne(p)
	}
	return strings.Join(parts, ",")
}

var (
	userPart   = regexp.MustCompile(`^([^:]*://)[^/?#]*@`)
	queryValue = regexp.MustCompile(`([?&])([^=&#]+)=([^&#]*)`)
)

func maskOne(s string) string {
	s = userPart.ReplaceAllString(s, "${1}"+secret.Dots+"@")
	return queryValue.ReplaceAllStringFunc(s, func(m string) string {
		part := queryValue.FindStringSubmatch(m)
		name, err := url.QueryUnescape(part[2])
		if err != nil || secret.Named(name) && !strings.HasPrefix(part[3], "${") {
			return part[1] + part[2] + "=" + secret.Dots
		}
		return m
	})
}

// assignment is NAME=value or "Header: value", as docker's -e and proxies take
// them.
var assignment = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_-]*)(=|: *)(.+)$`)

// maskFlags hides the values of flags named like secrets: "--token", "x" and
// "--token=x", and of assignments.
func maskFlags(args []string) {
	for i, a := range args {
		if m := assignment.FindStringSubmatch(a); m != nil && secret.Named(m[1]) && !strings.HasPrefix(m[3], "${") {
			args[i] = m[1] + m[2] + secret.Dots
			continue
		}
		if !strings.HasPrefix(a, "-") || !secret.Named(a) {
			continue
		}
		if name, value, ok := strings.Cut(a, "="); ok {
			if secret.Named(name) && !strings.HasPrefix(value, "${") {
				args[i] = name + "=" + secret.Dots
			}
		} else if i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") && !strings.HasPrefix(args[i+1], "${") {
			args[i+1] = secret.Dots
		}
	}
}

func maskJSON(v any) any {
	switch t := v.(type) {
	case map[string]any:
		for k, inner := range t {
			if _, isText := inner.(string); isText && secret.Named(k) {
				t[k] = secret.Dots
			} else {
				t[k] = maskJSON(inner)
			}
		}
	case []any:
		for i := range t {
			t[i] = maskJSON(t[i])
		}
	}
	return v
}
