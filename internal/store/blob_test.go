package store_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

func blobs(t testing.TB, s *store.Store) (*store.Blobs, *store.Log) {
	t.Helper()
	ctx := ctxFor(t, patience)
	b, err := s.Blobs(ctx, "blob")
	if err != nil {
		t.Fatal(err)
	}
	return b, openLog(t, s, store.LogOptions{Name: "blob", Subjects: []string{"blob.>"}})
}

func noise(n int, seed uint64) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed)})
	_, _ = r.Read(b)
	return b
}

func TestBlobs(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := ctxFor(t, 60*time.Second)
		b, l := blobs(t, s)
		for i, n := range []int{0, 1, store.MaxEntry - 1, store.MaxEntry, store.MaxEntry + 1, 3*store.MaxEntry + 17} {
			data := noise(n, uint64(i))
			sum := sha256.Sum256(data)
			hash, err := b.Put(ctx, "s1", data)
			if err != nil || hash != hex.EncodeToString(sum[:]) {
				t.Fatal(n, hash, err)
			}
			got, err := b.Get(ctx, "s1", hash)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes: %d came back, %v", n, len(got), err)
			}
			before, err := l.Usage(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := b.Put(ctx, "s1", data); err != nil || again != hash {
				t.Error(again, err)
			}
			if after, err := l.Usage(ctx); err != nil || after != before {
				t.Errorf("the same again wrote something: %+v, %+v, %v", before, after, err)
			}
			if _, err := b.Get(ctx, "s2", hash); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("another owner reads it: %v", err)
			}
		}
		if _, err := b.Put(ctx, "s2", []byte("other")); err != nil {
			t.Fatal(err)
		}
		if err := b.Purge(ctx, "s1"); err != nil {
			t.Fatal(err)
		}
		if u, err := l.Usage(ctx); err != nil || u.Entries != 1 || u.Bytes > 500 {
			t.Errorf("%+v, %v", u, err)
		}
	})
}

func TestHalfWrittenBlob(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := ctxFor(t, 60*time.Second)
		b, l := blobs(t, s)
		data := noise(4*store.MaxEntry, 7)
		sum := sha256.Sum256(data)
		hash := hex.EncodeToString(sum[:])
		// As one whose process is killed leaves it.
		for range 3 {
			if _, err := l.AppendAny(ctx, l.Name()+".s."+hash+".dead", data[:store.MaxEntry]); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := b.Get(ctx, "s", hash); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("half a blob is readable: %d bytes, %v", len(got), err)
		}
		b.Impatient()
		if _, err := b.Put(ctx, "s", data); err != nil {
			t.Fatal(err)
		}
		if got, err := b.Get(ctx, "s", hash); err != nil || !bytes.Equal(got, data) {
			t.Error(len(got), err)
		}
		if u, err := l.Usage(ctx); err != nil || u.Entries != 6 { // four parts, their list, and what took the dead one's place
			t.Errorf("%+v, %v: parts that were left are still there", u, err)
		}
		if err := b.Delete(ctx, "s", hash); err != nil {
			t.Error(err)
		}
		if u, err := l.Usage(ctx); err != nil || u.Entries != 0 {
			t.Errorf("%+v, %v: not all of it was removed", u, err)
		}
	})
}

// A blob that is damaged can be removed, with its chunks, and stored again.
func TestDamagedBlobIsRemoved(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := ctxFor(t, 60*time.Second)
		b, l := blobs(t, s)
		data := noise(store.MaxEntry+1, 1)
		hash, err := b.Put(ctx, "o", data)
		if err != nil {
			t.Fatal(err)
		}
		end, err := l.Last(ctx, "blob.o."+hash)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(ctx, "blob.o."+hash, []byte("no end of a blob"), end.Seq); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Get(ctx, "o", hash); !errors.Is(err, store.ErrLost) {
			t.Errorf("Get: %v", err)
		}
		if err := b.Delete(ctx, "o", hash); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Last(ctx, "blob.>"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("something is left: %v", err)
		}
		if _, err := b.Put(ctx, "o", data); err != nil {
			t.Fatal(err)
		}
		if got, err := b.Get(ctx, "o", hash); err != nil || !bytes.Equal(got, data) {
			t.Errorf("Get: %d bytes, %v", len(got), err)
		}
	})
}

// Several that write the same blob at once leave one, whole, and nothing else;
// also where each takes the others for dead and clears what they have left.
func TestOneBlobByMany(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := ctxFor(t, 60*time.Second)
		one, l := blobs(t, s)
		two, _ := blobs(t, s) // as another process would have it
		both := []*store.Blobs{one, two}
		many := func(owner string, data []byte) {
			t.Helper()
			var all sync.WaitGroup
			for i := range 6 {
				all.Go(func() {
					hash, err := both[i%2].Put(ctx, owner, data)
					if err != nil {
						t.Error(err)
						return
					}
					if got, err := both[i%2].Get(ctx, owner, hash); err != nil || !bytes.Equal(got, data) {
						t.Errorf("%s: what was stored reads as %d bytes, %v", owner, len(got), err)
					}
				})
			}
			all.Wait()
		}
		many("s", noise(2*store.MaxEntry+5, 3))
		if u, err := l.Usage(ctx); err != nil || u.Entries != 4 {
			t.Errorf("%+v, %v", u, err)
		}
		one.Impatient()
		two.Impatient()
		for i := range 2 {
			many("rash"+strconv.Itoa(i), noise(2*store.MaxEntry+5, uint64(10+i)))
		}
	})
}
