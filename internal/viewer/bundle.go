package viewer

import (
	"context"
	"encoding/json"

	"github.com/stoahub/stoa/internal/event"
)

// maxFrame is how long a frame of several records may become before another is
// begun.
const maxFrame = 64 << 10

const batchHead, batchTail = `{"type":"batch","events":[`, `]}`

// bundle is what is sent next: one record, or several if the viewer wants that.
type bundle struct {
	of *socket
	b  []byte // batchHead and the records
	n  int    // of them
}

// add puts a record into the bundle, which may send those before it.
func (f *bundle) add(ctx context.Context, r *event.Record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return nil // what cannot be told is passed over, and the rest is not held up
	}
	if !f.of.batch {
		return f.of.write(ctx, b)
	}
	if f.n > 0 && len(f.b)+len(b) > maxFrame {
		if err := f.flush(ctx); err != nil {
			return err
		}
	}
	if f.n == 0 {
		f.b = append(f.b[:0], batchHead...)
	} else {
		f.b = append(f.b, ',')
	}
	f.b = append(f.b, b...)
	f.n++
	return nil
}

// flush sends what the bundle has.
func (f *bundle) flush(ctx context.Context) error {
	n := f.n
	f.n = 0
	switch n {
	case 0:
		return nil
	case 1:
		return f.of.write(ctx, f.b[len(batchHead):])
	}
	return f.of.write(ctx, append(f.b, batchTail...))
}
