// Package logbook owns what a test reads while others still write it: a log, or
// what passes on a wire. It keeps everything, in the order of the writes, and
// promises no more than that.
package logbook

import (
	"bytes"
	"sync"
)

// Book is empty as its zero value. It must not be copied.
type Book struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *Book) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String is all that was written until now.
func (l *Book) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
