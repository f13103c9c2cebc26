package exchange

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/secret"
)

// maxDetail is how much of a provider's words is passed on. Its explanations are
// shorter by far; pages of proxies are not.
const maxDetail = 8 << 10

// clean bounds the provider's words and takes the key out of them.
func (c *Client) clean(s string) string {
	if key := c.o.APIKey.Reveal(); key != "" {
		s = strings.ReplaceAll(s, key, secret.Dots)
		s = word.ReplaceAllStringFunc(s, func(w string) string { return withoutPart(w, key) })
	}
	s = secret.Redact(masked.ReplaceAllString(s, secret.Dots))
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "\ufffd")
	if all := len(s); all > maxDetail {
		s = strings.ToValidUTF8(s[:maxDetail], "") + fmt.Sprintf("… (the first %d of %d bytes that the provider said)", maxDetail, all)
	}
	return s
}

// Those who refuse a key often quote it in part: "sk-ab***wxyz", "…wxyz".
var (
	masked = regexp.MustCompile(`[\w-]*(?:\*{2,}|•{2,}|[xX]{4,})[\w*•-]*`)
	word   = regexp.MustCompile(`[\w-]{4,}`)
)

// withoutPart is a word of a message, or dots if it is how a key begins or ends,
// or holds more of it than chance explains.
func withoutPart(w, key string) string {
	const telling = 8
	if len(key) >= telling && (strings.HasPrefix(key, w) || strings.HasSuffix(key, w)) {
		return secret.Dots
	}
	for i := 0; i+telling <= len(key); i++ {
		if strings.Contains(w, key[i:i+telling]) {
			return secret.Dots
		}
	}
	return w
}

// RetryAfter reads how long a provider wants us to wait: milliseconds, seconds
// or a date. It is 0 if that is not told.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}

// ByStatus says what an HTTP status means where the body says nothing more.
func ByStatus(status int) llm.Cause {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return llm.Auth
	case status == http.StatusPaymentRequired:
		return llm.Quota
	case status == http.StatusNotFound:
		return llm.NotFound
	case status == http.StatusRequestTimeout:
		return llm.TimedOut
	case status == http.StatusRequestEntityTooLarge:
		return llm.ContextTooLong
	case status == http.StatusTooManyRequests:
		return llm.RateLimited
	case status >= 500:
		return llm.Overloaded
	}
	return llm.BadRequest
}

// Words finds the message in an error body of any provider: error.message,
// error, message or detail. Of what is no JSON, like a proxy's page, nothing
// is told but its beginning.
func Words(body []byte) string {
	var b struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &b) != nil {
		s := strings.TrimSpace(string(body))
		if strings.HasPrefix(s, "<") {
			return "the answer is a web page: is something else at this address?"
		}
		return s
	}
	for _, raw := range []json.RawMessage{b.Error, b.Detail} {
		var s string
		var o struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(raw, &s) == nil && s != "" {
			return s
		}
		if json.Unmarshal(raw, &o) == nil && o.Message != "" {
			return o.Message
		}
	}
	return b.Message
}

// TooLong reports whether a message says that the context does not fit, in the
// words of any provider.
func TooLong(words string) bool {
	words = strings.ToLower(words)
	for _, w := range []string{"context length", "context_length", "context window", "prompt is too long", "input token count", "exceeds the maximum number of tokens", "maximum context", "too many tokens", "exceed_context_size", "exceeds the context", "maximum context length"} {
		if strings.Contains(words, w) {
			return true
		}
	}
	return false
}

// Failed makes an error of a status and a body.
func Failed(status int, words string) *llm.Error {
	e := &llm.Error{Cause: ByStatus(status), Detail: words}
	if status >= 400 && status < 500 && TooLong(words) {
		e.Cause = llm.ContextTooLong
	}
	return e
}
