package hub_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// The values of a session are listed as resources in pages that a client can take
// in, and all of them once, after what servers have.
func TestValuesAreListedInPages(t *testing.T) {
	hubtest.Parallel(t)
	h, _ := keeping(t, peer.Spec{Resources: []peer.Resource{{URI: "file:///a"}}})
	const size = 250
	for _, era := range bothEras {
		c := h.Client(t, hubtest.ClientOptions{Era: era, Header: in("pages-" + string(era))})
		for i := range size {
			description := ""
			if i < 30 {
				description = strings.Repeat("x", 4000)
			}
			good(t, c.Tool("context_add", fmt.Sprintf(`{"name":"v%03d","data":%d,"description":%q}`, i, i, description)))
		}
		seen, cursor := map[string]int{}, ""
		for page := 0; page < 20 && (page == 0 || cursor != ""); page++ {
			params := "{}"
			if cursor != "" {
				params = fmt.Sprintf(`{"cursor":%q}`, cursor)
			}
			m := c.Call("resources/list", params)
			list := hubtest.Decode[struct {
				Resources  []struct{ URI string }
				NextCursor string
			}](m.Result)
			if len(m.Raw) > 80<<10 || len(list.Resources) > 101 {
				t.Errorf("%s: a page has %d bytes and %d resources", era, len(m.Raw), len(list.Resources))
			}
			for _, r := range list.Resources {
				seen[r.URI]++
			}
			cursor = list.NextCursor
		}
		for i := range size {
			if n := seen[fmt.Sprintf("stoa://context/v%03d", i)]; n != 1 {
				t.Errorf("%s: value %d is listed %d times", era, i, n)
			}
		}
		if len(seen) != size+1 {
			t.Errorf("%s: %d resources are listed, want %d: %v", era, len(seen), size+1, cursor)
		}
		if m := c.Call("resources/list", `{"cursor":"QQ"}`); m.Error == nil {
			t.Errorf("%s: a cursor of another list is taken: %.200s", era, m.Raw)
		}
	}
}
