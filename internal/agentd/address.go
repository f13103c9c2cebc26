package agentd

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

// address is the URI of a resource, or a URI template of RFC 6570 level 1:
// {name} stands for text in which all but letters, digits and -._~ is
// percent-encoded.
type address struct {
	uri      string
	form     *regexp.Regexp // nil where it is fixed
	names    []string
	patterns map[string]*regexp.Regexp
}

func (a *address) fixed() bool { return a.form == nil }

var (
	scheme   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)
	variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// encoded is what a variable may look like in a URI.
const encoded = `((?:[A-Za-z0-9._~-]|%[0-9A-Fa-f]{2})+)`

func parseAddress(uri string) (*address, error) {
	if !scheme.MatchString(uri) {
		return nil, fmt.Errorf("%q has no scheme", uri)
	}
	if strings.ContainsAny(uri, " \t\r\n") {
		return nil, errors.New("an address has no spaces in it")
	}
	a := &address{uri: uri, patterns: map[string]*regexp.Regexp{}}
	form := "^"
	for rest := uri; ; {
		before, after, found := strings.Cut(rest, "{")
		if strings.Contains(before, "}") {
			return nil, errors.New("there is a } without a {")
		}
		form += regexp.QuoteMeta(before)
		if !found {
			break
		}
		name, tail, closed := strings.Cut(after, "}")
		if !closed || !variable.MatchString(name) {
			return nil, fmt.Errorf("{%s is no variable of level 1", clip(after))
		}
		a.names = append(a.names, name)
		form += encoded
		rest = tail
	}
	if len(a.names) == 0 {
		return a, nil
	}
	var err error
	a.form, err = regexp.Compile(form + "$")
	return a, err
}

// match returns the variables of a URI; nil if it is another's.
func (a *address) match(uri string) map[string]string {
	if a.form == nil {
		if uri == a.uri {
			return map[string]string{}
		}
		return nil
	}
	m := a.form.FindStringSubmatch(uri)
	if m == nil {
		return nil
	}
	out := map[string]string{}
	for i, name := range a.names {
		v, err := url.PathUnescape(m[i+1])
		first, twice := out[name]
		if err != nil || !utf8.ValidString(v) || strings.ContainsRune(v, 0) || twice && first != v {
			return nil
		}
		if p := a.patterns[name]; p != nil && !p.MatchString(v) {
			return nil
		}
		out[name] = v
	}
	return out
}
