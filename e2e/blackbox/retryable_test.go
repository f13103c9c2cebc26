package blackbox

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// B6: retryable means that repeating a call does no harm.

func TestCallThatOnlyWaitedIsRetryable(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	files["queue"] = object{"concurrency": 1, "timeoutMs": 300}
	h := serve(t, object{"files": files})
	gate := filepath.Join(t.TempDir(), "gate")
	t.Cleanup(func() { _ = os.WriteFile(gate, nil, 0o600) })
	press := rpc("tools/call", object{"name": "files__press", "arguments": object{"path": gate}})
	first := h.background(http.MethodPost, "/mcp", h.owner, press)
	await.Until(t, "a call is at work", func() bool { return l.count(t, "press") == 1 })
	got := h.post(t, "/mcp", h.owner, press)
	var answer struct {
		Error struct {
			Data struct {
				Kind, Hint string
				Retryable  bool
			}
		}
	}
	if err := json.Unmarshal([]byte(got.text), &answer); err != nil || !answer.Error.Data.Retryable {
		t.Errorf("a call that only waited in the queue is not said to be retryable: %v %s", err, clip(got.text))
	}
	mentions(t, "what to do about it", answer.Error.Data.Hint, "queue")
	l.want(t, "press", 1)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mentions(t, "the call before it", (<-first).text, "it is there")
}

// Whoever cuts a call cannot know whether it took effect, and is not told to
// repeat it.
func TestCancelledCallIsNotSaidToBeHarmless(t *testing.T) {
	t.Parallel()
	h := serve(t, object{})
	var kinds struct {
		Kinds []struct {
			Name, Hint string
			Retryable  bool
		}
	}
	got := h.get(t, "/api/v1/errors/kinds", h.owner)
	if err := json.Unmarshal([]byte(got.text), &kinds); err != nil {
		t.Fatalf("%v: %s", err, clip(got.text))
	}
	found := false
	for _, k := range kinds.Kinds {
		if k.Name != "cancelled" {
			continue
		}
		found = true
		if k.Retryable {
			t.Error("a call that was cancelled is said to be retryable, whatever it has done")
		}
		lacks(t, "what to do about it", k.Hint, "Call again")
	}
	if !found {
		t.Errorf("nothing is said of cancelled calls: %s", clip(got.text))
	}
}
