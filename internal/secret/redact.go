package secret

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
)

// Texts of errors come from anywhere: a server, an agent, a model or a library
// may say in them what it was sent, or what it has itself. What a Hider knows, and
// what looks like a credential, is taken out before they are passed on.

// Hider takes secrets out of texts: those that it was told of, and what looks
// like one. The zero value knows of none.
type Hider struct {
	words atomic.Pointer[strings.Replacer]
}

// tellable is the shortest text that is taken out: shorter ones are found in
// many a word, and hide nothing.
const tellable = 8

// Set makes values what the Hider knows from now on.
func (h *Hider) Set(values []string) {
	var all []string
	for _, v := range values {
		// "Bearer x" is also told without its scheme.
		for _, v := range append([]string{v}, strings.Fields(v)...) {
			if len(v) >= tellable {
				all = append(all, v)
			}
		}
	}
	// Of two that begin alike the longer is to be found.
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	var pairs []string
	for _, v := range slices.Compact(all) {
		pairs = append(pairs, v, Dots)
	}
	if len(pairs) == 0 {
		h.words.Store(nil)
		return
	}
	h.words.Store(strings.NewReplacer(pairs...))
}

// Known is a text without the secrets that the Hider was told of.
func (h *Hider) Known(text string) string {
	if words := h.words.Load(); words != nil {
		return words.Replace(text)
	}
	return text
}

// Hide is the text of an error without these, and without what looks like a
// credential.
func (h *Hider) Hide(text string) string { return Redact(h.Known(text)) }

// hints are parts of the texts that hold a credential, as far as Redact knows
// one, in small letters: each such text has one of them, in whatever case. The
// last two are letters that expressions without case take for k and s.
var hints = []string{"://", "bearer", "basic", "auth", "key", "token", "secret", "pass", "pwd", "credential", "cookie", "signature", "sig=",
	"jwt", "code=",
	"akia", "asia", "aiza", "eyj", "sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "github_pat_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "glpat-", "xox", "npm_", "hf_", "sg.", "\u212a", "\u017f"}

// hintsFrom are the hints by their first byte.
var hintsFrom = func() (from [256][]string) {
	for _, h := range hints {
		from[h[0]] = append(from[h[0]], h)
	}
	return from
}()

// hinted says whether a text has one of the hints. Most have none, and every
// line that is logged is looked at: an expression takes a hundred times as long.
func hinted(text string) bool {
	for i := range len(text) {
		for _, h := range hintsFrom[small(text[i])] {
			if begins(text[i:], h) {
				return true
			}
		}
	}
	return false
}

func begins(text, hint string) bool {
	if len(text) < len(hint) {
		return false
	}
	for i := range len(hint) {
		if small(text[i]) != hint[i] {
			return false
		}
	}
	return true
}

