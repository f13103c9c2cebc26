package obs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRotationBySize(t *testing.T) {
	dir := t.TempDir()
	l := openLogs(t, LogOptions{Ring: 1}, Files{Dir: dir, MaxSize: 1000})
	var want []string
	for i := range 60 {
		l.Logger().Info(fmt.Sprint(i))
		want = append(want, fmt.Sprint(59-i))
	}
	aside, err := rotated(dir)
	if err != nil || len(aside) < 3 {
		t.Fatalf("put aside: %v %v", aside, err)
	}
	for _, name := range append(aside, fileName) {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() > 1000 || info.Size() == 0 {
			t.Errorf("%s: %+v %v", name, info, err)
		}
	}
	if d := cmp.Diff(want, messages(readFiles(t, dir, Query{}))); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(want, messages(l.Read(Query{}))); d != "" {
		t.Error(d)
	}
	long := strings.Repeat("x", 5000)
	l.Logger().Info(long) // longer than a file may be: it gets one of its own
	l.Logger().Info("after")
	if d := cmp.Diff([]string{"after", long, "59"}, messages(readFiles(t, dir, Query{Limit: 3}))); d != "" {
		t.Error(d)
	}
}

func TestRotationByDay(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	l := openLogs(t, LogOptions{}, Files{Dir: dir, Now: c.now})
	l.Logger().Info("monday")
	l.Close()
	c.add(day - time.Minute)
	l = openLogs(t, LogOptions{}, Files{Dir: dir, Now: c.now})
	l.Logger().Info("still monday")
	if aside, _ := rotated(dir); len(aside) != 0 {
		t.Fatalf("put aside within the day: %v", aside)
	}
	c.add(2 * time.Minute)
	l.Logger().Info("tuesday")
	b, err := os.ReadFile(filepath.Join(dir, fileName))
	if aside, _ := rotated(dir); err != nil || len(aside) != 1 || !bytes.Contains(b, []byte("tuesday")) || bytes.Contains(b, []byte("monday")) {
		t.Errorf("put aside: %v; %s %v", aside, b, err)
	}
}

func TestRetention(t *testing.T) {
	dir := t.TempDir()
	name := func(age time.Duration) string {
		return "stoa-" + time.Now().Add(-age).UTC().Format(stamp) + "-rotated.log"
	}
	old, young := name(8*day), name(6*day)
	for _, n := range []string{old, young, "mine.log"} {
		if err := os.WriteFile(filepath.Join(dir, n), []byte("{}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := openLogs(t, LogOptions{}, Files{Dir: dir, RetentionDays: 7})
	l.Logger().Info("now")
	l.Close() // waits for what is done in the background
	for n, want := range map[string]bool{old: false, young: true, "mine.log": true, fileName: true} {
		if _, err := os.Stat(filepath.Join(dir, n)); (err == nil) != want {
			t.Errorf("%s: there: %v, want %v", n, err == nil, want)
		}
	}
}

func TestFloodIsBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 * maxRotated {
		name := "stoa-" + time.Now().Add(-time.Duration(i)*time.Second).UTC().Format(stamp) + "-rotated.log"
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := openLogs(t, LogOptions{}, Files{Dir: dir})
	l.Logger().Info("now")
	l.Close()
	if aside, err := rotated(dir); err != nil || len(aside) != maxRotated {
		t.Errorf("%d files are kept: %v", len(aside), err)
	}
}

func TestManyWriteAtOnce(t *testing.T) {
	dir := t.TempDir()
	l := openLogs(t, LogOptions{Ring: 10}, Files{Dir: dir, MaxSize: 20_000})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			log := l.Logger().With("writer", w)
			for i := range 200 {
				log.Info(fmt.Sprintf("%d/%d", w, i))
				if i%50 == 0 {
					l.Read(Query{Limit: 20})
				}
			}
		})
	}
	wg.Wait()
	next := map[string]int{}
	got := readFiles(t, dir, Query{Limit: MaxLimit})
	for _, r := range slices.Backward(got) {
		w := r.Get("writer")
		if r.Msg != fmt.Sprintf("%s/%d", w, next[w]) {
			t.Fatalf("writer %s: %s, want %d", w, r.Msg, next[w])
		}
		next[w]++
	}
	if len(got) != 1600 {
		t.Errorf("%d lines, want 1600", len(got))
	}
}

