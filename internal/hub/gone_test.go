package hub_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// What one hub has taken away cannot be called at another once that was acknowledged:
// a plan at once, a tool as soon as no decision rests on what was known before.
func TestTakenAwayAtTheOtherHub(t *testing.T) {
	hubtest.Parallel(t)
	p := newPair(t, storetest.StartServer(t).URL)
	here, there := p.at(t, 0), p.at(t, 1)
	call := func(tool, args string) bool {
		_, e := there.tool(tool, args)
		return e.Success != nil && *e.Success
	}
	for i := range soak(60, 300) {
		name := fmt.Sprintf("p%d", i)
		publish("first")(here, name)
		await.Until(t, "the plan can be called", func() bool { return call("plan__"+name+"?session=s", "{}") })
		here.ok(http.MethodDelete, "/api/v1/plans/"+name, "")
		if call("plan__"+name+"?session=s", "{}") {
			t.Fatalf("round %d: a plan that was taken back is run", i)
		}
		await.Until(t, "the tool can be called", func() bool { return call("up__echo", "{}") })
		here.ok(http.MethodPut, "/api/v1/modules/up", `{"on":false}`)
		acknowledged := time.Now()
		await.Until(t, "no decision rests on what was known before", func() bool { return time.Since(acknowledged) > 10*time.Millisecond })
		if call("up__echo", "{}") {
			t.Fatalf("round %d: a tool that was switched off is called", i)
		}
		here.ok(http.MethodPut, "/api/v1/modules/up", `{"on":true}`)
	}
}
