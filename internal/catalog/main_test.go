package catalog

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sight is that of who sees all of the servers that pass, and nothing else.
func sight(pass func(server string) bool) Sight {
	return Sight{Server: pass, Item: func(it *Item) bool { return pass(it.Upstream) }}
}

func only(upstream string) Sight { return sight(func(u string) bool { return u == upstream }) }

// item parses a definition that is known to be good.
func item(t testing.TB, k Kind, upstream, raw string) *Item {
	t.Helper()
	it, err := Parse(k, upstream, []byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return it
}

// offer puts lists of names: tools and prompts by name, resources and
// templates by URI.
func offer(t testing.TB, c *Catalog, upstream string, items map[Kind][]string) {
	t.Helper()
	l := &Lists{}
	for k, names := range items {
		for _, n := range names {
			l.Items[k] = append(l.Items[k], item(t, k, upstream, `{"`+k.identity()+`":"`+n+`","inputSchema":{"type":"object"}}`))
		}
	}
	c.Put(upstream, l, Which{})
}
