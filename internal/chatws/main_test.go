package chatws

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/hubtest/peer"
)

func TestMain(m *testing.M) {
	peer.Main()
	goleak.VerifyTestMain(m)
}
