// Package sleep makes the times that a machine reads after it has slept: the wall's
// clock has gone on, and the monotonic one stood still.
package sleep

import (
	"fmt"
	"time"
	"unsafe"
)

// For is a time of time.Now as it would be if the machine had slept for so many
// whole seconds before. Less than nothing sets the wall's clock back.
func For(t time.Time, d time.Duration) time.Time {
	// No function of the library moves one reading alone.
	const nanoseconds = 30 // bits of wall, below the seconds
	out := t
	wall := (*uint64)(unsafe.Pointer(&out))
	*wall += uint64(d/time.Second) << nanoseconds
	if out.Sub(t) != 0 || out.Round(0).Sub(t.Round(0)) != d {
		panic(fmt.Sprintf("%v cannot be made %v later: it has no monotonic reading, or the library keeps times differently now", t, d))
	}
	return out
}
