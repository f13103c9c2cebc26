package catalog

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// page returns the names on a page and the cursor of the next one.
func page(t testing.TB, s *Snapshot, k Kind, cursor string, see Sight) (names []string, next string) {
	t.Helper()
	b, err := s.Page(k, View{Era: mcp.Legacy}, cursor, see.Item)
	if err != nil {
		t.Fatal(err)
	}
	result := []byte("{" + string(b) + "}")
	if err := wire.Valid(result, wire.FromClient); err != nil {
		t.Fatalf("%s: %v", result, err)
	}
	elems, ok := wire.Elements(wire.Get(result, k.Member()))
	if !ok {
		t.Fatalf("no %s in %s", k.Member(), result)
	}
	for _, e := range elems {
		n, _ := wire.String(wire.Get(e, k.identity()))
		names = append(names, n)
	}
	next, _ = wire.String(wire.Get(result, "nextCursor"))
	return names, next
}

func numbered(from, to int) (names []string) {
	for i := from; i < to; i++ {
		names = append(names, fmt.Sprintf("tool%06d", i))
	}
	return names
}

func TestPagesCoverTheList(t *testing.T) {
	c := New(0)
	defer c.Close()
	offer(t, c, "b", map[Kind][]string{Tool: numbered(0, 1500)})
	offer(t, c, "a", map[Kind][]string{Tool: numbered(0, 700)})
	offer(t, c, "hidden", map[Kind][]string{Tool: numbered(0, 1200)})
	var all []string
	cursor, pages := "", 0
	for {
		names, next := page(t, c.Now(), Tool, cursor, sight(func(u string) bool { return u != "hidden" }))
		all, pages = append(all, names...), pages+1
		if cursor = next; next == "" {
			break
		}
	}
	if len(all) != 2200 || pages != 3 || !slices.IsSorted(all) || len(slices.Compact(all)) != 2200 {
		t.Errorf("%d names on %d pages, sorted %t", len(all), pages, slices.IsSorted(all))
	}
	if names, next := page(t, c.Now(), Prompt, "", All); len(names) != 0 || next != "" {
		t.Errorf("no prompts: %q, %q", names, next)
	}
}

// Whatever comes and goes between two pages, what was there all the time is
// listed once.
func TestCursorSurvivesChanges(t *testing.T) {
	parsed := map[string]*Item{}
	put := func(c *Catalog, names []string) {
		l := &Lists{}
		for _, n := range names {
			if parsed[n] == nil {
				parsed[n] = item(t, Prompt, "u", `{"name":"`+n+`"}`)
			}
			l.Items[Prompt] = append(l.Items[Prompt], parsed[n])
		}
		c.Put("u", l, Which{})
	}
	rapid.Check(t, func(rt *rapid.T) {
		c := New(0)
		defer c.Close()
		stay := numbered(1000, 2100)
		before := numbered(0, rapid.IntRange(0, 300).Draw(rt, "before"))
		after := numbered(0, rapid.IntRange(0, 300).Draw(rt, "after"))
		put(c, slices.Concat(before, stay))
		first, cursor := page(t, c.Now(), Prompt, "", All)
		if rapid.Bool().Draw(rt, "the place itself goes") {
			stay = slices.DeleteFunc(stay, func(n string) bool { return "u__"+n == first[len(first)-1] })
		}
		put(c, slices.Concat(after, stay, []string{"zzz"}))
		second, _ := page(t, c.Now(), Prompt, cursor, All)
		seen := map[string]int{}
		for _, n := range slices.Concat(first, second) {
			seen[n]++
		}
		for _, n := range stay {
			if seen["u__"+n] != 1 {
				rt.Fatalf("%s was listed %d times", n, seen["u__"+n])
			}
		}
		if seen["u__zzz"] != 1 {
			rt.Fatal("what came behind the cursor is missing")
		}
	})
}

// Templates of several upstreams may be the same; a page that ends between
// them loses none.
func TestCursorBetweenEqualTemplates(t *testing.T) {
	c := New(0)
	defer c.Close()
	var names []string
	for i := range pageItems - 1 {
		names = append(names, fmt.Sprintf("a://%06d/{x}", i))
	}
	offer(t, c, "u", map[Kind][]string{Template: append(names, "z://{x}")})
	offer(t, c, "v", map[Kind][]string{Template: {"z://{x}"}})
	offer(t, c, "w", map[Kind][]string{Template: {"z://{x}"}})
	first, cursor := page(t, c.Now(), Template, "", All)
	second, _ := page(t, c.Now(), Template, cursor, All)
	if len(first) != pageItems || len(second) != 2 {
		t.Errorf("%d and %d", len(first), len(second))
	}
}

func TestPageIsBoundedInBytes(t *testing.T) {
	c := New(0)
	defer c.Close()
	l := &Lists{}
	for i := range 3 {
		l.Items[Tool] = append(l.Items[Tool], item(t, Tool, "u", fmt.Sprintf(`{"name":"t%d","description":"%s","inputSchema":{"type":"object"}}`, i, strings.Repeat("x", pageBytes-100+i*200))))
	}
	c.Put("u", l, Which{})
	cursor, pages := "", 0
	for {
		names, next := page(t, c.Now(), Tool, cursor, All)
		if pages++; len(names) != 1 {
			t.Fatalf("page %d has %d tools", pages, len(names))
		}
		if cursor = next; next == "" {
			break
		}
	}
	if pages != 3 {
		t.Errorf("%d pages", pages)
	}
}

func TestForeignCursors(t *testing.T) {
	c := New(0)
	defer c.Close()
	offer(t, c, "u", map[Kind][]string{Tool: numbered(0, 1100), Prompt: numbered(0, 1100)})
	_, ofPrompts := page(t, c.Now(), Prompt, "", All)
	for _, cursor := range []string{"1", "!", base64.RawURLEncoding.EncodeToString([]byte("x")), base64.RawURLEncoding.EncodeToString(nil) + "=", ofPrompts} {
		if _, err := c.Now().Page(Tool, View{Era: mcp.Legacy}, cursor, All.Item); !fault.Is(err, fault.InvalidParams) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}

func crowd(b *testing.B) *Snapshot {
	c := New(0)
	b.Cleanup(c.Close)
	for u := range 10 {
		offer(b, c, fmt.Sprintf("server%d", u), map[Kind][]string{Tool: numbered(0, 1000)})
	}
	return c.Now()
}

func BenchmarkFind10000(b *testing.B) {
	s := crowd(b)
	for b.Loop() {
		if _, err := s.Find(Tool, "server7__tool000500", All); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFindUnknown10000(b *testing.B) {
	s := crowd(b)
	for b.Loop() {
		if _, err := s.Find(Tool, "server7__tol000500", All); err == nil {
			b.Fatal("found")
		}
	}
}

func BenchmarkPage10000(b *testing.B) {
	s := crowd(b)
	_, cursor := page(b, s, Tool, "", All)
	for b.Loop() {
		if _, err := s.Page(Tool, View{Era: mcp.Legacy}, cursor, All.Item); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPutIntoCrowd(b *testing.B) {
	c := New(0)
	defer c.Close()
	for u := range 10 {
		offer(b, c, fmt.Sprintf("server%d", u), map[Kind][]string{Tool: numbered(0, 1000)})
	}
	l := *c.Now().Of("server3")
	for b.Loop() {
		c.Put("server3", &l, Which{})
	}
}
