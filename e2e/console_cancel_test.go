package e2e

import (
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
)

// TestConsoleCancelsCall cancels a call of another client on the page Live.
func TestConsoleCancelsCall(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	chromium(t)
	up, h, _ := consoleTools(t, set)
	c := openConsole(t, h, "live")
	said := c.shopCall(t, "shop__slow")
	c.click(t, by("cancel-slow"))
	await.Until(t, "the tool was told", func() bool { return len(up.State().Cancelled) == 1 })
	if got := <-said; !strings.HasPrefix(got, "CANCELLED") {
		t.Errorf("its caller was told %s", got)
	}
	c.until(t, `!document.querySelector('[data-testid=running]')`)
}
