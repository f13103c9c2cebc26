package exchange

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/secret"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tc := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "2", 2 * time.Second},
		{"Retry-After", "0.5", 500 * time.Millisecond},
		{"Retry-After-Ms", "30.5", 30500 * time.Microsecond},
		{"Retry-After", "Fri, 02 Jan 2026 03:04:35 GMT", 30 * time.Second},
		{"Retry-After", "Fri, 02 Jan 2026 03:04:00 GMT", 0},
		{"Retry-After", "soon", 0},
		{"Retry-After", "-1", 0},
		{"Retry-After", "1e300", 0},
		{"Retry-After", "NaN", 0},
		{"Retry-After-Ms", "NaN", 0},
		{"Retry-After-Ms", "1e300", 0},
		{"Other", "1", 0},
	} {
		if got := RetryAfter(http.Header{tc.name: {tc.value}}, now); got != tc.want {
			t.Errorf("%s: %s: %s, want %s", tc.name, tc.value, got, tc.want)
		}
	}
}

func TestByStatus(t *testing.T) {
	for status, want := range map[int]llm.Cause{400: llm.BadRequest, 401: llm.Auth, 402: llm.Quota, 403: llm.Auth, 404: llm.NotFound, 408: llm.TimedOut, 413: llm.ContextTooLong, 422: llm.BadRequest, 429: llm.RateLimited, 500: llm.Overloaded, 503: llm.Overloaded, 529: llm.Overloaded} {
		if got := Failed(status, "words").Cause; got != want {
			t.Errorf("%d: %s, want %s", status, got, want)
		}
	}
}

// What a provider says of a request that it does not allow is told, without what
// it quotes of the key.
func TestRefusalOfAKey(t *testing.T) {
	c := New("p", llm.Options{APIKey: secret.New("proj-4uKsbNqQv7Zr0a1b2c3d")})
	for _, tc := range []struct {
		status     int
		said, want string
	}{
		{401, "Incorrect API key provided: proj-4uK*************2c3d.", "p: the provider does not accept the key (HTTP 401): Incorrect API key provided: •••.; check"},
		{401, "no key proj-4uKsbNqQ… here, it ends in 2c3d", "p: the provider does not accept the key (HTTP 401): no key •••… here, it ends in •••; check"},
		{403, "Country, region, or territory not supported", "p: the provider does not allow the request (HTTP 403): Country, region, or territory not supported; check"},
	} {
		e := Failed(tc.status, tc.said)
		e.Provider, e.Status, e.Detail = "p", tc.status, c.clean(e.Detail)
		if got := e.Error(); e.Cause != llm.Auth || !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s", got)
		}
	}
}

func TestWords(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"message":"a"}}`:   "a",
		`{"error":"b"}`:               "b",
		`{"message":"c"}`:             "c",
		`{"detail":"d"}`:              "d",
		`{"detail":[{"msg":"e"}]}`:    "",
		`plain text`:                  "plain text",
		``:                            "",
		`{}`:                          "",
		`<!doctype html><p>proxy</p>`: "the answer is a web page: is something else at this address?",
	} {
		if got := Words([]byte(body)); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

func TestClean(t *testing.T) {
	c := New("p", llm.Options{APIKey: secret.New("sesame")})
	if got := c.clean("a\n  sesame\x00\xff " + string(make([]byte, 0))); got != "a •••\x00\ufffd" {
		t.Errorf("%q", got)
	}
	long := make([]byte, 2*maxDetail)
	for i := range long {
		long[i] = "ü"[i%2]
	}
	if got := c.clean(string(long)); len(got) > maxDetail+100 || !strings.HasSuffix(got, "of 16384 bytes that the provider said)") {
		t.Errorf("%d bytes: %s", len(got), got[len(got)-100:])
	}
	// Explanations come whole.
	if said := strings.Repeat("the schema is wrong; ", 300) + "the end"; c.clean(said) != said {
		t.Errorf("%d bytes are cut to %d", len(said), len(c.clean(said)))
	}
}
