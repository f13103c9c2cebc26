package cli

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// What went wrong is shown whole, on as many lines as it takes.
func TestWrapped(t *testing.T) {
	long := strings.Repeat("one two three ", 20) + strings.Repeat("x", 100) + " the cause"
	got := wrap(long, 40, 2)
	for i, line := range strings.Split(got, "\n") {
		if utf8.RuneCountInString(line) > 40 || i > 0 && !strings.HasPrefix(line, "  ") {
			t.Errorf("line %d: %q", i, line)
		}
	}
	if strings.Join(strings.Fields(got), "") != strings.Join(strings.Fields(long), "") {
		t.Errorf("something is missing: %q", got)
	}
	if got := wrap(strings.Repeat("y", maxWrapped+7), 40, 2); !strings.Contains(got, "7 characters") {
		t.Errorf("a text without end does not say what is left out: %q", got[len(got)-80:])
	}
}
