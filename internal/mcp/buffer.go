package mcp

import (
	"io"
	"sync"

	"github.com/stoahub/stoa/internal/wire"
)

// A buffer is memory for one message, reused between messages. Buffers that
// grew large are kept too, but only a few by the pool's own rules.
type buffer struct {
	b []byte
}

var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, 1024)} }}

func newBuffer() *buffer { return buffers.Get().(*buffer) }

func (b *buffer) free() {
	wire.Spoil(b.b)
	b.b = b.b[:0]
	buffers.Put(b)
}

// fill reads all of r, at most limit bytes, after what b holds. want is the
// expected length, or -1. It reports whether r had more than limit.
func (b *buffer) fill(r io.Reader, want int64, limit int) (tooLong bool, err error) {
	start := len(b.b)
	if want > int64(limit) {
		return true, nil
	}
	// A promise of the sender is believed only up to a point, so that a
	// declared length alone costs no memory.
	if want > 0 {
		b.grow(int(min(want, 1<<20)) + 1)
	}
	for {
		if len(b.b) == cap(b.b) {
			b.grow(min(max(512, cap(b.b)), 4<<20))
		}
		n, err := r.Read(b.b[len(b.b):cap(b.b)])
		b.b = b.b[:len(b.b)+n]
		if len(b.b)-start > limit {
			return true, nil
		}
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}

func (b *buffer) grow(n int) {
	if cap(b.b)-len(b.b) >= n {
		return
	}
	next := make([]byte, len(b.b), len(b.b)+n)
	copy(next, b.b)
	b.b = next
}
