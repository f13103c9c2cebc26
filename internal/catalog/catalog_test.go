package catalog

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stoahub/stoa/internal/mcp"
)

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		kind  Kind
		raw   string
		shown string
		notes string // a part of what is noted
		fails bool
	}{
		"tool":                      {Tool, `{"name":"t","inputSchema":{"type":"object"},"x":{ "y" : 1 }}`, `{"name":"u__t","inputSchema":{"type":"object"},"x":{ "y" : 1 }}`, "", false},
		"tool, fields in any order": {Tool, `{"inputSchema":{"type":"object"},"description":"é","name":"t"}`, `{"inputSchema":{"type":"object"},"description":"é","name":"u__t"}`, "", false},
		"tool without a schema":     {Tool, `{"name":"t"}`, `{"name":"u__t","inputSchema":{"type":"object"}}`, "takes anything", false},
		"tool, schema is a string":  {Tool, `{"name":"t","inputSchema":"x"}`, `{"name":"u__t","inputSchema":{"type":"object"}}`, "takes anything", false},
		"tool, schema is no type":   {Tool, `{"name":"t","inputSchema":{"properties":{}}}`, `{"name":"u__t","inputSchema":{"properties":{},"type":"object"}}`, "as if it did", false},
		"tool, bad annotation":      {Tool, `{"name":"t","inputSchema":{"type":"object","x-mcp-header":"A"}}`, `{"name":"u__t","inputSchema":{"type":"object","x-mcp-header":"A"}}`, "x-mcp-header", false},
		"prompt":                    {Prompt, `{"name":"p","arguments":[]}`, `{"name":"u__p","arguments":[]}`, "", false},
		"resource":                  {Resource, `{"uri":"a://b","name":"n"}`, `{"uri":"a://b","name":"n"}`, "", false},
		"template":                  {Template, `{"uriTemplate":"a://{b}"}`, `{"uriTemplate":"a://{b}"}`, "", false},
		"no name":                   {Tool, `{"title":"t"}`, "", "", true},
		"empty name":                {Tool, `{"name":""}`, "", "", true},
		"name is a number":          {Tool, `{"name":1}`, "", "", true},
		"no object":                 {Tool, `"t"`, "", "", true},
		"resource without a URI":    {Resource, `{"name":"n"}`, "", "", true},
		"endless name":              {Tool, `{"name":"` + strings.Repeat("x", 5000) + `"}`, "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			it, err := Parse(tc.kind, "u", []byte(tc.raw))
			if tc.fails {
				if err == nil || len(err.Error()) > 300 {
					t.Errorf("got %v, %v", it, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if string(it.Shown) != tc.shown || string(it.Raw) != tc.raw {
				t.Errorf("shown %s\nwant  %s", it.Shown, tc.shown)
			}
			if notes := strings.Join(it.Notes, "; "); !strings.Contains(notes, tc.notes) || tc.notes == "" && notes != "" {
				t.Errorf("notes %q", notes)
			}
		})
	}
}

func TestAnnotations(t *testing.T) {
	for raw, want := range map[string][2]bool{
		`{"name":"t"}`: {false, false},
		`{"name":"t","annotations":{"readOnlyHint":true}}`:                          {true, true},
		`{"name":"t","annotations":{"idempotentHint":true}}`:                        {false, true},
		`{"name":"t","annotations":{"readOnlyHint":"true","idempotentHint":false}}`: {false, false},
	} {
		it := item(t, Tool, "u", raw)
		if got := [2]bool{it.ReadOnly, it.Idempotent}; got != want {
			t.Errorf("%s: %v", raw, got)
		}
	}
}

func TestFilter(t *testing.T) {
	for _, tc := range []struct {
		f    Filter
		pass string
		stop string
	}{
		{Filter{}, "anything", ""},
		{Filter{Allow: []string{"read_*", "log"}}, "read_file log", "write xread_"},
		{Filter{Deny: []string{"delete*"}}, "read", "delete delete_all"},
		{Filter{Allow: []string{"*"}, Deny: []string{"x"}}, "y", "x"},
		{Filter{Allow: []string{"["}}, "[", "x"},
	} {
		for _, name := range strings.Fields(tc.pass) {
			if !tc.f.Passes(name) {
				t.Errorf("%+v stops %s", tc.f, name)
			}
		}
		for _, name := range strings.Fields(tc.stop) {
			if tc.f.Passes(name) {
				t.Errorf("%+v lets %s pass", tc.f, name)
			}
		}
	}
}

// One URI of two upstreams is shown with a prefix each, and as it is as soon
// as it is only one's.
func TestCollidingResources(t *testing.T) {
	c := New(0)
	defer c.Close()
	offer(t, c, "a", map[Kind][]string{Resource: {"x://1", "x://2", "x://2"}})
	offer(t, c, "b", map[Kind][]string{Resource: {"x://2"}})
	names, _ := page(t, c.Now(), Resource, "", All)
	if diff := cmp.Diff([]string{"a+x://2", "b+x://2", "x://1"}, names); diff != "" {
		t.Error(diff)
	}
	c.Remove("b")
	names, _ = page(t, c.Now(), Resource, "", All)
	if diff := cmp.Diff([]string{"x://1", "x://2"}, names); diff != "" {
		t.Error(diff)
	}
}

// told collects changes, in an order that does not depend on maps.
func told(c *Catalog) func() []Change {
	var mu sync.Mutex
	var all []Change
	c.Watch(func(ch []Change) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, ch...)
	})
	return func() []Change {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		out := all
		all = nil
		slices.SortFunc(out, func(a, b Change) int { return strings.Compare(a.Upstream, b.Upstream) })
		return out
	}
}

