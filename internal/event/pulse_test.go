package event

import (
	"testing"
	"time"
)

func TestPulse(t *testing.T) {
	b := New(8)
	now := time.Unix(1_800_000_002, 0) // within a step
	for i := range 100 {
		b.Emit(Record{Type: CallDone, Time: now.Add(-PulseStep), TookUS: int64(1000 * (i + 1))})
	}
	b.Emit(Record{Type: CallDone, Time: now.Add(-3 * PulseStep), TookUS: 7, Kind: "timeout"})
	b.Emit(Record{Type: CallDone, Time: now.Add(-2 * PulsePoints * PulseStep)}) // long ago
	b.Emit(Record{Type: CallStarted, Time: now.Add(-PulseStep)})
	b.Emit(Record{Type: CallDone, Time: now}) // its step is not over
	p := b.Pulse(now)
	if want := time.Unix(1_800_000_000, 0); !p.End.Equal(want) {
		t.Errorf("it ends at %v, want %v", p.End, want)
	}
	last := PulsePoints - 1
	if p.Calls[last] != 100 || p.Failed[last] != 0 || p.Calls[last-2] != 1 || p.Failed[last-2] != 1 {
		t.Errorf("calls %v, failed %v", p.Calls[last-2:], p.Failed[last-2:])
	}
	near := func(got, want int64) bool { return got > want*7/8 && got < want*9/8 }
	if !near(p.P50[last], 50_000) || !near(p.P95[last], 95_000) || !near(p.P99[last], 99_000) || p.P50[last-2] < 6 || p.P50[last-2] > 8 || p.P99[last-1] != 0 {
		t.Errorf("half %v, 99 of 100 %v", p.P50[last-2:], p.P99[last-2:])
	}
	var all uint32
	for _, n := range p.Calls {
		all += n
	}
	if all != 101 {
		t.Errorf("%d calls in all, want 101", all)
	}
	if p = b.Pulse(now.Add(PulsePoints * PulseStep)); p.Calls[0] != 1 || p.Calls[1] != 0 {
		t.Errorf("later: %v", p.Calls)
	}
}

// Each bucket stands for a time that falls into it, and the buckets rise.
func TestPulseBuckets(t *testing.T) {
	for i := range buckets - 1 {
		if got := bucketOf(middle(i)); got != i {
			t.Fatalf("bucket %d stands for %d µs, which is of bucket %d", i, middle(i), got)
		}
		if middle(i+1) <= middle(i) {
			t.Fatalf("bucket %d stands for %d µs, the next for %d", i, middle(i), middle(i+1))
		}
	}
	if bucketOf(-1) != 0 || bucketOf(1<<62) != buckets-1 {
		t.Error("what is out of bounds is not at the ends")
	}
}
