package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// checkWhole looks at what concerns more than one key.
func checkWhole(c *Config, problem func(path, text, hint string)) {
	seen := map[string]bool{}
	for _, a := range c.Listen {
		if seen[a] && !strings.HasSuffix(a, ":0") {
			problem("/listen", fmt.Sprintf("the address %s is there twice", a), "keep one")
		}
		seen[a] = true
	}
	if len(c.Listen) == 0 {
		problem("/listen", "there is no address to listen on", `write "127.0.0.1:8080", or leave listen out`)
	}
	if c.Auth.Required != nil && !*c.Auth.Required {
		for _, a := range c.Listen {
			if _, hint := checkListen(a); hint == "" && !loopback(a) {
				problem("/auth/required", fmt.Sprintf("%s can be reached by others, and auth.required is false", a), "leave auth.required out, or listen on 127.0.0.1 only")
				break
			}
		}
	}
	checkPair("/tls", c.TLS.Cert, c.TLS.Key, problem)
	checkStoreWhole(&c.Store, problem)
	checkChat(c, problem)
	checkBridge(&c.Bridge, problem)
	checkGroups(c, problem)
	if c.Pool.CleanupInterval == 0 {
		problem("/pool/cleanupInterval", "idle connections would be looked for without a pause", `write a duration, as in "1m"`)
	}
}

// Validate checks and completes a Config made by hand, as Load does with what
// files say: it sorts Servers, gives each its Name and settles its Transport.
// The error, if any, is Problems. What Load returned needs no Validate.
func (c *Config) Validate() error {
	var r report
	at := func(path string) func(key, text, hint string) {
		return func(key, text, hint string) { r.problem(Problem{Pointer: path + key, Text: text, Hint: hint}) }
	}
	each := func(path string, values []string, check check) {
		for i, v := range values {
			if text, hint := check(v); text != "" {
				at(path)(fmt.Sprintf("/%d", i), text, hint)
			}
		}
	}
	each("/listen", c.Listen, checkListen)
	each("/auth/origins", c.Auth.Origins, checkOrigin)
	each("/auth/hosts", c.Auth.Hosts, checkHost)
	each("/auth/register", c.Auth.Register, checkRegister)
	each("/store/url", []string{c.Store.URL}, checkStore)
	if text, hint := checkBridgeURL(c.Bridge.URL); text != "" {
		at("/bridge/url")("", text, hint)
	}
	names := map[string]string{}
	for i := range c.Servers {
		s := &c.Servers[i]
		if s.Title == "" {
			s.Title = s.Name
		}
		s.Name = Slug(s.Title)
		path := under("/servers", s.Name)
		if text, hint := checkName(s.Title); text != "" {
			at(path)("", text, hint)
		}
		if other, twice := names[s.Name]; twice {
			at(path)("", fmt.Sprintf("the server names %q and %q are both %s", s.Title, other, s.Name), "rename one of them")
		}
		names[s.Name] = s.Title
		s.settle(nil, path)
		checkServer(s, at(path), func(string, string) {})
		checkOverrides(s.Tools.Override, at(path))
		each(path+"/tools/allow", s.Tools.Allow, checkGlob)
		each(path+"/tools/deny", s.Tools.Deny, checkGlob)
	}
	if f := c.Modules.File; f.Enabled && len(f.Roots) == 0 {
		at("/modules/file")("/roots", "the module has no folder that it may use", "name the folders, or turn it off")
	}
	checkPolicy(&c.Policy, func(path, text, hint string) { at(path)("", text, hint) })
	slices.SortFunc(c.Servers, func(a, b Server) int { return strings.Compare(a.Name, b.Name) })
	c.validateChat(at)
	checkWhole(c, func(path, text, hint string) { at(path)("", text, hint) })
	if len(r.problems) > 0 {
		return r.problems
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
