package store

import "time"

// Impatient makes b take whoever has not completed a blob for dead.
func (b *Blobs) Impatient() { b.abandoned = -1 }

// MarkersFor has the notes of deletions stay so long, and returns what ends
// that.
func MarkersFor(d time.Duration) (restore func()) {
	before := markerLife
	markerLife = d
	return func() { markerLife = before }
}
