package journal

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// entries is how many the log holds.
func entries(t *testing.T, log Log) int {
	t.Helper()
	n := 0
	if err := log.Scan(context.Background(), "", 0, func(Entry) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// later returns a journal that removes later what may stay, within a bubble.
func later(t *testing.T, log Log) *book {
	return open(t, log, NewMemoryBlobs(), Options{Alone: true, TrimLater: true}, nil)
}

func write(t *testing.T, j *book, key, data string) {
	t.Helper()
	if err := put(j, key, "one", data); err != nil {
		t.Fatal(err)
	}
}

func wantEntries(t *testing.T, log Log, want int, when string) {
	t.Helper()
	synctest.Wait()
	if n := entries(t, log); n != want {
		t.Errorf("%s the log holds %d entries, not %d", when, n, want)
	}
}

// What is replaced costs whoever replaces it no removal, and goes when nobody
// writes.
func TestReplacedGoesWhenItIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := NewMemory()
		j := later(t, log)
		const n = 100
		for i := range n {
			write(t, j, "a", fmt.Sprint(i))
			<-time.After(quietFor / 2)
		}
		wantEntries(t, log, n, "while somebody writes")
		<-time.After(quietFor)
		wantEntries(t, log, 1, "when nobody writes")
		if got := read(t, j)["a/one"]; got != fmt.Sprint(n-1) {
			t.Errorf("one is %q", got)
		}
	})
}

// Whatever is taken away goes at once, and what it replaced goes with it, before
// anything that tells of it can.
func TestRemovedDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := NewMemory()
		j := later(t, log)
		for i := range 40 {
			write(t, j, "a", fmt.Sprint(i))
			write(t, j, "b", fmt.Sprint(i))
		}
		if err := take(j, "a", "one"); err != nil {
			t.Fatal(err)
		}
		wantEntries(t, log, 1+40, "after a value was removed")
		if err := j.At("b").Remove(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		wantEntries(t, log, 1+1, "after an entity was removed")
		<-time.After(2 * quietFor)
		wantEntries(t, log, 1+1, "when nobody writes")
	})
}

// However much is written without a pause, only so much stays.
func TestReplacedIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := NewMemory()
		j := later(t, log)
		for i := range maxDeferred + 500 {
			write(t, j, strings.Repeat("k", 1+i%3), "x")
		}
		synctest.Wait()
		if n := entries(t, log); n > maxDeferred+3 || n < maxDeferred/2 {
			t.Errorf("%d entries stay, of which three count", n)
		}
	})
}

// What waited when the process ended is found by the next one.
func TestReplacedIsFoundAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := NewMemory()
		j := later(t, log)
		for i := range 40 {
			write(t, j, "a", fmt.Sprint(i))
		}
		j.Close()
		wantEntries(t, log, 40, "after the end")
		again := later(t, log)
		<-time.After(2 * quietFor)
		wantEntries(t, log, 1, "after the next begin")
		if got := read(t, again)["a/one"]; got != "39" {
			t.Errorf("one is %q", got)
		}
	})
}
