package secret

import (
	"bytes"
	"encoding/json"
	"regexp"
)

var (
	word = regexp.MustCompile(`(?i)(key|token|secret|passw|pwd|auth|cred|signature|\bsig\b|bearer|cookie)`)

	// What tells by its form that it is a secret, whatever it is called.
	userPart = regexp.MustCompile(`(://)[^/?#\s@]+@`)
	scheme   = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[^\s"]+`)
)

// Named reports whether a value of that name is better not shown.
func Named(name string) bool { return word.MatchString(name) }

// MaskJSON is JSON, on one line, without what is named like a secret or looks
// like one. Of what is no JSON nothing is shown.
func MaskJSON(raw []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return []byte(`"` + Dots + `"`)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(masked(v)) != nil {
		return []byte(`"` + Dots + `"`)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func masked(v any) any {
	switch t := v.(type) {
	case map[string]any:
		for name, inner := range t {
			if _, flag := inner.(bool); inner != nil && !flag && Named(name) {
				t[name] = Dots
			} else {
				t[name] = masked(inner)
			}
		}
	case []any:
		for i := range t {
			t[i] = masked(t[i])
		}
	case string:
		t = userPart.ReplaceAllString(t, "${1}"+Dots+"@")
		return scheme.ReplaceAllString(t, "${1} "+Dots)
	}
	return v
}
