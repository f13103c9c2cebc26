package cli

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// The test binary is four programs: the tests, the peers that they start as
// servers, the stores of hubs, and stoa itself.
func TestMain(m *testing.M) {
	storetest.Child()
	peer.Main()
	storetest.Child()
	testscript.Main(watched{m}, map[string]func(){"stoa": func() { os.Exit(Main(os.Args)) }})
}

// watched also fails if a test leaves a goroutine behind.
type watched struct{ m *testing.M }

func (w watched) Run() int {
	code := w.m.Run()
	if builtFolder != "" {
		os.RemoveAll(builtFolder)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}
