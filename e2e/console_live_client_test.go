package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stoahub/stoa/internal/hubtest"
)

// TestConsoleLiveClient has a client of the official SDK come, say what needs no server, and go; each of its messages is
// seen as it happens, with what the hub said to it.
func TestConsoleLiveClient(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	chromium(t)
	h, _ := liveHub(t, set)
	c := openConsole(t, h, "live?type=call")
	c.until(t, `document.querySelector('.dot.open')`)
	ctx, cancel := context.WithTimeout(t.Context(), listDeadline)
	defer cancel()
	rt := &http.Transport{}
	defer rt.CloseIdleConnections()
	client := mcp.NewClient(&mcp.Implementation{Name: "seen client", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: h.merged(), HTTPClient: &http.Client{Transport: rt}}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if err := session.Ping(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if err := session.Subscribe(ctx, &mcp.SubscribeParams{URI: "demo://resource/static/document/features.md"}); err != nil {
		t.Logf("subscribe: %v", err) // it is told of either way
	}
	if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "shop__none"}); err == nil {
		t.Error("a tool that is not there answered")
	}
	for _, row := range []string{"call.answered initialize", "call.heard notifications/initialized", "call.answered ping", "call.answered resources/subscribe", "call.answered shop__none unknown_tool"} {
		parts := strings.Fields(row)
		for i, p := range parts {
			parts[i] = `l.includes('` + p + `')`
		}
		c.until(t, liveRows+`.some((l) => `+strings.Join(parts, ` && `)+`)`)
	}
	c.choose(t, by("live-tool"), "initialize")
	c.until(t, liveRows+`.length === 1`)
	c.click(t, by("live")+" summary")
	if asked, said := c.shownRaw(t, by("live"), "asked"), c.shownRaw(t, by("live"), "result"); !strings.Contains(asked, "seen client") || !strings.Contains(said, `"serverInfo"`) {
		t.Errorf("the handshake is shown as %s and %s", asked, said)
	}
	c.until(t, `document.querySelector('[data-testid=said-asked] h3').textContent.includes('What the client sent') && document.querySelector('[data-testid=said-result] h3').textContent.includes('The hub answered')`)
	c.choose(t, by("live-tool"), "")
	c.screens(t, "live-client")
}
