package pace

import (
	"testing"
	"time"
)

func TestBucket(t *testing.T) {
	now := time.Unix(0, 0)
	b := New(2, 3, now)
	take := func() (n int) {
		for b.Take(now) {
			n++
		}
		return n
	}
	if n := take(); n != 3 {
		t.Errorf("%d at once", n)
	}
	now = now.Add(1600 * time.Millisecond)
	if n := take(); n != 3 {
		t.Errorf("%d after 1.6 s at 2 a second", n)
	}
	now = now.Add(600 * time.Millisecond)
	if n := take(); n != 1 {
		t.Errorf("%d after 0.6 s more", n)
	}
	now = now.Add(time.Hour)
	if n := take(); n != 3 {
		t.Errorf("%d after an hour", n)
	}
	now = now.Add(-time.Hour) // a clock that was set back gives nothing
	if n := take(); n != 0 {
		t.Errorf("%d for going back", n)
	}
	b = New(2, 3, now)
	if b.TakeN(4, now) || !b.TakeN(3, now) || b.TakeN(1, now) {
		t.Error("more at once than it holds, or less")
	}
}
