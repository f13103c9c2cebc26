package call

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/schema"
	"github.com/stoahub/stoa/internal/wire"
)

const paramPrefix = "Mcp-Param-"

// argument returns the value at a path of object members, raw, or nil.
func argument(args []byte, path []string) []byte {
	for _, name := range path {
		if args = wire.Get(args, name); args == nil {
			return nil
		}
	}
	if string(args) == "null" {
		return nil
	}
	return args
}

// primitive returns a string, integer or boolean as a header says it.
func primitive(raw []byte) (string, bool) {
	switch {
	case len(raw) == 0:
		return "", false
	case raw[0] == '"':
		return wire.String(raw)
	case string(raw) == "true" || string(raw) == "false":
		return string(raw), true
	}
	return integer(string(raw))
}

// integer returns a JSON number as a decimal integer, if it is one that every
// implementation can hold.
func integer(s string) (string, bool) {
	const safe = 1<<53 - 1
	// Go reads more than JSON allows: +1, 0x1p4, 1_000, Inf.
	if s == "" || s[0] == '+' || strings.Trim(s, "0123456789+-.eE") != "" {
		return "", false
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return strconv.FormatInt(n, 10), -safe <= n && n <= safe
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != float64(int64(f)) || f > safe || f < -safe {
		return "", false
	}
	return strconv.FormatInt(int64(f), 10), true
}

// CheckHeaders compares the Mcp-Param-* headers of a modern request with the
// arguments they mirror.
func CheckHeaders(h http.Header, bindings []schema.Binding, args []byte) error {
	for _, b := range bindings {
		name := paramPrefix + b.Header
		values := h.Values(name)
		raw := argument(args, b.Path)
		where := "/" + strings.Join(b.Path, "/")
		switch {
		case len(values) == 0 && (raw == nil || raw[0] == '{' && wire.Get(raw, "$ref") != nil):
			continue // a reference in its long form has nothing that a header could say
		case raw == nil:
			return fault.New(fault.HeaderMismatch, name, "the header is there but the argument %s is not", where)
		case len(values) != 1:
			return fault.New(fault.HeaderMismatch, name, "the header must be there once for the argument %s", where)
		}
		said, ok := mcp.DecodeHeader(strings.Trim(values[0], " \t"))
		if !ok {
			return fault.New(fault.HeaderMismatch, name, "the header is not valid Base64")
		}
		want, ok := primitive(raw)
		if !ok {
			return fault.New(fault.HeaderMismatch, name, "the argument %s is no string, integer or boolean, so no header can mirror it", where)
		}
		if b.Type == "integer" && raw[0] != '"' {
			if n, ok := integer(said); ok {
				said = n
			}
		}
		if said != want {
			return fault.New(fault.HeaderMismatch, name, "the header says %q, the argument %s says %q", said, where, want)
		}
	}
	return nil
}

// paramHeaders returns the Mcp-Param-* headers for the upstream: made from
// the arguments where the tool is known, else those that came.
func paramHeaders(c *Call, args []byte) [][2]string {
	var out [][2]string
	if c.Item != nil {
		if len(c.Item.Bindings) == 0 {
			return nil
		}
		for _, b := range c.Item.Bindings {
			if v, ok := primitive(argument(args, b.Path)); ok {
				out = append(out, [2]string{paramPrefix + b.Header, mcp.EncodeHeader(v)})
			}
		}
		return out
	}
	for name, values := range c.Req.Header {
		if strings.HasPrefix(name, paramPrefix) && len(values) == 1 {
			out = append(out, [2]string{name, values[0]})
		}
	}
	return out
}
