package agentd_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/agentd"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/secret"
)

// An agent makes itself known, is known again to a hub that forgot it, and is
// gone when it stops.
func TestRegister(t *testing.T) {
	manifest := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(manifest, []byte("agent: 1\nname: worker\ntools:\n  hello:\n    description: Says hello.\n    command: [echo, hello]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := agentd.Open(agentd.Options{Manifest: manifest})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := hubtest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	served, registered := make(chan error, 1), make(chan error, 1)
	go func() { served <- a.Serve(ctx, ln, secret.New("")) }()
	reg := agentd.Registration{Hub: h.URL + "/", Token: secret.New(h.Token), URL: "http://" + ln.Addr().String() + "/mcp", Lease: 3 * time.Second}
	go func() { registered <- a.Register(ctx, reg) }()
	known := func() bool { status, _ := h.Get("/mcps/worker"); return status == http.StatusOK }
	await.Until(t, "the agent is known", known)
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Modern, Face: "/mcps/worker/mcp"})
	if m := c.Tool("hello", "{}"); strings.TrimSpace(m.Text()) != "hello" {
		t.Errorf("a call: %s", m.Raw)
	}
	// Longer than its lease.
	<-time.After(4 * time.Second)
	if !known() {
		t.Error("it is gone though it renews its lease")
	}
	cancel()
	if err := <-registered; err != nil {
		t.Errorf("registering ended with %v", err)
	}
	if err := <-served; err != nil {
		t.Errorf("serving ended with %v", err)
	}
	await.Until(t, "it is gone", func() bool { return !known() })

	reg.Token = secret.New("wrong")
	if err := a.Register(t.Context(), reg); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("with a wrong token: %v", err)
	}
}
