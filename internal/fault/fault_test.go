package fault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTable(t *testing.T) {
	names, numbers := map[string]bool{}, map[Kind]bool{}
	last := Kind(0)
	for _, i := range Kinds() {
		if names[i.Name] || numbers[i.Kind] || i.Kind <= last {
			t.Errorf("%s (%d) is there twice or out of order", i.Name, i.Kind)
		}
		names[i.Name], numbers[i.Kind], last = true, true, i.Kind
		if !regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`).MatchString(i.Name) {
			t.Errorf("%q is no name", i.Name)
		}
		checkCode(t, i.Name, i.Legacy)
		checkCode(t, i.Name, i.Modern)
		if i.Modern == -32002 || i.Modern == -32042 {
			t.Errorf("%s: modern servers must not send %d", i.Name, i.Modern)
		}
		for _, status := range []int{i.HTTP, i.ModernOwn} {
			if status != 0 && http.StatusText(status) == "" {
				t.Errorf("%s: %d is no HTTP status", i.Name, status)
			}
		}
		for _, text := range []string{i.Meaning, i.Hint} {
			if !strings.HasSuffix(text, ".") || strings.ContainsAny(text, "|\n") {
				t.Errorf("%s: %q is no sentence for a table", i.Name, text)
			}
		}
		if i.Kind.Info().Name != i.Name || i.Kind.String() != i.Name {
			t.Errorf("%d leads to %s", i.Kind, i.Kind)
		}
	}
	if Kind(0).Info().Kind != Internal || Kind(999).String() != "internal" {
		t.Error("an unknown kind must be internal")
	}
}

// checkCode holds codes to the ranges that JSON-RPC and MCP leave us.
func checkCode(t *testing.T, name string, code int) {
	t.Helper()
	switch {
	case code == -32700, code <= -32600 && code >= -32603: // JSON-RPC's own
	case code == -32020, code == -32021, code == -32022: // MCP's own, with MCP's meaning
		want := map[int]string{-32020: "header_mismatch", -32021: "missing_capability", -32022: "bad_version"}[code]
		if name != want {
			t.Errorf("%s uses %d, which is %s", name, code, want)
		}
	case code <= -32000 && code >= -32019: // what servers always could use
	case code < -32768 || code > -32000: // outside all that is reserved
	default:
		t.Errorf("%s: code %d is reserved", name, code)
	}
}

func TestWire(t *testing.T) {
	cause := errors.New("secret cause")
	e := New(QueueFull, "github", "%d calls wait already", 5).With("capacity", 5).Because(cause)
	for modern, code := range map[bool]int{false: -32002, true: -31002} {
		var got map[string]any
		if err := json.Unmarshal(e.Wire(modern), &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"code": float64(code), "message": "github: 5 calls wait already",
			"data": map[string]any{"kind": "queue_full", "hint": "Call again later.", "retryable": true, "capacity": 5.0}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	if bytes.Contains(e.Wire(true), []byte("secret")) || !strings.Contains(e.Error(), "secret") || !errors.Is(e, cause) {
		t.Error("the cause is for the log only")
	}
	odd := New(Internal, "", "x").With("f", func() {})
	if !json.Valid(odd.Wire(true)) {
		t.Errorf("what cannot be encoded: %s", odd.Wire(true))
	}
	own := &Error{Kind: Limit, Msg: "m", Hint: "Do this."}
	if own.Advice() != "Do this." || own.Text() != "m" {
		t.Errorf("%q, %q", own.Advice(), own.Text())
	}
}

func TestOf(t *testing.T) {
	known := New(Denied, "x", "no")
	for name, tc := range map[string]struct {
		err  error
		want Kind
	}{
		"itself":    {known, Denied},
		"wrapped":   {fmt.Errorf("call: %w", known), Denied},
		"joined":    {errors.Join(errors.New("a"), known), Denied},
		"foreign":   {errors.New("boom"), Internal},
		"cancelled": {fmt.Errorf("call: %w", context.Canceled), Cancelled},
		"late":      {context.DeadlineExceeded, Timeout},
	} {
		f := Of(tc.err)
		if f.Kind != tc.want || Is(tc.err, f.Kind) != (f == known) {
			t.Errorf("%s: %v", name, f.Kind)
		}
		if tc.want == Internal && strings.Contains(f.Text(), "boom") {
			t.Errorf("%s: a foreign text is shown: %q", name, f.Text())
		}
	}
	if Of(nil) != nil {
		t.Error("no error is a fault")
	}
}

func TestStatus(t *testing.T) {
	for k, want := range map[Kind][2]int{UnknownMethod: {200, 404}, UnknownTool: {200, 400}, Parse: {400, 400}, UnknownSession: {404, 404}, Timeout: {200, 200}} {
		e := New(k, "", "x")
		if got := [2]int{e.Status(false), e.Status(true)}; got != want {
			t.Errorf("%s: %v, want %v", k, got, want)
		}
	}
}
