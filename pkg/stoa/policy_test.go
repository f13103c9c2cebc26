package stoa_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/pkg/stoa"
)

// The policy of a config file holds for the program that embeds the hub: what it
// may call, what nobody is there to allow, and what is not there for it.
func TestPolicyOfAConfigFile(t *testing.T) {
	command, args, env := peer.Command(peer.Spec{Tools: []peer.Tool{{Name: "echo"}, {Name: "banned"}, {Name: "filtered"}}})
	var b strings.Builder
	fmt.Fprintf(&b, "stoa: 1\nservers:\n  app:\n    command: %q\n    args: [", command)
	for _, a := range args {
		fmt.Fprintf(&b, "%q, ", a)
	}
	b.WriteString("]\n    tools: {deny: [filtered]}\n    env:\n")
	for name, value := range env {
		t.Setenv(name, value)
		fmt.Fprintf(&b, "      %s: \"${%s}\"\n", name, name)
	}
	b.WriteString(`policy:
  rules:
    - {tools: "app:echo", args: {text: gated}, action: ask, reason: it is gated}
    - {tools: "app:echo", args: {text: secret}, action: deny, reason: not that}
    - {tools: "app:banned", action: deny}
`)
	path := filepath.Join(t.TempDir(), "stoa.yaml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := stoa.LoadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	c.AutoDiscover = true
	h := open(t, c)
	for call, want := range map[[2]string]string{
		{"echo", "hello"}: "", {"echo", "gated"}: "approval_required", {"echo", "secret"}: "denied", {"banned", "hello"}: "unknown_tool", {"filtered", "hello"}: "unknown_tool",
	} {
		r, err := h.CallTool(t.Context(), "app", call[0], map[string]any{"text": call[1]})
		switch {
		case want == "" && (err != nil || !strings.Contains(string(r.Raw), "hello")), want != "" && kind(err) != want:
			t.Errorf("%v: %v, want %q", call, err, want)
		}
	}
}
