package spell

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNearest(t *testing.T) {
	words := []string{"command", "args", "timeoutMs", "maxTimeoutMs", "url", "env", "read_file", "write_file"}
	for _, tt := range []struct{ word, want string }{
		{"comand", "command"},
		{"cmomand", "command"}, // two neighbours swapped are one mistake
		{"timeout_ms", "timeoutMs"},
		{"TIMEOUTMS", "timeoutMs"},
		{"read-file", "read_file"},
		{"rite_file", "write_file"},
		{"env", ""}, // it is a known word itself
		{"ur", "url"},
		{"xyz", ""},
		{"", ""},
		{strings.Repeat("command", 20), ""},
	} {
		if got := Nearest(tt.word, words); got != tt.want {
			t.Errorf("Nearest(%q) = %q, want %q", tt.word, got, tt.want)
		}
	}
}

func TestNearOrdersByDistance(t *testing.T) {
	got := Near("echo", []string{"techno", "eco", "echos", "far", "Echo"}, 2)
	if diff := cmp.Diff([]string{"Echo", "eco"}, got); diff != "" {
		t.Error(diff)
	}
}
