package hub_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// pageOfValues is what context_list and context_history answer with.
type pageOfValues struct {
	Count, Next      int
	Values, Versions []struct {
		Name    string
		Version int
	}
}

// A session with very many values is listed in parts, each of which says how
// many there are and how to go on; together they are all of them.
func TestContextListInParts(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Modules())
	c := h.Client(t, hubtest.ClientOptions{Face: "/s/many/mcp"})
	long := strings.Repeat("d", 4000)
	for i := range 260 {
		good(t, c.Tool("context_add", fmt.Sprintf(`{"name":"v%03d","data":%d}`, i, i)))
	}
	for i := range 40 {
		good(t, c.Tool("context_add", fmt.Sprintf(`{"name":"w%03d","data":%d,"description":%q}`, i, i, long)))
	}
	seen, pages := []string{}, 0
	for offset := 0; ; {
		m := c.Tool("context_list", fmt.Sprintf(`{"offset":%d}`, offset))
		if n := len(m.Text()); n > 96<<10 {
			t.Errorf("an answer has %d bytes", n)
		}
		p := hubtest.Decode[pageOfValues](good(t, m))
		if pages++; p.Count != 300 || len(p.Values) == 0 || len(p.Values) > 100 || pages > 20 {
			t.Fatalf("page %d from %d: %d of %d", pages, offset, len(p.Values), p.Count)
		}
		for _, v := range p.Values {
			seen = append(seen, v.Name)
		}
		if p.Next == 0 {
			break
		}
		if want := fmt.Sprintf("go on with offset %d", p.Next); !strings.Contains(envelope(t, m).Message, want) {
			t.Errorf("it does not say %q: %.300s", want, m.Text())
		}
		offset = p.Next
	}
	if len(seen) != 300 || seen[0] != "v000" || seen[299] != "w039" {
		t.Errorf("%d values, from %s to %s", len(seen), seen[0], seen[len(seen)-1])
	}
	if p := hubtest.Decode[pageOfValues](good(t, c.Tool("context_list", `{"filter":"v*","limit":1000}`))); len(p.Values) != 260 || p.Next != 0 {
		t.Errorf("a limit that is high enough: %d, next %d", len(p.Values), p.Next)
	}
	if p := hubtest.Decode[pageOfValues](good(t, c.Tool("context_list", `{"offset":1000}`))); len(p.Values) != 0 || p.Next != 0 || p.Count != 300 {
		t.Errorf("beyond the end: %+v", p)
	}
	for range 3 {
		good(t, c.Tool("context_add", `{"name":"v000","data":1}`))
	}
	if p := hubtest.Decode[pageOfValues](good(t, c.Tool("context_history", `{"name":"v000","offset":1,"limit":2}`))); p.Count != 4 || len(p.Versions) != 2 || p.Versions[0].Version != 3 || p.Next != 3 {
		t.Errorf("a part of a history: %+v", p)
	}
}

// A batch whose results are longer than a message may be is answered: what does
// not fit is left out, and that is said.
func TestBatchOfLongResults(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Modules(), hubtest.Stdio("up", peer.Spec{Tools: []peer.Tool{{Name: "echo"}, {Name: "big", Behaviour: peer.Behaviour{Kind: peer.Big, N: 2 << 20}}}}))
	c := h.Client(t, hubtest.ClientOptions{})
	m := c.Tool("tools_batch", `{"calls":[{"tool":"up__big"},{"tool":"up__big"},{"tool":"up__echo","arguments":{"a":1}}]}`)
	got := hubtest.Decode[struct {
		Data struct {
			Results []struct {
				Success, Omitted bool
				Message          string
				Data             any
			}
		}
	}]([]byte(m.Text()))
	r := got.Data.Results
	if len(r) != 3 || r[0].Omitted || !r[1].Success || !r[1].Omitted || r[1].Data != nil || !strings.Contains(r[1].Message, "left out") || r[2].Data == nil {
		t.Errorf("%.600s", m.Text())
	}
	if !strings.Contains(m.Text(), "of 1 result the data was too long") {
		t.Errorf("it is not said: %.300s", m.Text()[max(0, len(m.Text())-300):])
	}
}

// A session with many runs has the newest of them listed, and is told how many
// are not.
func TestPlanStatusOfManyRuns(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Modules())
	c := h.Client(t, hubtest.ClientOptions{Face: "/s/runs/mcp"})
	for range 23 {
		good(t, c.Tool("plan_execute", `{"plan":{"steps":[{"id":"a","tool":"context_list"}]}}`))
	}
	m := c.Tool("plan_status", `{}`)
	got := hubtest.Decode[struct {
		Others []struct{ ID string }
		More   int
	}](good(t, m))
	if len(got.Others) != 20 || got.More != 2 || !strings.Contains(envelope(t, m).Message, "2 older runs") {
		t.Errorf("%d others, %d more: %s", len(got.Others), got.More, envelope(t, m).Message)
	}
}