func small(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// ends is how a value ends that is not in quotes.
const ends = `\s"'\\&,;<>(){}\[\]`

// named are the names of values that nobody is to see, of which what comes
// before the last word does not matter.
const named = `[A-Za-z0-9_.-]*(?:api[_-]?key|access[_-]?key|private[_-]?key|account[_-]?key|secret|passw(?:or)?d|passphrase|pwd|credentials?|client[_-]?secret|(?:access|refresh|id|auth|session|bearer|api|csrf|security)[_-]?token)`

// forms are how credentials are written, each with what takes its place.
var forms = []struct {
	form *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`), Dots},
	// The user and password of an address.
	{regexp.MustCompile(`\b([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#"'<>\\]+@`), "${1}" + Dots + "@"},
	// Headers, with a scheme or without.
	{regexp.MustCompile(`(?i)\b((?:proxy-)?authorization["'\\]*\s*[:=]\s*["'\\\[]*)(?:(basic|bearer|digest|negotiate|token|apikey)\s+)?[^` + ends + `]{3,}`), "${1}${2} " + Dots},
	{regexp.MustCompile(`(?i)\b((?:set-)?cookie["'\\]*\s*[:=]\s*["'\\\[]*)[^\s"'\\\];]{3,}(?:; *[^\s"'\\\];]+)*`), "${1}" + Dots},
	{regexp.MustCompile(`\b([Bb]asic )[A-Za-z0-9+/_-]{8,}={1,2}`), "${1}" + Dots},
	// In quotes all of it, spaces too; where the quotes are escaped, up to the next.
	{regexp.MustCompile(`(?i)\b(` + named + `["']?\s*[:=]\s*")(?:[^"\\\n]|\\.)+`), "${1}" + Dots},
	{regexp.MustCompile(`(?i)\b(` + named + `["']?\s*[:=]\s*')(?:[^'\\\n]|\\.)+`), "${1}" + Dots},
	{regexp.MustCompile(`(?i)\b(` + named + `\\+["']\s*[:=]\s*\\+["'])[^"'\\]+`), "${1}" + Dots},
	// A passphrase has words, up to what ends a clause.
	{regexp.MustCompile(`(?i)\b([A-Za-z0-9_.-]*pass[_-]?phrase\s*[:=]\s*)[^"'\\,;<>(){}\[\]\n]{3,}`), "${1}" + Dots},
	// name=value, "name":"value", name: value.
	{regexp.MustCompile(`(?i)\b(` + named + `["'\\]*\s*[:=]\s*["'\\]*)[^` + ends + `]{3,}`), "${1}" + Dots},
	{regexp.MustCompile(`(?i)\b((?:[A-Za-z0-9_.-]*[_.-])?(?:token|key|auth|signature|sig|jwt|code)=["'\\]*)[^` + ends + `]{3,}`), "${1}" + Dots},
	{regexp.MustCompile(`(?i)(["'](?:token|key|auth|jwt)\\*["']\s*:\s*\\*["'])[^"'\\]{3,}`), "${1}" + Dots},
	// What is known by how it begins.
	{regexp.MustCompile(`\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{12,}`), Dots},
	{regexp.MustCompile(`\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{12,}|xox[abeprs]-[A-Za-z0-9-]{8,}|(?:AKIA|ASIA)[0-9A-Z]{12,}|AIza[0-9A-Za-z_-]{20,}|npm_[A-Za-z0-9]{16,}|hf_[A-Za-z0-9]{16,}|SG\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})`), Dots},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]*`), Dots},
}

// token is the word before a long value without spaces, with a digit in it.
var token = regexp.MustCompile(`(?i)\b(token["'\\:]*\s+["'\\]*)([A-Za-z0-9_~+/=-][A-Za-z0-9._~+/=-]{11,})`)

var bearer = regexp.MustCompile(`(?i)\b(bearer["'\\:]*\s+)([A-Za-z0-9._~+/=-]{4,})`)

// words are what follows "bearer" in sentences.
var words = []string{"token", "tokens", "auth", "authentication", "authorization", "scheme", "header", "headers", "realm", "credential", "credentials", "challenge",
	"error", "required", "missing", "invalid", "expired", "with", "from", "must", "that", "this", "only", "needs"}

// Redact is a text without what looks like a credential: the user and password
// of an address, the values of headers, parameters and members by whose names
// such things go, and keys that are known by how they begin.
func Redact(text string) string {
	if !hinted(text) {
		return text
	}
	for _, f := range forms {
		text = f.form.ReplaceAllString(text, f.with)
	}
	text = token.ReplaceAllStringFunc(text, func(found string) string {
		m := token.FindStringSubmatch(found)
		if !strings.ContainsAny(m[2], "0123456789") && (len(m[2]) < 24 || strings.ContainsAny(m[2], "-./")) {
			return found
		}
		return m[1] + Dots
	})
	return bearer.ReplaceAllStringFunc(text, func(found string) string {
		m := bearer.FindStringSubmatch(found)
		if slices.Contains(words, strings.ToLower(strings.TrimRight(m[2], "."))) {
			return found
		}
		return m[1] + Dots
	})
}
