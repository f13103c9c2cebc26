package llm

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Cause says why a model gave no answer, or not all of it.
type Cause string

// The closed list of causes.
const (
	RateLimited    Cause = "rate_limited"
	Quota          Cause = "quota" // paid or free allowance used up: waiting does not help
	Auth           Cause = "auth"
	ContextTooLong Cause = "context_too_long"
	Overloaded     Cause = "overloaded"
	Blocked        Cause = "blocked"
	NotFound       Cause = "not_found"
	BadRequest     Cause = "bad_request"
	BadAnswer      Cause = "bad_answer" // not as the protocol says, or empty
	Network        Cause = "network"
	TimedOut       Cause = "timeout"
	Cancelled      Cause = "cancelled"
	Unset          Cause = "unset" // a key or a name is missing: nobody was asked
)

// words are what people are told of a cause, what they can do, and whether the
// same request may succeed later.
type words struct {
	text, hint string
	again      bool
}

// forbidden are the words for HTTP 403: the key may be known, and the model, the
// region or the account be what is not allowed.
var forbidden = words{"the provider does not allow the request", "check what the key and its account may use", false}

// causes holds the words for each cause.
var causes = map[Cause]words{
	RateLimited:    {"the provider takes no more requests for now", "wait, or use another model", true},
	Quota:          {"the allowance of this key is used up", "see the plan and billing of the key's account, or use another key", false},
	Auth:           {"the provider does not accept the key", "check the key and what it may be used for", false},
	ContextTooLong: {"the conversation is longer than the model can take", "shorten it, offer fewer tools, or use a model with a larger window", false},
	Overloaded:     {"the provider is overloaded or out of order", "try again in a moment", true},
	Blocked:        {"the provider withheld the answer for its safety rules", "ask in other words", false},
	NotFound:       {"the provider has no such model", "check the name of the model and the base URL", false},
	BadRequest:     {"the provider refused the request", "see its message; the model may lack something that was asked of it", false},
	BadAnswer:      {"the answer of the provider makes no sense", "try again, or use another model", true},
	Network:        {"the provider could not be reached or broke off", "check the network and the base URL", true},
	TimedOut:       {"the provider was silent for too long", "try again, or raise timeoutMs", true},
	Cancelled:      {"the request was cancelled", "", false},
	Unset:          {"the model cannot be asked yet", "", false},
}

// Error is why there is no answer. It never holds a key.
type Error struct {
	Cause    Cause
	Provider string
	Model    string
	Status   int           // of HTTP, if there was an answer
	Attempts int           // how often it was tried
	Wait     time.Duration // what the provider asked for; 0 if nothing
	Usage    Usage         // of all attempts, as far as the provider told
	Detail   string        // the provider's own words, bounded
	Err      error         // for errors.Is; its text is not shown
}

// Error says it to a person: who, why, in whose words, and what to do.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Provider)
	if e.Model != "" {
		b.WriteString(" " + e.Model)
	}
	what := causes[e.Cause]
	if e.Cause == Auth && e.Status == http.StatusForbidden {
		what = forbidden
	}
	b.WriteString(": " + what.text)
	if e.Status != 0 {
		fmt.Fprintf(&b, " (HTTP %d)", e.Status)
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	if e.Attempts > 1 {
		fmt.Fprintf(&b, "; tried %d times", e.Attempts)
	}
	if e.Wait > 0 {
		fmt.Fprintf(&b, "; it asks to wait %s", e.Wait.Round(time.Millisecond))
	}
	if h := what.hint; h != "" {
		b.WriteString("; " + h)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether the same request may succeed later.
func (e *Error) Retryable() bool { return causes[e.Cause].again }

// Known reports whether c is in the list of causes.
func (c Cause) Known() bool {
	_, ok := causes[c]
	return ok
}