func TestChangesAreToldOnceAndOnlyIfThereAreAny(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(time.Second)
		take := told(c)
		tools := Which{Tools: true}
		offer(t, c, "a", map[Kind][]string{Tool: {"x"}})
		offer(t, c, "a", map[Kind][]string{Tool: {"x", "y"}, Template: {"t://{x}"}})
		offer(t, c, "b", map[Kind][]string{Prompt: {"p"}})
		if got := take(); got != nil {
			t.Errorf("told at once: %v", got)
		}
		<-time.After(2 * time.Second)
		if diff := cmp.Diff([]Change{{Upstream: "a", Differ: Which{Tools: true, Resources: true}}, {Upstream: "b", Differ: Which{Prompts: true}}}, take(), cmpopts.IgnoreUnexported(Change{})); diff != "" {
			t.Error(diff)
		}
		offer(t, c, "b", map[Kind][]string{Prompt: {"p"}})
		c.MarkStale("b", true)
		c.MarkStale("b", true)
		c.MarkStale("nobody", true)
		<-time.After(2 * time.Second)
		if got := take(); got != nil || !c.Now().Of("b").Stale {
			t.Errorf("nothing differs, yet %v; stale %t", got, c.Now().Of("b").Stale)
		}
		same := *c.Now().Of("a")
		c.Put("a", &same, tools)
		<-time.After(2 * time.Second)
		if diff := cmp.Diff([]Change{{Upstream: "a", Said: tools}}, take(), cmpopts.IgnoreUnexported(Change{})); diff != "" {
			t.Error(diff)
		}
		c.Remove("b")
		c.Remove("b")
		<-time.After(2 * time.Second)
		if diff := cmp.Diff([]Change{{Upstream: "b", Differ: Which{Prompts: true}}}, take(), cmpopts.IgnoreUnexported(Change{})); diff != "" {
			t.Error(diff)
		}
		offer(t, c, "z", map[Kind][]string{Tool: {"x"}})
		c.Close()
		<-time.After(time.Hour)
		if got := take(); got != nil {
			t.Errorf("told after the end: %v", got)
		}
	})
}

