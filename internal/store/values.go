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
	var log journal.Log = journal.NewMemory()
	o.Subjects, o.Alone = b.Name+".>", s == nil
	if s != nil {
		var err error
		if log, o.Subjects, err = s.ValuesLog(ctx, b); err != nil {
			return nil, err
		}
	}
	v, err := journal.OpenValues(ctx, log, o)
	if err != nil {
		return nil, fmt.Errorf("read the values %s: %w", b.Name, err)
	}
	return v, nil
}

// ValuesLog opens the log in which the values of a bucket are, and says which
// subjects the keys have in it. It is for who has something to do to all entries.
func (s *Store) ValuesLog(ctx context.Context, b BucketOptions) (log journal.Log, subjects string, err error) {
	bucket, err := s.Bucket(ctx, b)
	if err != nil {
		return nil, "", err
	}
	return bucket.l, bucket.l.name + ".>", nil
}
