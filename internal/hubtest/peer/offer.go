package peer

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// list answers one page of a list.
func (s *server) list(r *request) reply {
	member, all := s.entries(r.method)
	from, to := 0, len(all)
	next := ""
	if size := s.spec.List.PageSize; size > 0 {
		page, ok := pageOf(r.params.Cursor)
		if !ok || page > 0 && page*size >= len(all) {
			return refuse(codeInvalidParams, nil, "%s: unknown cursor %q", r.method, *r.params.Cursor)
		}
		from, to = page*size, min((page+1)*size, len(all))
		if to < len(all) {
			next = `,"nextCursor":` + string(encode(cursorOf(page+1)))
		}
	} else if r.params.Cursor != nil {
		return refuse(codeInvalidParams, nil, "%s: unknown cursor %q", r.method, *r.params.Cursor)
	}
	return s.complete(r, fmt.Sprintf(`{"%s":[%s]%s}`, member, strings.Join(all[from:to], ","), next))
}

// The second page's cursor is empty: clients must not take it for the end.
func cursorOf(page int) string {
	if page == 1 {
		return ""
	}
	return "page-" + strconv.Itoa(page)
}

func pageOf(cursor *string) (int, bool) {
	if cursor == nil {
		return 0, true
	}
	if *cursor == "" {
		return 1, true
	}
	n, err := strconv.Atoi(strings.TrimPrefix(*cursor, "page-"))
	return n, err == nil && n > 1 && cursorOf(n) == *cursor
}

// entries returns the definitions of one list and the member they stand under.
func (s *server) entries(method string) (member string, all []string) {
	def := func(raw Raw, format string, args ...any) {
		if raw == "" {
			raw = Raw(fmt.Sprintf(format, args...))
		}
		all = append(all, string(raw))
	}
	switch method {
	case "tools/list":
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, t := range s.tools {
			def(t.RawDefinition, `{"name":%s,"inputSchema":{"type":"object"}}`, encode(t.Name))
		}
		return "tools", all
	case "prompts/list":
		for _, p := range s.spec.Prompts {
			def(p.RawDefinition, `{"name":%s}`, encode(p.Name))
		}
		return "prompts", all
	case "resources/list":
		for _, r := range s.spec.Resources {
			def(r.RawDefinition, `{"uri":%s,"name":%[1]s}`, encode(r.URI))
		}
		return "resources", all
	}
	for _, t := range s.spec.Templates {
		def(t.RawDefinition, `{"uriTemplate":%s,"name":%[1]s}`, encode(t.URITemplate))
	}
	return "resourceTemplates", all
}

// tool finds a tool by its name.
func (s *server) tool(name string) (Tool, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tools {
		if t.Name == name {
			return t, true
		}
	}
	return Tool{}, false
}

// resource finds what a URI names, itself or by template. Its Text is the
// present one.
func (s *server) resource(uri string) (Resource, bool) {
	for _, r := range s.spec.Resources {
		if r.URI == uri {
			s.mu.Lock()
			defer s.mu.Unlock()
			if v := s.versions[uri]; v > 0 {
				r.Text += fmt.Sprintf(" (version %d)", v)
			}
			return r, true
		}
	}
	for _, t := range s.spec.Templates {
		if matches(t.URITemplate, uri) {
			return Resource{URI: uri, Text: uri, Behaviour: t.Behaviour}, true
		}
	}
	return Resource{}, false
}

var expression = regexp.MustCompile(`\\\{(\\\+)?[^}]*\\\}`)

// matches reports whether a URI is an expansion of a template.
func matches(template, uri string) bool {
	pattern := expression.ReplaceAllStringFunc(regexp.QuoteMeta(template), func(e string) string {
		if strings.HasPrefix(e, `\{\+`) {
			return ".+"
		}
		return "[^/]+"
	})
	ok, err := regexp.MatchString("^"+pattern+"$", uri)
	return ok && err == nil
}

// noResource is the refusal of a URI, in the code of the client's era.
func (s *server) noResource(r *request) reply {
	code := codeNoResource
	if r.modern {
		code = codeInvalidParams
	}
	return refuse(code, map[string]any{"uri": r.params.URI}, "no resource %s", r.params.URI)
}
