package event

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
		b.Emit(Record{Type: CallDone})
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

// Who is too slow loses calls, not what happened to the hub, and each record is
// either told or counted as lost.
func TestSlowFollowerLosesDetailOnly(t *testing.T) {
	b := New(8)
	var want []uint64
	for i := range uint64(100) {
		typ := CallDone
		if i%10 == 0 {
			typ, want = UpstreamState, append(want, i+1)
		}
		b.Emit(Record{Type: typ})
	}
	for _, limit := range []int{3, 100} {
		var got []uint64
		var seq, lost, told uint64
		for seq < 100 {
			p := b.Read(seq, limit, nil)
			if p.Next <= seq {
				t.Fatalf("limit %d: it stays at %d", limit, seq)
			}
			seq, lost, told = p.Next, lost+p.Lost, told+uint64(len(p.Records))
			for _, r := range p.Records {
				if r.Type == UpstreamState {
					got = append(got, r.Seq)
				}
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("limit %d: %s", limit, d)
		}
		if lost+told != 100 {
			t.Errorf("limit %d: %d told, %d lost of 100", limit, told, lost)
		}
	}
}

func TestLastingIsBounded(t *testing.T) {
	b := New(4)
	for range 3 * maxLasting {
		b.Emit(Record{Type: Health})
	}
	p := b.Read(0, 10*maxLasting, nil)
	if len(p.Records) != maxLasting || p.Lost != 2*maxLasting || p.Records[0].Seq != 2*maxLasting+1 {
		t.Errorf("%d records, %d lost", len(p.Records), p.Lost)
	}
	for i := 1; i < len(p.Records); i++ {
		if p.Records[i].Seq != p.Records[i-1].Seq+1 {
			t.Fatalf("%d follows %d", p.Records[i].Seq, p.Records[i-1].Seq)
		}
	}
}

func TestFilter(t *testing.T) {
	records := []Record{
		{Type: CallDone, Upstream: "a", Tool: "x", Session: "s"},
		{Type: CallProgress, Upstream: "a", Tool: "y", Level: Debug},
		{Type: UpstreamState, Upstream: "b", Level: Warning},
		{Type: Fault, Upstream: "b", Tool: "x", Level: Error},
		{Type: "run.ended", Session: "s"},
	}
	for _, tc := range []struct {
		types, upstream, tool, session, level string
		want                                  string
	}{
		{want: "01234"},
		{types: "call.done", want: "0"},
		{types: "call.*", want: "01"},
		{types: "call", want: "01"},
		{types: "error,run.*", want: "34"},
		{types: " upstream.state , call.progress", want: "12"},
		{upstream: "a", want: "01"},
		{tool: "x", want: "03"},
		{session: "s", want: "04"},
		{level: Info, want: "0234"},
		{level: Warning, want: "23"},
		{level: Error, upstream: "b", want: "3"},
		{upstream: "nobody", want: ""},
	} {
		f, err := NewFilter(tc.types, tc.upstream, tc.tool, tc.session, tc.level, "")
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for i := range records {
			if f.Passes(&records[i]) {
				got += fmt.Sprint(i)
			}
		}
		if got != tc.want {
			t.Errorf("%+v: %s", tc, got)
		}
	}
	for _, bad := range [][2]string{{"cal.done", ""}, {"call.done,nonsense", ""}, {"", "loud"}} {
		if _, err := NewFilter(bad[0], "", "", "", bad[1], ""); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// A filter passes over what is not wanted, and does not look at it again.
func TestReadFiltered(t *testing.T) {
	b := New(0)
	for i := range 100 {
		b.Emit(Record{Type: CallDone, Upstream: []string{"a", "b"}[i%2]})
	}
	f := &Filter{Upstream: "b"}
	p := b.Read(0, 10, f)
	if len(p.Records) != 10 || p.Next != 20 || p.Records[9].Seq != 20 {
		t.Fatalf("%d records up to %d", len(p.Records), p.Next)
	}
	if p = b.Read(20, 100, f); len(p.Records) != 40 || p.Next != 100 {
		t.Fatalf("%d records up to %d", len(p.Records), p.Next)
	}
	b.Emit(Record{Type: CallDone, Upstream: "a"})
	<-p.More
	if p = b.Read(p.Next, 100, f); len(p.Records) != 0 || p.Next != 101 {
		t.Fatalf("%d records up to %d", len(p.Records), p.Next)
	}
}

func TestWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(0)
		if b.Watched() {
			t.Error("nobody has come yet")
		}
		stop, other := b.Watch(), b.Watch()
		stop()
		stop()
		if !b.Watched() {
			t.Error("one is still there")
		}
		other()
		<-time.After(linger - time.Second)
		if !b.Watched() {
			t.Error("who polls may come again")
		}
		<-time.After(2 * time.Second)
		if b.Watched() {
			t.Error("all have gone")
		}
	})
}

func BenchmarkEmit(b *testing.B) {
	bus := New(0)
	b.ReportAllocs()
	for b.Loop() {
		bus.Emit(Record{Type: CallDone, Upstream: "github", Tool: "list_issues"})
	}
}

func BenchmarkWatched(b *testing.B) {
	bus := New(0)
	b.ReportAllocs()
	for b.Loop() {
		if bus.Watched() {
			b.Fatal("nobody watches")
		}
	}
}

// Telling of a call takes no memory once the ring is full.
func TestEmitAllocatesNothing(t *testing.T) {
	b := New(8)
	b.Hear(func(*Record) {})
	for range 8 {
		b.Emit(Record{Type: CallDone})
	}
	if n := testing.AllocsPerRun(100, func() { b.Emit(Record{Type: CallDone, Upstream: "a"}) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Who hears is told of everything but single calls.
func TestHear(t *testing.T) {
	b := New(8)
	var got []uint64
	b.Hear(func(r *Record) { got = append(got, r.Seq) })
	for _, typ := range []string{CallDone, Health, CallStarted, TurnEnded} {
		b.Emit(Record{Type: typ})
	}
	if d := cmp.Diff([]uint64{2, 4}, got); d != "" {
		t.Error(d)
	}
}
