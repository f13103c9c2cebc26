package blackbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/store/storetest"
)

// repository is the module's root as seen from the folder of this package.
const repository = "../.."

func TestMain(m *testing.M) {
	storetest.Child()
	if os.Getenv(ledgerVariable) != "" {
		os.Exit(serveStdio())
	}
	if asked := os.Getenv(otherVariable); asked != "" {
		os.Exit(askAsOther(asked))
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if dir, err := artefacts(); err == nil {
			os.RemoveAll(dir)
		}
		os.Exit(code)
	}))
}

var artefacts = sync.OnceValues(func() (string, error) {
	return os.MkdirTemp("", "stoa-blackbox-")
})

// binary is the program under test.
var binary = sync.OnceValues(func() (string, error) {
	if named := os.Getenv("STOA_BIN"); named != "" {
		return filepath.Abs(named)
	}
	dir, err := artefacts()
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "stoa")
	cmd := exec.Command("go", "build", "-trimpath", "-o", out, ".")
	cmd.Dir, cmd.Env = repository, append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, said)
	}
	return out, nil
})

func stoa(t testing.TB) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
