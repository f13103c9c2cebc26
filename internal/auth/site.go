package auth

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/stoahub/stoa/internal/fault"
)

// sites knows the names we are called by and the pages that may call us.
type sites struct {
	anyHost bool
	hosts   map[string]struct{} // host or host:port, lower case
	origins map[string]struct{} // lower case
}

func newSites(loopback bool, hosts, origins []string) (sites, error) {
	// A listener that others reach has names we cannot know, and asks for a
	// token that a page under a foreign name does not have.
	s := sites{anyHost: !loopback && len(hosts) == 0, hosts: map[string]struct{}{}, origins: map[string]struct{}{}}
	for _, h := range hosts {
		if h == "" || strings.ContainsAny(h, "/*@ ") {
			return sites{}, fmt.Errorf("allowed host %q: write a name or an address, with or without :port", h)
		}
		s.hosts[strings.ToLower(h)] = struct{}{}
	}
	for _, o := range origins {
		u, err := url.Parse(o)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			return sites{}, fmt.Errorf("allowed origin %q: write it as browsers do, as in https://app.example.com", o)
		}
		s.origins[strings.ToLower(o)] = struct{}{}
	}
	return s, nil
}

// check returns nil if the request came under a name of ours and from no
// foreign page.
func (s *sites) check(r *http.Request) *fault.Error {
	if !s.ownHost(r.Host) {
		return fault.New(fault.ForeignOrigin, "Host", "%q is not a name of this hub", clip(r.Host))
	}
	switch values := r.Header["Origin"]; len(values) {
	case 0:
	case 1:
		if s.listed(values[0]) {
			return nil
		}
		if !ownOrigin(values[0], r) {
			return fault.New(fault.ForeignOrigin, "Origin", "pages of %q may not use this hub", clip(values[0]))
		}
	default:
		return fault.New(fault.ForeignOrigin, "Origin", "the header is there more than once")
	}
	// Not every request of a page has an Origin, but browsers always say where
	// it is from. Other ports of this machine are the same site, not the same
	// origin.
	if from := r.Header["Sec-Fetch-Site"]; len(from) > 0 && (len(from) > 1 || from[0] != "none" && from[0] != "same-origin") {
		return fault.New(fault.ForeignOrigin, "Sec-Fetch-Site", "pages of other origins may not use this hub")
	}
	return nil
}

// checkPublic is check for what everybody may see: pages of other sites may
// link to it and load it as a script. They cannot read it.
func (s *sites) checkPublic(r *http.Request) *fault.Error {
	if r.Method == http.MethodGet && r.Header.Get("Origin") == "" {
		switch r.Header.Get("Sec-Fetch-Dest") {
		case "document", "script":
			if s.ownHost(r.Host) {
				return nil
			}
		}
	}
	return s.check(r)
}

// plainPost refuses what a page can post without the browser asking us first,
// since it looks like a form.
func plainPost(r *http.Request) *fault.Error {
	if r.Method != http.MethodPost || r.ContentLength == 0 || r.Header.Get("Origin") == "" || r.Header.Get("Authorization") != "" {
		return nil // browsers ask before a page sends an Authorization, whatever it posts
	}
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch strings.ToLower(strings.TrimSpace(kind)) {
	case "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data":
	default:
		return nil
	}
	return &fault.Error{Kind: fault.InvalidRequest, Subject: "Content-Type", Msg: "a page has to say what it posts", Hint: "Send Content-Type: application/json."}
}

func (s *sites) ownHost(host string) bool {
	name, ok := hostname(host)
	if !ok {
		return false
	}
	if s.anyHost || isLoopback(name) {
		return true
	}
	if len(s.hosts) == 0 {
		return false
	}
	if _, ok := s.hosts[strings.ToLower(host)]; ok {
		return true
	}
	_, ok = s.hosts[strings.ToLower(name)]
	return ok
}

// listed reports whether the config names the origin.
func (s *sites) listed(origin string) bool {
	if len(s.origins) == 0 {
		return false
	}
	_, ok := s.origins[strings.ToLower(origin)]
	return ok
}

// ownOrigin reports whether the origin is the one under which the hub was
// called, port and all. Without TLS of ours there may be somebody else's in
// front of us.
func ownOrigin(origin string, r *http.Request) bool {
	scheme, host, ok := strings.Cut(origin, "://")
	if !ok || !strings.EqualFold(host, r.Host) {
		return false
	}
	return strings.EqualFold(scheme, "https") || r.TLS == nil && strings.EqualFold(scheme, "http")
}

// hostname returns the host of host[:port], without the brackets of IPv6, and
// whether the whole is well-formed.
func hostname(hostport string) (string, bool) {
	name, port := hostport, ""
	if strings.HasPrefix(hostport, "[") {
		end := strings.IndexByte(hostport, ']')
		if end < 0 {
			return "", false
		}
		name, port = hostport[1:end], hostport[end+1:]
		if !strings.Contains(name, ":") {
			return "", false
		}
	} else if i := strings.IndexByte(hostport, ':'); i >= 0 {
		name, port = hostport[:i], hostport[i:]
	}
	if name == "" || port != "" && !isPort(port) {
		return "", false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '-', c == '.', c == '_', c == ':' && hostport[0] == '[':
		default:
			return "", false
		}
	}
	return name, true
}

func isPort(s string) bool {
	if len(s) < 2 || len(s) > 6 || s[0] != ':' {
		return false
	}
	for i := 1; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

func isLoopback(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	// Only what can be an address is parsed as one: a failure would allocate.
	if c := name[len(name)-1]; name[0] != '1' && !strings.Contains(name, ":") || c == '.' {
		return false
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.IsLoopback()
}

// clip keeps foreign text short in messages.
func clip(s string) string {
	if len(s) > 100 {
		return s[:100]
	}
	return s
}
