package hub_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

type batchAnswer struct {
	Success bool
	Error   string
	Code    string
	Data    struct {
		Failed  int
		Results []struct {
			Tool    string
			Success bool
			Data    any
			Error   string
			Code    string
		}
	}
}

// Calls of a batch run side by side, come in order, each with its own fault,
// and are resolved once.
func TestBatch(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: []peer.Tool{{Name: "echo"}, {Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: 20 * time.Millisecond}},
		{Name: "no", Behaviour: peer.Behaviour{Kind: peer.Error, Raw: `{"code":-32000,"message":"not today"}`}}}}
	h := hubtest.New(t, hubtest.Modules(), hubtest.Stdio("up", spec))
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		c := h.Client(t, hubtest.ClientOptions{Era: era, Face: "/s/work/mcp"})
		// What is put in for @tricky looks like a reference itself.
		for name, data := range map[string]string{"tricky": `"@@missing"`, "list": `[1,2.50]`} {
			if m := c.Tool("context_add", `{"name":"`+name+`","data":`+data+`}`); strings.Contains(string(m.Raw), "isError") {
				t.Fatal(m.Raw)
			}
		}
		m := c.Tool("tools_batch", `{"parallel":3,"calls":[
			{"tool":"up__slow"},
			{"tool":"up:echo","arguments":{"a":"@list[1]","b":"@tricky"},"saveAs":"kept"},
			{"tool":"up__no"},{"tool":"up__eco"},{"tool":"echo","arguments":{"x":"@nothing"}}]}`)
		got := hubtest.Decode[batchAnswer]([]byte(m.Text()))
		if !got.Success || len(got.Data.Results) != 5 || got.Data.Failed != 3 {
			t.Fatalf("%s: %s", era, m.Raw)
		}
		for i, want := range []struct{ tool, code, text string }{
			{"up__slow", "SUCCESS", ""}, {"up:echo", "SUCCESS", ""}, {"up__no", "TOOL_ERROR", "not today"}, {"up__eco", "UNKNOWN_TOOL", "eco"}, {"echo", "BAD_REFERENCE", "nothing"},
		} {
			if r := got.Data.Results[i]; r.Tool != want.tool || r.Code != want.code || !strings.Contains(r.Error, want.text) {
				t.Errorf("%s, call %d: %+v", era, i, r)
			}
		}
		kept := c.Tool("context_get", `{"name":"kept"}`).Text()
		if !strings.Contains(kept, `"a":2.50`) || !strings.Contains(kept, `"b":"@missing"`) {
			t.Errorf("%s: kept %s", era, kept)
		}
		if m := c.Tool("tools_batch", `{"calls":[{"tool":"tools_batch"}]}`); !strings.Contains(m.Text(), "a batch cannot be in a batch") {
			t.Errorf("%s: %s", era, m.Raw)
		}
	}
}
