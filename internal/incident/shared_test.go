package incident

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// openBook opens the book of a hub on a server that others use too.
func openBook(t *testing.T, url, hub string, c *clock) *Book {
	t.Helper()
	b := New(Options{Now: c.Now})
	if err := b.Keep(t.Context(), storetest.Open(t, store.Options{URL: url}), hub); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// written has all that a book was told written.
func written(t *testing.T, b *Book) {
	t.Helper()
	b.putGroups()
	if err := b.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// counted are the groups with their counts, and how many Errors are held.
func counted(b *Book) string {
	groups, _ := b.Groups()
	var out []string
	for _, g := range groups {
		out = append(out, fmt.Sprintf("%s %d, %d just now", g.Tool, g.Count, g.PerMinute[Minutes-1]))
	}
	return fmt.Sprintf("%s; %d held", strings.Join(out, "; "), len(b.Last()))
}

func exported(t *testing.T, b *Book) []string {
	t.Helper()
	var out bytes.Buffer
	if err := b.Export(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(out.String()), "\n")
}

// Every hub's book shows what all hubs on the store have met, each counted once,
// also after a restart of any of them and after one has gone.
func TestHubsShareTheBook(t *testing.T) {
	srv := storetest.StartServer(t)
	c := &clock{now: start}
	a, b := openBook(t, srv.URL, "a", c), openBook(t, srv.URL, "b", c)
	x, y := Key{Code: "TIMEOUT", Tool: "x"}, Key{Code: "TIMEOUT", Tool: "y"}
	for range 20 { // more than are kept whole
		a.Tell(x, failed("late"))
	}
	own := b.Tell(x, failed("later"))
	b.Tell(x, failed("later"))
	all := func(want string, books ...*Book) {
		t.Helper()
		for i, k := range books {
			await.NoError(t, fmt.Sprintf("book %d shows all", i), func() error {
				if got := counted(k); got != want {
					return fmt.Errorf("%s, want %s", got, want)
				}
				return nil
			})
		}
	}
	written(t, a)
	written(t, b)
	all("x 22, 22 just now; 7 held", a, b)
	if e, err := a.Find(t.Context(), own); err != nil || e.Error.Message != "later" {
		t.Errorf("found at the other hub: %+v, %v", e, err)
	}
	if groups, total := a.Groups(); total != 20 || groups[0].Message != "later" && groups[0].Message != "late" {
		t.Errorf("met here: %d, %+v", total, groups)
	}

	a.Close()
	again := openBook(t, srv.URL, "a", c)
	all("x 22, 22 just now; 7 held", again, openBook(t, srv.URL, "c", c))
	c.add(1)
	again.Tell(x, failed("again"))
	b.Tell(y, failed("other"))
	written(t, again)
	written(t, b)
	later := openBook(t, srv.URL, "d", c)
	for _, k := range []*Book{again, b, later} {
		await.NoError(t, "it is counted once", func() error {
			groups, _ := k.Groups()
			for _, g := range groups {
				if want := map[string]int64{"x": 23, "y": 1}[g.Tool]; g.Count != want {
					return fmt.Errorf("%s was met %d times, want %d", g.Tool, g.Count, want)
				}
			}
			if len(groups) != 2 {
				return fmt.Errorf("%d groups", len(groups))
			}
			return nil
		})
	}
	if mine, theirs := exported(t, again), exported(t, b); len(mine) != len(theirs) || len(mine) < 8 {
		t.Errorf("exported here %d, there %d", len(mine), len(theirs))
	}
}

// What was kept before hubs said who they are is counted once, too.
func TestBookOfAnEarlierVersion(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	log, err := st.Log(t.Context(), store.LogOptions{Name: logName, Subjects: []string{onError, onGroup}, PerSubject: keptErrors, MaxBytes: keptBytes, Async: true})
	if err != nil {
		t.Fatal(err)
	}
	key := Key{Code: "TIMEOUT", Tool: "x"}
	for n := range int64(3) {
		e := Error{ID: fmt.Sprintf("err_%d", n), Time: start, Error: Body{Code: "TIMEOUT"}}
		raw, err := json.Marshal(entry{Error: &e, Group: Group{Key: key, Count: 10 * (n + 1), First: start, Last: start}})
		if err == nil {
			_, err = log.AppendAny(t.Context(), onError, raw)
		}
		if err == nil && n == 2 { // written twice, since the first was not acknowledged
			_, err = log.AppendAny(t.Context(), onError, raw)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c := &clock{now: start}
	for n := range int64(3) {
		b := New(Options{Now: c.Now})
		if err := b.Keep(t.Context(), st, "hub"); err != nil {
			t.Fatal(err)
		}
		b.Tell(key, failed("late"))
		groups, _ := b.Groups()
		if len(groups) != 1 || groups[0].Count != 30+n+1 {
			t.Errorf("run %d: %+v", n, groups)
		}
		if got := len(exported(t, b)); got != int(3+n+1) || len(b.Last()) != got {
			t.Errorf("run %d: %d exported, %d held", n, got, len(b.Last()))
		}
		b.Close()
	}
}
