package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Hubs that share a server keep the version of what is there in a bucket of its
// own. Releases of version 1 do not look at it.
const (
	versionBucket = "version"
	versionKey    = "store"
)

// agree refuses what a later release keeps on the server, without changing
// anything, and else has the version there be at least our own.
func (s *Store) agree(ctx context.Context) error {
	for {
		there, rev, err := s.sharedVersion(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("read the version of the store at %s: %w", s.o.where(), err)
		case there > schemaVersion:
			return fmt.Errorf("the store at %s has version %d, this program knows versions up to %d: use the release that wrote it or a later one, or another store; nothing was changed", s.o.where(), there, schemaVersion)
		case there == schemaVersion:
			_, err := s.Bucket(ctx, BucketOptions{Name: versionBucket}) // it may be due more replicas
			return err
		}
		b, err := s.Bucket(ctx, BucketOptions{Name: versionBucket})
		if err == nil {
			data := []byte(strconv.Itoa(schemaVersion))
			if rev == 0 {
				_, err = b.Create(ctx, versionKey, data, 0)
			} else {
				_, err = b.Update(ctx, versionKey, data, rev, 0)
			}
		}
		if _, raced := errors.AsType[*Conflict](err); raced {
			continue // another hub starts, too: look what it has written
		}
		if err != nil {
			return fmt.Errorf("write the version of the store at %s: %w", s.o.where(), err)
		}
		return nil
	}
}

// sharedVersion returns the version of what is on the server; 0 means that
// nobody has said it.
func (s *Store) sharedVersion(outer context.Context) (version int, rev uint64, err error) {
	ctx, cancel := s.reading(outer)
	defer cancel()
	name := bucketPrefix + versionBucket
	if _, err := s.find(ctx, name); errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, 0, nil
	} else if err != nil {
		return 0, 0, s.failed(outer, "look it up", err, false)
	}
	b := &Bucket{l: &Log{s: s, name: name}}
	v, err := b.Get(ctx, versionKey)
	if errors.Is(err, ErrNotFound) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	version, err = strconv.Atoi(strings.TrimSpace(string(v.Data)))
	if err != nil || version < 1 {
		return 0, 0, fmt.Errorf("it says %.40q, which is none: a release that is later than this one may have written it", v.Data)
	}
	return version, v.Rev, nil
}
