package store

import (
	"context"
	"fmt"

	"github.com/stoahub/stoa/internal/journal"
)

// Values opens the values of a bucket for who shares them with others and wants
// to be told of changes. They may have been written as values of the bucket. A
// nil s keeps them in memory. Subjects and Alone are set here: over a folder, too,
// the engine removes values whose time is over, so that they have to be followed.
func Values[V any](ctx context.Context, s *Store, b BucketOptions, o journal.ValuesOptions[V]) (*journal.Values[V], error) {
	if s == nil {
		o.Subjects, o.Alone = b.Name+".>", true
		return journal.OpenValues(ctx, journal.NewMemory(), o)
	}
	bucket, err := s.Bucket(ctx, b)
	if err != nil {
		return nil, err
	}
	o.Subjects, o.Alone = bucket.l.name+".>", false
	v, err := journal.OpenValues(ctx, bucket.l, o)
	if err != nil {
		return nil, fmt.Errorf("read the values %s: %w", b.Name, err)
	}
	return v, nil
}
