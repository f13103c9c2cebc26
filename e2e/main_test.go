package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/store/storetest"
	"go.uber.org/goleak"
)

// The fixture is a tool of go.mod, so that go.sum covers it in a clean clone, and with it the client beside it.
const (
	fixturePackage = "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"
	clientPackage  = "github.com/modelcontextprotocol/go-sdk/conformance/everything-client"
)

func TestMain(m *testing.M) {
	peer.Main()
	storetest.Child()
	if config := os.Getenv(relayVariable); config != "" {
		os.Exit(relayed(config, os.Args))
	}
	hubtest.AtOnce(3)
	goleak.VerifyTestMain(andBrowser{m}, goleak.Cleanup(func(code int) {
		if dir, err := artefacts(); err == nil {
			os.RemoveAll(dir)
		}
		os.Exit(code)
	}))
}

// andBrowser runs the tests and then ends their browser, before it is looked what they have left.
type andBrowser struct{ *testing.M }

func (m andBrowser) Run() int {
	code := m.M.Run()
	if theBrowser == nil {
		return code
	}
	if err := theBrowser.end(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// artefacts is the folder of what is built once per run.
var artefacts = sync.OnceValues(func() (string, error) {
	return os.MkdirTemp("", "stoa-e2e-")
})

// builtStoa has the race detector only in the long form: it doubles what a hub costs, and in-process tests have it always.
var builtStoa = sync.OnceValues(func() (string, error) {
	if raceEnabled && os.Getenv("STOA_SOAK") != "" {
		return build("stoa", ".", "-race")
	}
	return build("stoa", ".")
})

var builtFixture = sync.OnceValues(func() (string, error) {
	return build("everything-server", fixturePackage)
})

var builtClient = sync.OnceValues(func() (string, error) {
	return build("everything-client", clientPackage)
})

func build(name, pkg string, flags ...string) (string, error) {
	dir, err := artefacts()
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, name)
	// As everything else that tests build, and as the product: one build for all. The race detector needs C.
	args := append([]string{"build", "-trimpath", "-o", out}, flags...)
	cmd := exec.Command("go", append(args, pkg)...)
	cmd.Dir = repository
	if !slices.Contains(flags, "-race") {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, said)
	}
	return out, nil
}

// repository is the module's root as seen from the folder that go test runs this package in.
const repository = ".."

func stoaBinary(t testing.TB) string {
	t.Helper()
	path, err := builtStoa()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func fixtureBinary(t *testing.T) string {
	t.Helper()
	path, err := builtFixture()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func clientBinary(t *testing.T) string {
	t.Helper()
	path, err := builtClient()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
