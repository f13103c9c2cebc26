package hub_test

import (
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
)

// The depth of the config holds for what clients send.
func TestDepthIsBoundedByTheConfig(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Config(func(c *config.Config) { c.Limits.Depth = 20 }))
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Face: "/mcp"})
	nested := func(n int) string {
		return `{"x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	if m := c.Call("tools/list", nested(18)); m.Error != nil {
		t.Errorf("20 levels: %s", m.Error)
	}
	if m := c.Call("tools/list", nested(19)); m.Fault().Data.Kind != "parse" {
		t.Errorf("21 levels: %s", m.Raw)
	}
}