func TestUnwritableFolder(t *testing.T) {
	base := t.TempDir()
	dir, c := filepath.Join(base, "logs"), newClock()
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // a file where the folder should be
		t.Fatal(err)
	}
	var console bytes.Buffer
	l := openLogs(t, LogOptions{Console: &console, Least: "error"}, Files{Dir: dir, Now: c.now})
	for i := range 5 {
		l.Logger().Info(fmt.Sprint(i))
	}
	if n := strings.Count(console.String(), "\n"); n != 1 || !strings.Contains(console.String(), "AIUR_LOG_DIRECTORY") || !strings.Contains(console.String(), dir) {
		t.Errorf("told %d times: %s", n, console.String())
	}
	if err := l.Trouble(); err == nil {
		t.Error("no trouble is told")
	}
	if got := messages(l.Read(Query{Limit: 2})); !slices.Equal(got, []string{"4", "3"}) {
		t.Errorf("in memory: %v", got)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	l.Logger().Info("too early")
	if _, err := os.Stat(dir); err == nil {
		t.Error("it was tried again at once")
	}
	c.add(retryAfter)
	l.Logger().Info("works again")
	if err := l.Trouble(); err != nil {
		t.Error(err)
	}
	got := readFiles(t, dir, Query{})
	if d := cmp.Diff([]string{"log files are written again", "works again"}, messages(got)); d != "" {
		t.Error(d)
	}
	if lost := got[0].Get("lost"); lost != "7" { // five, what told of it, and the one that came too early
		t.Errorf("%s lines are said to be lost", lost)
	}
}

// A full disk cuts a line in two; the next one must not suffer.
func TestTornLine(t *testing.T) {
	dir := t.TempDir()
	l := openLogs(t, LogOptions{}, Files{Dir: dir})
	l.Logger().Info("whole")
	l.Close()
	f, err := os.OpenFile(filepath.Join(dir, fileName), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString(`{"time":"2026-01-01T00:00:00Z","level":"IN`)
	f.Close()
	l = openLogs(t, LogOptions{}, Files{Dir: dir})
	l.Logger().Info("next")
	if d := cmp.Diff([]string{"next", "whole"}, messages(readFiles(t, dir, Query{}))); d != "" {
		t.Error(d)
	}
}

func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no disk that is always full here")
	}
	dir, c := t.TempDir(), newClock()
	if err := os.Symlink("/dev/full", filepath.Join(dir, fileName)); err != nil {
		t.Fatal(err)
	}
	var console bytes.Buffer
	l := openLogs(t, LogOptions{Console: &console}, Files{Dir: dir, Now: c.now})
	l.Logger().Info("one")
	l.Logger().Info("two")
	if err := l.Trouble(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("trouble: %v", err)
	}
	if n := strings.Count(console.String(), "cannot be written"); n != 1 {
		t.Errorf("told %d times: %s", n, console.String())
	}
}

func TestOneWriterPerFolder(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	first := openLogs(t, LogOptions{}, Files{Dir: dir})
	first.Logger().Info("first")
	second := openLogs(t, LogOptions{}, Files{Dir: dir, Now: c.now})
	second.Logger().Info("second")
	if err := second.Trouble(); err == nil || !strings.Contains(err.Error(), "another hub") {
		t.Errorf("trouble: %v", err)
	}
	first.Close()
	c.add(retryAfter)
	second.Logger().Info("third")
	if d := cmp.Diff([]string{"log files are written again", "third", "first"}, messages(readFiles(t, dir, Query{}))); d != "" {
		t.Error(d)
	}
}

func TestFileTakenAway(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	l := openLogs(t, LogOptions{}, Files{Dir: dir, Now: c.now})
	for i, away := range []func() error{
		func() error { return os.RemoveAll(dir) },
		func() error { return os.Remove(filepath.Join(dir, fileName)) },
		func() error { return os.Truncate(filepath.Join(dir, fileName), 0) },
	} {
		l.Logger().Info("before")
		if err := away(); err != nil {
			t.Fatal(err)
		}
		c.add(lookEvery)
		l.Logger().Info("after")
		if got := messages(readFiles(t, dir, Query{})); !slices.Equal(got, []string{"after"}) {
			t.Errorf("%d: %v", i, got)
		}
	}
}

