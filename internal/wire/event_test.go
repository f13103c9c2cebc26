package wire

import (
	"strings"
	"testing"
)

// A reader that was released is as new for who has it next, however it was left.
func TestEventReaderReleased(t *testing.T) {
	for i, left := range []string{"", "data: half", "id: 7\nretry: 9\nevent: odd\ndata: whole\r", ": " + strings.Repeat("c", 10<<10), "data: " + strings.Repeat("x", 100<<10) + "\n\n"} {
		old := NewEventReader(strings.NewReader(left), 8<<10)
		for {
			if _, err := old.Next(); err != nil {
				break
			}
		}
		old.Release()
		old.Release() // and no two may have it then
		a := NewEventReader(strings.NewReader("\ndata: a1\n\ndata: a2\n\n"), 8<<10)
		b := NewEventReader(strings.NewReader("data: b1\n\ndata: b2\n\n"), 8<<10)
		for _, n := range []string{"1", "2"} {
			one, err := a.Next()
			other, err2 := b.Next()
			if err != nil || err2 != nil || string(one.Data) != "a"+n || string(other.Data) != "b"+n || one.ID+one.Name != "" {
				t.Errorf("%d: %q %q %v, %q %v", i, one.Data, one.ID, err, other.Data, err2)
			}
		}
		if id, retry := a.Place(); id != "" || retry >= 0 {
			t.Errorf("%d: resumes at %q after %v", i, id, retry)
		}
		a.Release()
		b.Release()
	}
}
