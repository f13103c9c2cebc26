package chat

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// BenchmarkDelta is what a piece of text costs on its way through a turn, with
// one reader and none.
func BenchmarkDelta(b *testing.B) {
	for name, readers := range map[string]int{"unread": 0, "read": 1} {
		b.Run(name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			k := &book{every: partEvery}
			if err := k.record(ctx, &Event{Type: InputAdded, Input: &Input{Text: "x"}}); err != nil {
				b.Fatal(err)
			}
			ev := &Event{Type: TurnStarted, Start: &Start{Input: "i1"}}
			if err := k.record(ctx, ev); err != nil {
				b.Fatal(err)
			}
			done := make(chan struct{})
			for range readers {
				go func() {
					defer close(done)
					var pos Position
					for {
						var err error
						if _, pos, err = k.next(ctx, pos, 0); err != nil {
							return
						}
					}
				}()
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := k.add(ctx, ev.Turn, TextPart, "five ", nil); err != nil {
					b.Fatal(err)
				}
			}
			cancel()
			if readers > 0 {
				<-done
			}
			k.idle()
		})
	}
}

// BenchmarkPart is what it costs to make a part durable.
func BenchmarkPart(b *testing.B) {
	e, err := Open(b.Context(), storetest.Open(b, store.Options{}), Options{}, Settings{})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	x := e.journal.At("bench")
	b.ReportAllocs()
	for n := uint64(1); b.Loop(); n++ {
		en, data, err := newEntry(&Event{Seq: n, Time: time.Now(), Type: TextPart, Turn: "t1", Text: "two or three words "})
		if err != nil {
			b.Fatal(err)
		}
		x = x.Lock()
		if err := x.Append(b.Context(), en, data); err != nil {
			b.Fatal(err)
		}
		x.Unlock()
	}
}

// BenchmarkSession is the memory of a conversation whose turn runs.
func BenchmarkSession(b *testing.B) {
	s := newStage(b, staged{model: &spoken{answers: []answer{hangs("some words ")}}})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n := 0
	for b.Loop() {
		c := s.open("")
		s.send(c, "go")
		s.until(c, func(ev *Event) bool { return ev.Type == TextPart })
		n++
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "heap-bytes/session")
	b.ReportMetric(float64(after.StackInuse-before.StackInuse)/float64(n), "stack-bytes/session")
}
