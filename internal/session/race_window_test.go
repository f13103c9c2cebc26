package session

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// Two begin the same Session. The one that comes to nothing must not take the
// other's value with it.
func TestBeginAtOnce(t *testing.T) {
	r := registry(t, storetest.Open(t, store.Options{}), Options{})
	ctx := ctxFor(t, patience)
	inside, proceed, done := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	go func() {
		_, err := bind(t, r, "p", "s").commit(ctx, func(*state) (*event, []byte, error) {
			close(inside)
			<-proceed
			return nil, nil, nil
		})
		done <- err
	}()
	<-inside
	go func() {
		_, _, err := bind(t, r, "p", "s").Put(ctx, New{Name: "v", Data: []byte("1")})
		done <- err
	}()
	await.Until(t, "the second waits for the first", func() bool { return waiting("(*Session).Put") })
	close(proceed)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	holds(t, bind(t, r, "p", "s"), "v", "1")
}

// waiting reports whether a goroutine in a function waits for a mutex.
func waiting(in string) bool {
	buf := make([]byte, 1<<20)
	for g := range bytes.SplitSeq(buf[:runtime.Stack(buf, true)], []byte("\n\n")) {
		if bytes.Contains(g, []byte(in)) && bytes.Contains(g, []byte("sync.Mutex.Lock")) {
			return true
		}
	}
	return false
}

// A value that is replaced again and again, of which no version but the last is
// kept, can be referred to at any moment.
func TestReplacedWhileResolved(t *testing.T) {
	r := registry(t, storetest.Open(t, store.Options{}), Options{History: 1, Cache: 1})
	s := bind(t, r, "p", "s")
	store1(t, s, "v", `"0"`)
	ctx, cancel := context.WithCancel(ctxFor(t, 60*time.Second))
	done := make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			if _, _, err := s.Put(ctx, New{Name: "v", Data: fmt.Appendf(nil, `"%d"`, i)}); err != nil {
				done <- err
				return
			}
		}
	}()
	for range soak(700, 50_000) {
		if out, _, err := r.Resolve(ctx, "p", s, []byte(`["@v"]`), 1000, nil); err != nil {
			t.Fatalf("%s, %v", out, err)
		}
	}
	cancel()
	if err := <-done; ctx.Err() == nil {
		t.Error(err)
	}
}