// Who is told of a change learns which items it is about, so that whoever cannot
// see any of them is not told.
func TestChangesNameTheirItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(time.Second)
		defer c.Close()
		got := make(chan string, 1)
		c.Watch(func(ch []Change) {
			var names []string
			for i := range ch {
				for _, it := range ch[i].Items(Tool) {
					names = append(names, it.Name)
				}
			}
			slices.Sort(names)
			got <- strings.Join(slices.Compact(names), " ")
		})
		for _, tc := range []struct {
			rounds [][]string // within one change
			want   string
		}{
			{[][]string{{"x", "y"}}, "x y"},
			{[][]string{{"x", "y", "z"}}, "z"},
			{[][]string{{"x", "z"}}, "y"},
			{[][]string{{"z", "x"}}, "x z"}, // another order
			{[][]string{{"x", "z", "a"}, {"x", "z", "a", "b"}}, "a b"},
			{[][]string{{"x"}, {"x", "z"}}, "a b z"}, // z went and came
		} {
			for _, names := range tc.rounds {
				offer(t, c, "s", map[Kind][]string{Tool: names})
			}
			if names := <-got; names != tc.want {
				t.Errorf("%v: told of %q, want %q", tc.rounds, names, tc.want)
			}
		}
		c.Remove("s")
		if names := <-got; names != "x z" {
			t.Errorf("removed: told of %q", names)
		}
	})
}

func TestStopWatching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(time.Second)
		defer c.Close()
		var n atomic.Int32
		stop := c.Watch(func([]Change) { n.Add(1) })
		stop()
		stop()
		offer(t, c, "a", map[Kind][]string{Tool: {"x"}})
		<-time.After(time.Minute)
		synctest.Wait()
		if n.Load() != 0 {
			t.Errorf("told %d times after stop", n.Load())
		}
	})
}

func TestStaleListsAreServed(t *testing.T) {
	c := New(0)
	defer c.Close()
	offer(t, c, "a", map[Kind][]string{Tool: {"x"}})
	before := c.Now()
	c.MarkStale("a", true)
	if before.Of("a").Stale || !c.Now().Of("a").Stale {
		t.Error("a snapshot changed, or the new one did not")
	}
	if names, _ := page(t, c.Now(), Tool, "", All); len(names) != 1 {
		t.Errorf("stale tools: %q", names)
	}
	offer(t, c, "a", map[Kind][]string{Tool: {"x"}})
	if c.Now().Of("a").Stale {
		t.Error("still stale after it was read")
	}
}

func TestRemoveByPrefix(t *testing.T) {
	for prefix, want := range map[string]struct {
		n    int
		left []string
	}{
		"fs:":        {2, []string{"fs2__read", "git__log"}},
		"mcp:fs:":    {2, []string{"fs2__read", "git__log"}},
		"fs:r":       {1, []string{"fs2__read", "fs__write", "git__log"}},
		"mcp:":       {4, nil},
		"fs":         {3, []string{"git__log"}},
		"nothing:":   {0, []string{"fs2__read", "fs__read", "fs__write", "git__log"}},
		"mcp:git:lo": {1, []string{"fs2__read", "fs__read", "fs__write"}},
	} {
		c := New(0)
		offer(t, c, "fs", map[Kind][]string{Tool: {"read", "write"}, Resource: {"x://1"}})
		offer(t, c, "fs2", map[Kind][]string{Tool: {"read"}})
		offer(t, c, "git", map[Kind][]string{Tool: {"log"}})
		before := c.Now()
		n := c.RemoveByPrefix(prefix)
		names, _ := page(t, c.Now(), Tool, "", All)
		if diff := cmp.Diff(want.left, names); n != want.n || diff != "" {
			t.Errorf("%s: %d removed, left: %s", prefix, n, diff)
		}
		if len(before.Items(Tool)) != 4 || len(c.Now().Items(Resource)) != 1 {
			t.Errorf("%s: more was touched than the tools of now", prefix)
		}
		c.Close()
	}
}

// Counters belong to the tool, not to one reading of the list.
func TestStatsOutliveTheList(t *testing.T) {
	c := New(0)
	defer c.Close()
	find := func() *Item {
		it, err := c.Now().Find(Tool, "a__x", All)
		if err != nil {
			t.Fatal(err)
		}
		return it
	}
	offer(t, c, "a", map[Kind][]string{Tool: {"x"}})
	find().Stat.Add(true, time.Second)
	find().Stat.Add(false, 2*time.Second)
	offer(t, c, "a", map[Kind][]string{Tool: {"x", "y"}})
	ok, failed := find().Stat.Counts()
	if ok != 1 || failed != 1 || find().Stat.Figures().Mean != 1100*time.Millisecond {
		t.Errorf("%d ok, %d failed, mean %v", ok, failed, find().Stat.Figures().Mean)
	}
	c.Remove("a")
	offer(t, c, "a", map[Kind][]string{Tool: {"x"}})
	if ok, _ := find().Stat.Counts(); ok != 0 {
		t.Error("an upstream that was removed is remembered")
	}
	if c.Now().Tool("a", "x") == nil || c.Now().Tool("b", "x") != nil || len(c.Now().BySource("a")) != 1 {
		t.Error("lookup by upstream")
	}
}

