package agentclient_test

import (
	"net/http"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/pkg/agentclient"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	peer.Main()
	goleak.VerifyTestMain(m)
}

// open returns a client of a router that leaves no connection behind.
func open(t *testing.T, opt agentclient.Options) *agentclient.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	opt.HTTPClient = &http.Client{Transport: transport}
	c, err := agentclient.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
