package mcp

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

const (
	encodedPrefix = "=?base64?"
	encodedSuffix = "?="
)

// EncodeHeader returns s as a header value, in Base64 where it is not safe as
// it is.
func EncodeHeader(s string) string {
	if s == "" || headerSafe(s) {
		return s
	}
	return encodedPrefix + base64.StdEncoding.EncodeToString([]byte(s)) + encodedSuffix
}

func headerSafe(s string) bool {
	if s[0] == ' ' || s[len(s)-1] == ' ' || strings.HasPrefix(s, encodedPrefix) && strings.HasSuffix(s, encodedSuffix) {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// DecodeHeader undoes EncodeHeader; it reports whether the value was well formed.
func DecodeHeader(v string) (string, bool) {
	inner, ok := strings.CutPrefix(v, encodedPrefix)
	if !ok {
		return v, true
	}
	if inner, ok = strings.CutSuffix(inner, encodedSuffix); !ok {
		return v, true
	}
	b, err := base64.StdEncoding.DecodeString(inner)
	return string(b), err == nil
}

// one returns the only value of a header. A repeated header has none: whoever
// sits between us and the client may have read the other one.
func one(h http.Header, name string) (string, error) {
	switch v := h[name]; len(v) {
	case 0:
		return "", nil
	case 1:
		return strings.Trim(v[0], " \t"), nil
	}
	return "", fault.New(fault.HeaderMismatch, name, "the header is there more than once")
}

// checkHeaders compares the headers of a modern request with its body.
func checkHeaders(h http.Header, m *wire.Message) error {
	method, err := one(h, headerMethod)
	if err != nil {
		return err
	}
	switch {
	case method == "":
		return fault.New(fault.HeaderMismatch, headerMethod, "the header is missing; the body's method is %q", m.Method)
	case method != m.Method:
		return fault.New(fault.HeaderMismatch, headerMethod, "the header says %q, the body says %q", method, m.Method)
	}
	param, ok := needsName(m.Method)
	if !ok {
		return nil
	}
	body, _ := wire.String(m.Param(param))
	raw, err := one(h, headerName)
	if err != nil {
		return err
	}
	if raw == "" {
		return fault.New(fault.HeaderMismatch, headerName, "the header is missing; the body's %s is %q", param, body)
	}
	name, ok := DecodeHeader(raw)
	if !ok {
		return fault.New(fault.HeaderMismatch, headerName, "the header is not valid Base64")
	}
	if name != body {
		return fault.New(fault.HeaderMismatch, headerName, "the header says %q, the body's %s is %q", name, param, body)
	}
	return nil
}
