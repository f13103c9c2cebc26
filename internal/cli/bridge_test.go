package cli

import (
	"net"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stoahub/stoa/internal/hubtest/wsagent"
)

// wsagents NAME=SCRIPT… serves WebSocket agents by the scripts in those files,
// puts their address into $AGENTS, and one where nobody listens into $NOBODY.
func cmdAgents(ts *testscript.TestScript, neg bool, args []string) {
	scripts := map[string]string{}
	for _, arg := range args {
		name, file, ok := strings.Cut(arg, "=")
		if !ok || neg {
			ts.Fatalf("usage: wsagents name=script ...")
		}
		scripts[name] = ts.ReadFile(file)
	}
	s := wsagent.Start(scripts, false)
	ts.Defer(s.Close)
	ts.Setenv("AGENTS", s.URL)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv("NOBODY", "ws://"+ln.Addr().String())
	ts.Check(ln.Close())
}

func TestDebugged(t *testing.T) {
	for patterns, want := range map[string]bool{
		"": false, "ailumina:*": true, "*": true, "ailumina:bridge": true, "ailumina": false, "express:*": false,
		"express:*,ailumina:*": true, "express ailumina:b*": true, "*,-ailumina:*": false, "-ailumina:*,*": false, "[": false,
	} {
		if got := debugged(patterns, "ailumina:bridge"); got != want {
			t.Errorf("DEBUG=%s: %t", patterns, got)
		}
	}
}
