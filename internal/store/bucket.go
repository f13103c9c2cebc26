package store

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// markerLife is how long the note of a deletion stays for those who watch. A
// watch that was cut off for longer may miss it; Get never errs.
var markerLife = time.Minute

// overLife is the same for what is over by itself. The engine lets no value live
// for less.
const overLife = time.Second

// bucketPrefix is how the names of buckets' streams begin.
const bucketPrefix = "bucket_"

// BucketOptions describe a bucket.
type BucketOptions struct {
	Name string
	TTL  time.Duration // of every value; 0 means for ever. At least 1 s.
}

// Value is one value of a bucket. Its Data belongs to who gets it.
type Value struct {
	Key     string
	Rev     uint64
	Time    time.Time
	Data    []byte
	Deleted bool // the key was deleted, or its time was over; only from Watch
}

// Bucket holds the latest value of keys. Keys are parts of letters, digits,
// - _ and =, with dots between them.
type Bucket struct{ l *Log }

// Bucket opens a bucket, making it if it is not there.
func (s *Store) Bucket(ctx context.Context, o BucketOptions) (*Bucket, error) {
	if err := checkName("bucket", o.Name); err != nil {
		return nil, err
	}
	if o.TTL != 0 && o.TTL < time.Second {
		return nil, fmt.Errorf("bucket %s: the engine counts in seconds: a value cannot live for %v", o.Name, o.TTL)
	}
	name := bucketPrefix + o.Name
	remember := rememberIDs
	if o.TTL > 0 {
		remember = min(remember, o.TTL)
	}
	err := s.stream(ctx, jetstream.StreamConfig{
		Name: name, Subjects: []string{name + ".>"}, Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld,
		MaxAge: o.TTL, MaxMsgsPerSubject: -1, MaxMsgs: -1, MaxBytes: -1, MaxConsumers: -1, MaxMsgSize: -1,
		Replicas: s.o.Replicas, AllowDirect: true, AllowRollup: true, AllowMsgTTL: true, SubjectDeleteMarkerTTL: overLife, Duplicates: remember,
	})
	if err != nil {
		return nil, err
	}
	b := &Bucket{&Log{s: s, name: name}}
	if err := b.tidy(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// tidy removes values that another has replaced: a crash between the two may
// have left them, and they would come back when the other is over.
func (b *Bucket) tidy(ctx context.Context) error {
	u, err := b.Usage(ctx)
	if err != nil || u.Entries <= u.Subjects {
		return err
	}
	newest := map[string]uint64{}
	replaced := map[string]bool{}
	_, err = b.l.scan(ctx, b.l.name+".>", 0, func(e Entry, _ nats.Header) error {
		if newest[e.Subject] != 0 {
			replaced[e.Subject] = true
		}
		newest[e.Subject] = e.Seq
		return nil
	})
	for subject := range replaced {
		err = errors.Join(err, b.l.PurgeBefore(ctx, subject, newest[subject]))
	}
	return err
}

var keyForm = regexp.MustCompile(`^[A-Za-z0-9_=-]+(\.[A-Za-z0-9_=-]+)*$`)

func (b *Bucket) subject(key string) (string, error) {
	if !keyForm.MatchString(key) || len(key) > 512 {
		return "", fmt.Errorf("bucket %s: %q is no key: use letters, digits, - _ = and dots between them, at most 512", b.l.name, key)
	}
	return b.l.name + "." + key, nil
}

// Get returns the value of a key.
func (b *Bucket) Get(ctx context.Context, key string) (Value, error) {
	v, err := b.last(ctx, key)
	if err == nil && v.Deleted {
		err = fmt.Errorf("read %s of %s: %w", key, b.l.name, ErrNotFound)
	}
	if err != nil {
		return Value{}, err
	}
	return v, nil
}

// last returns what is known of a key, its deletion included.
func (b *Bucket) last(ctx context.Context, key string) (Value, error) {
	subject, err := b.subject(key)
	if err != nil {
		return Value{}, err
	}
	e, header, err := b.l.s.get(ctx, b.l.name, fmt.Sprintf("read %s of %s", key, b.l.name), getRequest{Last: subject})
	if err != nil {
		return Value{}, err
	}
	return b.value(e, header), nil
}

const (
	headerTTL       = "Nats-TTL"
	headerOperation = "KV-Operation"
	headerMarker    = "Nats-Marker-Reason"
	headerRollup    = "Nats-Rollup"
)

func (b *Bucket) value(e Entry, header nats.Header) Value {
	v := Value{Key: strings.TrimPrefix(e.Subject, b.l.name+"."), Rev: e.Seq, Time: e.Time, Data: e.Data}
	// Whether a value is over is for the engine to say, which removes it then: the
	// clock here may be ahead of the one that counts.
	v.Deleted = header.Get(headerOperation) != "" || header.Get(headerMarker) != ""
	if v.Deleted {
		v.Data = nil
	}
	return v
}

// A value that replaces another, or notes that there is none any more, has the
// engine remove the other and write down that it did. Where a bound of the
// stream removes the other, that is not written down: it comes back after a
// crash if what replaced it is over by then.

// Put sets a value, whatever was there. It ends after ttl, in whole seconds;
// 0 means with the bucket's TTL.
func (b *Bucket) Put(ctx context.Context, key string, data []byte, ttl time.Duration) (rev uint64, err error) {
	return b.put(ctx, key, data, ttl, nil)
}

// Create sets a value if there is none, else it returns a *Conflict.
func (b *Bucket) Create(ctx context.Context, key string, data []byte, ttl time.Duration) (rev uint64, err error) {
	for {
		var expect uint64
		v, err := b.last(ctx, key)
		switch {
		case errors.Is(err, ErrNotFound):
		case err != nil:
			return 0, err
		case !v.Deleted:
			return 0, &Conflict{Subject: key, Last: v.Rev}
		default:
			expect = v.Rev
		}
		rev, err = b.put(ctx, key, data, ttl, &expect)
		if _, ok := errors.AsType[*Conflict](err); !ok {
			return rev, err
		}
		// Someone was quicker, or a marker went: look again.
	}
}

// Update sets a value if its revision is rev, else it returns a *Conflict.
func (b *Bucket) Update(ctx context.Context, key string, data []byte, rev uint64, ttl time.Duration) (uint64, error) {
	return b.put(ctx, key, data, ttl, &rev)
}

func (b *Bucket) put(ctx context.Context, key string, data []byte, ttl time.Duration, expect *uint64) (uint64, error) {
	m, err := b.message(key, ttl)
	if err != nil {
		return 0, err
	}
	m.Data = data
	return b.publish(ctx, m, key, expect)
}

func (b *Bucket) message(key string, ttl time.Duration) (*nats.Msg, error) {
	subject, err := b.subject(key)
	if err != nil {
		return nil, err
	}
	m := nats.NewMsg(subject)
	m.Header.Set(headerRollup, "sub")
	if ttl > 0 {
		m.Header.Set(headerTTL, strconv.FormatInt(int64((ttl+time.Second-1)/time.Second), 10)+"s")
	}
	return m, nil
}

func (b *Bucket) publish(ctx context.Context, m *nats.Msg, key string, expect *uint64) (uint64, error) {
	if expect == nil {
		return b.l.publish(ctx, m)
	}
	rev, err := b.l.expecting(ctx, m, *expect)
	if c, ok := errors.AsType[*Conflict](err); ok {
		c.Subject = key
	}
	return rev, err
}

// Delete removes a key, if its revision is rev; 0 means any. It is no error if
// there is none.
func (b *Bucket) Delete(ctx context.Context, key string, rev uint64) error {
	var expect *uint64
	if rev != 0 {
		expect = &rev
	}
	m, err := b.message(key, markerLife)
	if err != nil {
		return err
	}
	m.Header.Set(headerOperation, "PURGE")
	_, err = b.publish(ctx, m, key, expect)
	return err
}

// Watch calls fn with the value of each key that begins with prefix and a dot
// ("" means each), then current, then fn with each change, in order, until ctx
// ends or fn returns an error, which it returns.
func (b *Bucket) Watch(ctx context.Context, prefix string, current func(), fn func(Value) error) error {
	filter := b.l.name + ".>"
	if prefix != "" {
		subject, err := b.subject(prefix)
		if err != nil {
			return err
		}
		filter = subject + ".>"
	}
	next, err := b.l.scan(ctx, filter, 0, func(e Entry, h nats.Header) error {
		if v := b.value(e, h); !v.Deleted {
			return fn(v)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if current != nil {
		current()
	}
	return b.l.tail(ctx, filter, next, func(e Entry, h nats.Header) error { return fn(b.value(e, h)) })
}

// Usage says how much the bucket holds, with the notes of deletions.
func (b *Bucket) Usage(ctx context.Context) (Usage, error) { return b.l.Usage(ctx) }
