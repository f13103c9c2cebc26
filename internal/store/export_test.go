package store

// Impatient makes b take whoever has not completed a blob for dead.
func (b *Blobs) Impatient() { b.abandoned = -1 }
