package store

import (
	"context"
	"errors"
)

// Usage asks how much each log, bucket and queue that is in use holds, by the
// engine's name for it.
func (s *Store) Usage(ctx context.Context) (map[string]Usage, error) {
	out := map[string]Usage{}
	var errs []error
	s.streams.Range(func(name, _ any) bool {
		l := &Log{s: s, name: name.(string)}
		u, err := l.Usage(ctx)
		if err != nil {
			errs = append(errs, err)
			return ctx.Err() == nil
		}
		out[l.name] = u
		return true
	})
	return out, errors.Join(errs...)
}