func TestReadFilesPassesOverWhatIsNoRecord(t *testing.T) {
	dir := t.TempDir()
	line := func(msg string) string {
		return `{"time":"2026-01-02T03:04:05Z","level":"WARN+1","msg":"` + msg + `"}` + "\n"
	}
	text := "\n\x00\x00garbage\n" + line("one") + "[1]\n" + line(strings.Repeat("x", maxLine+chunk)) + line("two") + `{"level":"INFO","msg":"no time"}` + "\n" + line("three") + `{"time":`
	if err := os.WriteFile(filepath.Join(dir, fileName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"three", "two", "one"}, messages(readFiles(t, dir, Query{}))); d != "" {
		t.Error(d)
	}
	if _, err := ReadFiles(t.TempDir(), Query{}); !errors.Is(err, ErrNoFiles) {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := ReadFiles(filepath.Join(dir, "none"), Query{}); !errors.Is(err, ErrNoFiles) {
		t.Errorf("no folder: %v", err)
	}
}

// follow collects what Follow gives until the test ends.
func follow(t *testing.T, dir string, q Query) (await func(msg string) []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	records, ended := make(chan string, 10_000), make(chan error, 1)
	go func() {
		ended <- Follow(ctx, dir, q, func(r Record) error {
			records <- r.Msg
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("follow: %v", err)
		}
	})
	return func(last string) (got []string) {
		t.Helper()
		deadline := time.After(time.Minute)
		for {
			select {
			case m := <-records:
				if got = append(got, m); m == last {
					return got
				}
			case <-deadline:
				t.Fatalf("%s did not come; there were %v", last, got)
			}
		}
	}
}

func TestFollowAcrossRotation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	await := follow(t, dir, Query{}) // the folder is made later
	l := openLogs(t, LogOptions{}, Files{Dir: dir, MaxSize: 500})
	for round := range 3 {
		var want []string
		for i := range 40 { // several files each time
			want = append(want, fmt.Sprintf("%d/%d", round, i))
			l.Logger().Info(want[i])
		}
		if d := cmp.Diff(want, await(want[39])); d != "" {
			t.Fatal(d)
		}
	}
	await = follow(t, dir, Query{Limit: 3, Search: "/"})
	if d := cmp.Diff([]string{"2/37", "2/38", "2/39"}, await("2/39")); d != "" {
		t.Error(d)
	}
	l.Logger().Info("other")
	l.Logger().Info("last/")
	if d := cmp.Diff([]string{"last/"}, await("last/")); d != "" {
		t.Error(d)
	}
	l.Close()
	if err := os.Truncate(filepath.Join(dir, fileName), 0); err != nil {
		t.Fatal(err)
	}
	again := openLogs(t, LogOptions{}, Files{Dir: dir})
	again.Logger().Info("/a")
	await("/a")
}

// Readers that come while files are put aside get every line once and in order.
func TestReadDuringRotation(t *testing.T) {
	dir := t.TempDir()
	l := openLogs(t, LogOptions{}, Files{Dir: dir, MaxSize: 500})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
				l.Logger().Info("line", "n", i)
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	number := func(r Record) (n int) {
		var line struct{ N int }
		if err := json.Unmarshal(r.Line, &line); err != nil {
			t.Error(err)
		}
		return line.N
	}
	enough := errors.New("enough")
	for range 4 {
		last, count := 0, 0
		err := Follow(t.Context(), dir, Query{}, func(r Record) error {
			n := number(r)
			if n <= last {
				return fmt.Errorf("line %d after line %d", n, last)
			}
			last = n
			if count++; count > 200 {
				return enough
			}
			return nil
		})
		if err != enough {
			t.Fatal(err)
		}
		records, err := ReadFiles(dir, Query{})
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range records[1:] {
			if a, b := number(r), number(records[i]); a >= b {
				t.Fatalf("read backwards: line %d after line %d", a, b)
			}
		}
	}
}

func TestFollowEndsWithItsReader(t *testing.T) {
	dir := t.TempDir()
	openLogs(t, LogOptions{}, Files{Dir: dir}).Logger().Info("one")
	gone := errors.New("the reader has gone")
	if err := Follow(t.Context(), dir, Query{}, func(Record) error { return gone }); err != gone {
		t.Error(err)
	}
}
