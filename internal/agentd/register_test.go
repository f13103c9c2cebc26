package agentd_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
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
	hub, renewals := counted(t, h.URL)
	reg := agentd.Registration{Hub: hub + "/", Token: secret.New(h.Token), URL: "http://" + ln.Addr().String() + "/mcp", Lease: 6 * time.Second}
	go func() { registered <- a.Register(ctx, reg) }()
	known := func() bool { status, _ := h.Get("/mcps/worker"); return status == http.StatusOK }
	await.Until(t, "the agent is known", known)
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Modern, Face: "/mcps/worker/mcp"})
	if m := c.Tool("hello", "{}"); strings.TrimSpace(m.Text()) != "hello" {
		t.Errorf("a call: %s", m.Raw)
	}
	await.Until(t, "it has renewed its lease twice", func() bool { return renewals.Load() >= 2 })
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

// counted is the way to a hub that counts how often it renewed a lease.
func counted(t *testing.T, hub string) (address string, renewals *atomic.Int32) {
	t.Helper()
	to, err := url.Parse(hub)
	if err != nil {
		t.Fatal(err)
	}
	renewals = &atomic.Int32{}
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, ModifyResponse: func(r *http.Response) error {
		if r.Request.Method == http.MethodPut && r.StatusCode < 300 {
			renewals.Add(1)
		}
		return nil
	}}
	srv := httptest.NewServer(proxy)
	t.Cleanup(transport.CloseIdleConnections)
	t.Cleanup(srv.Close)
	return srv.URL, renewals
}