// What is served by itself only is not on the merged face, and those who use
// that need not be told of it.
func TestUnlisted(t *testing.T) {
	c := New(time.Millisecond)
	defer c.Close()
	told := make(chan Change, 8)
	defer c.Watch(func(all []Change) {
		for _, one := range all {
			told <- one
		}
	})()
	it, err := Parse(Tool, "a", []byte(`{"name":"x","inputSchema":{"type":"object"}}`))
	if err != nil {
		t.Fatal(err)
	}
	put := func(unlisted bool) Change {
		c.Put("a", &Lists{Items: [kinds][]*Item{Tool: {it}}, Unlisted: unlisted}, Which{})
		return <-told
	}
	if ch := put(true); !ch.Apart || !ch.Differ.Tools {
		t.Errorf("told %+v", ch)
	}
	if _, err := c.Now().Find(Tool, "a:x", All); err == nil || len(c.Now().Items(Tool)) > 0 || c.Now().Tool("a", "x") == nil || c.Now().Tool("a", "y") != nil || len(c.Now().Of("a").Items[Tool]) != 1 {
		t.Error("an unlisted tool is on the merged face, or nowhere")
	}
	if ch := put(false); ch.Apart || !ch.Differ.Tools {
		t.Errorf("told %+v", ch)
	}
	if got, err := c.Now().Find(Tool, "a:x", All); err != nil || got.Name != "x" {
		t.Errorf("once listed: %v", err)
	}
	if ch := put(true); ch.Apart || !ch.Differ.Tools {
		t.Errorf("told %+v", ch)
	}
}

// What one era's clients cannot read is left out for them, also of a tool that
// the config changes.
func TestDefinitionsByEra(t *testing.T) {
	it, err := Parse(Tool, "u", []byte(`{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type":"array"},"execution":{"taskSupport":"optional"}}`))
	if err != nil {
		t.Fatal(err)
	}
	check := func(name, description string) {
		t.Helper()
		const head, output, execution = `","inputSchema":{"type":"object"}`, `,"outputSchema":{"type":"array"}`, `,"execution":{"taskSupport":"optional"}`
		if got, want := string(it.For(mcp.Legacy)), `{"name":"`+name+head+execution+description+`}`; got != want {
			t.Errorf("legacy %s\nwant   %s", got, want)
		}
		if got, want := string(it.For(mcp.Modern)), `{"name":"`+name+head+output+description+`}`; got != want {
			t.Errorf("modern %s\nwant   %s", got, want)
		}
	}
	check("u__t", "")
	Apply([]*Item{it}, map[string]Override{"t": {Name: "x", Description: "d"}})
	check("u__x", `,"description":"d"`)
	plain, err := Parse(Tool, "u", []byte(`{"name":"t","inputSchema":{"type":"object"}}`))
	if err != nil || string(plain.For(mcp.Legacy)) != string(plain.Shown) || string(plain.For(mcp.Modern)) != string(plain.Shown) {
		t.Errorf("a plain tool differs by era: %v", err)
	}
}

// A watcher that panics costs itself the news: the others are told, and it is
// told of the next change.
func TestWatcherThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(time.Millisecond)
		defer c.Close()
		var told []string
		c.Panicked(func(v any, stack []byte) { told = append(told, v.(string)+string(stack)) })
		bad, good := 0, 0
		c.Watch(func([]Change) {
			if bad++; bad == 1 {
				panic("not that list")
			}
		})
		c.Watch(func([]Change) { good++ })
		for range 2 {
			c.Put("u", &Lists{}, Which{Tools: true})
			<-time.After(10 * time.Millisecond)
			synctest.Wait()
		}
		if bad != 2 || good != 2 || len(told) != 1 || !strings.HasPrefix(told[0], "not that list") || !strings.Contains(told[0], "catalog_test.go") {
			t.Errorf("told %d and %d times, of panics %q", bad, good, told)
		}
	})
}
