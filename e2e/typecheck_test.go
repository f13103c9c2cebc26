package e2e

import (
	"path/filepath"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
)

// TestBrowserTypes has the TypeScript compiler check, in strict mode, what the comments in the browser's scripts say of
// their types.
func TestBrowserTypes(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	for _, project := range []string{"web", "web/tsconfig.console.json", "examples/browser"} {
		t.Run(project, func(t *testing.T) {
			path, err := filepath.Abs(filepath.Join(repository, project))
			if err != nil {
				t.Fatal(err)
			}
			if r := set.run(t, nil, set.bin("tsc"), "-p", path); r.code != 0 {
				t.Errorf("tsc: %v", r)
			}
		})
	}
}
