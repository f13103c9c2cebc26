package hub_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest"
)

// Every code that the book can have is explained, to everybody with a token.
func TestErrorKinds(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	a := tokenFor(t, c.hub, "other", "*").do("GET", "/api/v1/errors/kinds", "")
	if a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	type kind struct {
		Code, Meaning, Hint, Name string
		Number, HTTP, ModernHTTP  int
		Retryable                 bool
	}
	all := hubtest.Decode[struct{ Kinds []kind }]([]byte(a.Body)).Kinds
	find := func(code string) kind {
		at := slices.IndexFunc(all, func(k kind) bool { return k.Code == code })
		if at < 0 {
			t.Fatalf("there is no %s in %s", code, a.Body)
		}
		return all[at]
	}
	for _, i := range fault.Kinds() {
		if k := find(strings.ToUpper(i.Name)); k.Name != i.Name || k.Number != int(i.Kind) || k.Meaning != i.Meaning || k.Hint != i.Hint || k.Retryable != i.Retryable || k.HTTP != i.HTTP || k.ModernHTTP != i.ModernOwn {
			t.Errorf("%s: %+v", i.Name, k)
		}
	}
	for _, code := range []string{"TOOL_ERROR", "UPSTREAM_FAILED", "UPSTREAM_HEALTH", "MODULE_FAILED", "MODEL_FAILED", "PANIC", "DEGRADED", "OTHER"} {
		if k := find(code); k.Meaning == "" || k.Hint == "" || k.Name != "" {
			t.Errorf("%s: %+v", code, k)
		}
	}
	if a := c.do("GET", "/api/v1/errors/kinds?x=1", ""); a.Status != http.StatusBadRequest {
		t.Errorf("a query that means nothing: %d %s", a.Status, a.Body)
	}
}
