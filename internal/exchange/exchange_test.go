package exchange

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestExchange(t *testing.T) {
	r := New(nil)
	c := r.Begin(Head{Call: "a-1", Method: "tools/call", Upstream: "up"})
	body := []byte(`{"name":"echo"}`)
	c.Add(Request, "", body)
	copy(body, "overwritten by the next message")
	if x, found := r.Find("a-1"); found != Kept || x.Done || len(x.Messages) != 1 || x.Messages[0].Text != `{"name":"echo"}` {
		t.Fatalf("under way: %+v", x)
	}
	if c.Answered() {
		t.Error("nothing has come yet")
	}
	c.Add(Result, "", []byte(`{}`))
	c.End("", time.Millisecond)
	x, _ := r.Find("a-1")
	if !x.Done || x.TookUS != 1000 || len(x.Messages) != 2 || x.Messages[1].What != Result || !c.Answered() {
		t.Errorf("over: %+v", x)
	}
	if _, found := r.Find("a-2"); found != Unknown {
		t.Errorf("a call that there was none of is %v", found)
	}
}

// What is too long is cut between two characters, and tells its size.
func TestCut(t *testing.T) {
	r := New(nil)
	c := r.Begin(Head{Call: "a"})
	long := "x" + strings.Repeat("é", MaxMessage)
	c.Add(Result, "", []byte(long))
	x, _ := r.Find("a")
	m := x.Messages[0]
	if !m.Cut || m.Bytes != len(long) || len(m.Text) > MaxMessage || len(m.Text) < MaxMessage-4 || !strings.HasPrefix(long, m.Text) || strings.ToValidUTF8(m.Text, "") != m.Text {
		t.Errorf("cut %v, %d bytes, %d kept", m.Cut, m.Bytes, len(m.Text))
	}
	c = r.Begin(Head{Call: "b"})
	c.Add(Result, "", []byte(long[:MaxMessage-1]))
	if x, _ := r.Find("b"); x.Messages[0].Cut {
		t.Error("a message that fits is cut")
	}
}

// However much is said, the bound holds; the oldest go first, also while they go on.
func TestBounds(t *testing.T) {
	r := New(nil)
	first := r.Begin(Head{Call: "first"})
	big := []byte(strings.Repeat("x", 2*MaxMessage))
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				c := r.Begin(Head{Call: fmt.Sprint(g, "-", i)})
				c.Add(Request, "", big)
				c.Add(Result, "", big)
				c.End("", 0)
				if n := r.Bytes(); n > MaxBytes {
					t.Errorf("%d bytes are held", n)
					return
				}
			}
		})
	}
	wg.Wait()
	if _, found := r.Find("first"); found != Gone {
		t.Errorf("the first is %v", found)
	}
	first.Add(Result, "", big)
	first.End("", 0)
	if _, found := r.Find("first"); found != Gone || r.Bytes() > MaxBytes || r.Bytes() < MaxBytes/2 {
		t.Errorf("what is not kept any more takes room: %d bytes", r.Bytes())
	}
	for i := range 3 * MaxCount {
		r.Begin(Head{Call: fmt.Sprint("small-", i)})
	}
	if n := len(r.Calls()); n > MaxCount || len(r.by) > MaxCount+maxGone {
		t.Errorf("%d exchanges and %d names are held", n, len(r.by))
	}
	if _, found := r.Find("0-0"); found != Unknown {
		t.Error("names are kept for ever")
	}
}

// A call that tells a lot is bounded too, and its answer is there.
func TestTalkative(t *testing.T) {
	r := New(nil)
	c := r.Begin(Head{Call: "a"})
	c.Add(Request, "", []byte("{}"))
	for range 1000 {
		c.Add(Notification, "notifications/message", []byte(strings.Repeat("x", 4<<10)))
	}
	for range 1000 {
		c.Add(Question, "q", []byte("{}"))
	}
	c.Add(Result, "", []byte(`"last"`))
	x, _ := r.Find("a")
	last := x.Messages[len(x.Messages)-1]
	if len(x.Messages) > maxParts || len(x.Messages)+x.More != 2002 || last.Text != `"last"` || r.Bytes() > 2*maxNotes {
		t.Errorf("%d messages, %d more, the last %+v, %d bytes", len(x.Messages), x.More, last, r.Bytes())
	}
}

func TestSwitch(t *testing.T) {
	r := New(nil)
	c := r.Begin(Head{Call: "a"})
	r.Switch(false)
	c.Add(Request, "", []byte("{}"))
	if r.Begin(Head{Call: "b"}) != nil || r.Bytes() != 0 || len(r.Calls()) != 0 || r.On() {
		t.Error("something is kept")
	}
	r.Switch(true)
	if r.Begin(Head{Call: "c"}) == nil || len(r.Calls()) != 1 {
		t.Error("nothing is kept")
	}
	var none *Recording // who is not recorded pays for nothing
	none.Add(Request, "", nil)
	none.End("", 0)
	if !none.Answered() {
		t.Error("nobody waits for the answer to what is not kept")
	}
}

// What nobody is to see is hidden, also where a message is cut within it.
func TestHidden(t *testing.T) {
	const secret = "hush-hush-0123456789"
	r := New(func(s string) string { return strings.ReplaceAll(s, secret, "•••") })
	c := r.Begin(Head{Call: "a"})
	c.Add(Request, "", []byte(`{"key":"`+secret+`"}`))
	c.Add(Result, "", []byte(strings.Repeat("x", MaxMessage-7)+secret+strings.Repeat("y", MaxMessage)))
	x, _ := r.Find("a")
	for _, m := range x.Messages {
		if strings.Contains(m.Text, "hush") || !strings.Contains(m.Text, "•") {
			t.Errorf("it ends in %q", m.Text[max(0, len(m.Text)-30):])
		}
	}
}

// BenchmarkExchange is what a call pays while somebody watches.
func BenchmarkExchange(b *testing.B) {
	r := New(nil)
	sent, came := []byte(strings.Repeat("x", 200)), []byte(strings.Repeat("y", 2000))
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		c := r.Begin(Head{Call: strconv.Itoa(n), Method: "tools/call", Upstream: "up"})
		c.Add(Request, "", sent)
		c.Add(Result, "", came)
		c.End("", time.Millisecond)
	}
}
