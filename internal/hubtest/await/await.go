// Package await owns how tests wait for what must happen: they look again and
// again, and give up only when no machine would be so slow.
package await

import (
	"errors"
	"testing"
	"time"
)

// Patience is how long a test waits for something that must happen.
const Patience = time.Minute

var errNever = errors.New("it never was")

// Until looks until something is so, and ends the test where it never is.
func Until(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	NoError(tb, what, func() error {
		if ok() {
			return nil
		}
		return errNever
	})
}

// Value waits for what comes by a channel, or for its end.
func Value[T any](tb testing.TB, what string, from <-chan T) T {
	tb.Helper()
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case v := <-from:
		return v
	case <-late.C:
		tb.Fatalf("waited %v in vain until %s", Patience, what)
		panic("not reached")
	}
}

// What is looked for is there soon or takes long, and to look costs as much as
// what is waited for can use: the pauses grow.
const (
	shortest = 2 * time.Millisecond
	longest  = 20 * time.Millisecond
)

// NoError is Until for a check that says what is still missing.
func NoError(tb testing.TB, what string, check func() error) {
	tb.Helper()
	Within(tb, Patience, what, check)
}

// Within is NoError for what may take longer than all else.
func Within(tb testing.TB, patience time.Duration, what string, check func() error) {
	tb.Helper()
	end := time.Now().Add(patience)
	pause := shortest
	for err := check(); err != nil; err = check() {
		if time.Now().After(end) {
			tb.Fatalf("waited %v in vain until %s: %v", patience, what, err)
		}
		<-time.After(pause)
		pause = min(2*pause, longest)
	}
}
