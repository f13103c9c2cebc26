// Package elapsed measures time that has passed while the machine may have slept.
//
// A time.Time of time.Now has two readings: the wall's, which people set, and a
// monotonic one, which stands still while the machine sleeps and by which Sub and
// Before go. What is over by either of the two is over here, so that nobody goes
// on, after an hour of sleep, as if a moment had passed. Times that came from
// elsewhere have the wall's reading alone, and are compared by it.
package elapsed

import "time"

// Between is how much time passed from one time to another: by the wall or by the
// monotonic clock, whichever says more.
func Between(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// Since is Between with now.
func Since(from time.Time) time.Duration { return Between(from, time.Now()) }

// Past reports whether an end has come.
func Past(end, now time.Time) bool { return Between(end, now) >= 0 }
