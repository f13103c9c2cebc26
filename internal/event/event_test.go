package event

import (
	"sync"
	"testing"
)

// A follower sees every record once and in order, however many write.
func TestFollow(t *testing.T) {
	b := New(10_000)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				b.Emit(Record{Type: CallDone})
			}
		})
	}
	var seen uint64
	for seen < 4000 {
		out, lost, more := b.After(seen, 100)
		if lost > 0 {
			t.Fatalf("%d were lost", lost)
		}
		for _, r := range out {
			if seen++; r.Seq != seen || r.Time.IsZero() {
				t.Fatalf("record %d came as %+v", seen, r)
			}
		}
		if seen < 4000 {
			<-more
		}
	}
	wg.Wait()
	if out, lost, more := b.After(seen, 1); len(out) > 0 || lost > 0 || more == nil {
		t.Errorf("after the last there are %v, %d lost", out, lost)
	}
}

// Who is too slow is told what it missed, and gets the rest.
func TestSlowFollower(t *testing.T) {
	b := New(8)
	for range 20 {
		b.Emit(Record{})
	}
	out, lost, _ := b.After(3, 100)
	if lost != 9 || len(out) != 8 || out[0].Seq != 13 || out[7].Seq != 20 {
		t.Errorf("%d were lost, then came %v", lost, out)
	}
	out, lost, more := b.After(12, 5)
	if lost != 0 || len(out) != 5 || out[0].Seq != 13 {
		t.Errorf("a part: %v, %d lost", out, lost)
	}
	select {
	case <-more:
	default:
		t.Error("it was not said that there are more")
	}
}
