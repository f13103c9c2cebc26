package incident

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

func TestMain(m *testing.M) {
	storetest.Child()
	goleak.VerifyTestMain(m)
}

func failed(text string) func() Error {
	return func() Error {
		return Error{ErrorType: ToolExecution, Severity: Failed, Source: "call", Error: Body{Message: text}, Context: map[string]string{"tool": "read", "operation": "tools/call", "session": ""}}
	}
}

// clock is a time that the test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// An error has the form in which errors are broadcast, and travels among the
// events.
func TestForm(t *testing.T) {
	bus := event.New(0)
	c := &clock{now: start}
	b := New(Options{Events: bus, Now: c.Now, Hide: func(s string) string { return strings.ReplaceAll(s, "s3cret", "•••") }})
	id := b.Tell(Key{Code: "TIMEOUT", Upstream: "files", Tool: "read"}, failed("no answer, s3cret"))
	if !regexp.MustCompile(`^err_1772366400000_[0-9a-f]{8}$`).MatchString(id) {
		t.Errorf("the id is %s", id)
	}
	records, _, _ := bus.After(0, 10)
	if len(records) != 1 {
		t.Fatalf("events: %v", records)
	}
	raw, err := json.Marshal(records[0])
	if err != nil {
		t.Fatal(err)
	}
	want := `{"seq":1,"time":"2026-03-01T12:00:00Z","type":"error","level":"error","upstream":"files","tool":"read","kind":"TIMEOUT","data":` +
		`{"id":"` + id + `","time":"2026-03-01T12:00:00Z","errorType":"tool-execution","severity":"error","source":"call",` +
		`"error":{"message":"no answer, •••","code":"TIMEOUT"},"context":{"operation":"tools/call","tool":"read"}}}`
	if d := cmp.Diff(want, string(raw)); d != "" {
		t.Error(d)
	}
	e, err := b.Find(t.Context(), id)
	if err != nil || e.Error.Message != "no answer, •••" {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := b.Find(t.Context(), "err_1_x"); !fault.Is(err, fault.ResourceNotFound) {
		t.Errorf("one that is not there: %v", err)
	}
}

func TestGroupsAndMinutes(t *testing.T) {
	c := &clock{now: start}
	b := New(Options{Now: c.Now})
	one, two := Key{Code: "TIMEOUT", Upstream: "a", Tool: "x"}, Key{Code: "TIMEOUT", Upstream: "a", Tool: "y"}
	tell := func(k Key, n int) {
		for range n {
			b.Tell(k, failed("late"))
		}
	}
	tell(one, 2)
	c.add(time.Minute)
	tell(one, 3)
	tell(two, 1)
	c.add(2 * time.Minute)
	tell(one, 1)
	groups, total := b.Groups()
	if total != 7 || len(groups) != 2 || groups[0].Key != one || groups[1].Key != two {
		t.Fatalf("%d, %+v", total, groups)
	}
	g := groups[0]
	if g.Count != 6 || !g.First.Equal(start) || !g.Last.Equal(start.Add(3*time.Minute)) || len(g.PerMinute) != Minutes {
		t.Errorf("%+v", g)
	}
	if d := cmp.Diff([]int32{0, 2, 3, 0, 1}, g.PerMinute[Minutes-5:]); d != "" {
		t.Error(d)
	}
	c.add(2 * time.Hour)
	groups, _ = b.Groups()
	if d := cmp.Diff(make([]int32, Minutes), groups[0].PerMinute); d != "" || groups[0].Count != 6 {
		t.Errorf("after two hours: %+v", groups[0])
	}
}

// A flood is counted to the last, and only a few of it are kept whole.
func TestFlood(t *testing.T) {
	bus := event.New(0)
	c := &clock{now: start}
	b := New(Options{Events: bus, Now: c.Now})
	made := 0
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range 4 {
		wg.Go(func() {
			for range 5000 {
				b.Tell(Key{Code: "BREAKER_OPEN", Upstream: "a"}, func() Error {
					mu.Lock()
					defer mu.Unlock()
					made++
					return Error{}
				})
			}
		})
	}
	wg.Wait()
	groups, total := b.Groups()
	if total != 20_000 || groups[0].Count != 20_000 || groups[0].PerMinute[Minutes-1] != 20_000 {
		t.Errorf("counted %d: %+v", total, groups)
	}
	if n := bus.Last(); made != wholePerSecond || n != wholePerSecond || len(b.Last()) != wholePerSecond {
		t.Errorf("%d made, %d told, %d held", made, n, len(b.Last()))
	}
	c.add(time.Second)
	if b.Tell(Key{Code: "BREAKER_OPEN", Upstream: "a"}, failed("again")) == "" {
		t.Error("a second later nothing is kept whole")
	}
}

func TestBounds(t *testing.T) {
	c := &clock{now: start}
	b := New(Options{Now: c.Now})
	for i := range 2 * maxGroups {
		b.Tell(Key{Code: "TIMEOUT", Tool: fmt.Sprint(i)}, failed(strings.Repeat("é", 10_000)))
		c.add(time.Second)
	}
	groups, _ := b.Groups()
	if len(groups) != maxGroups+1 || groups[0].Code != Other || groups[0].Count != maxGroups {
		t.Errorf("%d groups, the last %+v", len(groups), groups[0].Key)
	}
	last := b.Last()
	if len(last) != Whole || len(last[0].Error.Message) > maxMessage+3 || !last[0].Time.After(last[1].Time) {
		t.Errorf("%d held, %d bytes", len(last), len(last[0].Error.Message))
	}
}

// What was met is there after a restart, with its counts, and can be exported.
func TestKept(t *testing.T) {
	dir := t.TempDir()
	c := &clock{now: start}
	key := Key{Code: "TIMEOUT", Upstream: "a", Tool: "x"}
	run := func(f func(b *Book)) {
		t.Helper()
		st, err := store.Open(t.Context(), store.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		b := New(Options{Now: c.Now})
		b.Tell(key, failed("before the store was open"))
		if err := b.Keep(t.Context(), st, "hub"); err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		f(b)
	}
	var first string
	run(func(b *Book) {
		first = b.Last()[0].ID
		for range 20 { // more than are kept whole
			b.Tell(key, failed("late"))
		}
	})
	c.add(time.Hour)
	run(func(b *Book) {
		groups, total := b.Groups()
		if len(groups) != 1 || groups[0].Count != 22 || total != 1 || !groups[0].First.Equal(start) || !groups[0].Last.Equal(start.Add(time.Hour)) {
			t.Errorf("%d since the start: %+v", total, groups)
		}
		if n := len(b.Last()); n != wholePerSecond+1 {
			t.Errorf("%d are held", n)
		}
		if e, err := b.Find(t.Context(), first); err != nil || e.Error.Message != "before the store was open" {
			t.Errorf("%+v, %v", e, err)
		}
		for range 2 * Whole {
			c.add(time.Second)
			b.Tell(key, failed("again"))
		}
		if e, err := b.Find(t.Context(), first); err != nil || e.ID != first {
			t.Errorf("one that is not held any more: %+v, %v", e, err)
		}
		var out bytes.Buffer
		if err := b.Export(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != wholePerSecond+1+2*Whole || !strings.Contains(lines[0], first) {
			t.Errorf("%d lines, the first %s", len(lines), lines[0])
		}
		for _, line := range lines {
			var e Error
			if err := json.Unmarshal([]byte(line), &e); err != nil || e.ID == "" {
				t.Fatalf("%s: %v", line, err)
			}
		}
	})
}

// A store that cannot be written to costs whoever tells of a fault nothing, and
// what is told meanwhile is written when it can be again.
func TestStoreAway(t *testing.T) {
	server := storetest.StartServer(t)
	st := storetest.Open(t, store.Options{URL: server.URL})
	c := &clock{now: start}
	b := New(Options{Now: c.Now})
	if err := b.Keep(t.Context(), st, "hub"); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	server.Kill()
	told := make(chan struct{})
	go func() {
		defer close(told)
		for i := range 3 * maxWaiting {
			b.Tell(Key{Code: "STORAGE", Tool: fmt.Sprint(i % 7)}, failed("the store is away"))
			c.add(time.Second)
		}
	}()
	await.Value(t, "all is told, which would never be if each waited for the store", told)
	if len(b.Last()) != Whole {
		t.Errorf("%d are held", len(b.Last()))
	}
	server.Restart(t)
	await.NoError(t, "it is written when the store is back", func() error { return b.flush(t.Context()) })
	var out bytes.Buffer
	if err := b.Export(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n < maxWaiting {
		t.Errorf("%d were written", n)
	}
}

func TestMask(t *testing.T) {
	for _, tc := range []struct{ text, args, want string }{
		{"cannot read /home/ann/diary.txt", `{"path":"/home/ann/diary.txt"}`, "cannot read •••"},
		{"key abc is wrong", `{"key":"abc"}`, "key abc is wrong"},
		{"no user 12345", `{"a":[{"id":12345}]}`, "no user •••"},
		{`bad: {"q":"line\none"}`, `{"q":"line\none"}`, `bad: {"q":"•••"}`},
		{"it says second line here", `{"q":"first line\nsecond line here"}`, "it says •••"},
		{"nothing to hide", ``, "nothing to hide"},
	} {
		if got := Mask(tc.text, []byte(tc.args)); got != tc.want {
			t.Errorf("%s: %s", tc.text, got)
		}
	}
	big := `{"a":"` + strings.Repeat("x", maxArgs) + `"}`
	if got := Mask("it says yyyy", []byte(big)); strings.Contains(got, "yyyy") {
		t.Errorf("with large arguments: %s", got)
	}
}

func BenchmarkTellFlood(b *testing.B) {
	book := New(Options{})
	b.ReportAllocs()
	for b.Loop() {
		book.Tell(Key{Code: "BREAKER_OPEN", Upstream: "github", Tool: "list"}, failed("x"))
	}
}
