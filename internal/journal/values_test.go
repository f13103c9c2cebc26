package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

type ticket struct {
	N    int       `json:"n"`
	Ends time.Time `json:"ends,omitzero"`
}

func openTickets(t *testing.T, log Log, changed func(string, *ticket)) *Values[ticket] {
	t.Helper()
	v, err := OpenValues(t.Context(), log, ValuesOptions[ticket]{
		Subjects: "ticket.>",
		Decode:   func(data []byte) (k ticket, err error) { return k, json.Unmarshal(data, &k) },
		Expired:  func(k ticket, now time.Time) bool { return !k.Ends.IsZero() && !now.Before(k.Ends) },
		Changed:  changed,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

func putTicket(t *testing.T, v *Values[ticket], key string, k ticket) uint64 {
	t.Helper()
	data, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	rev, err := v.Put(t.Context(), key, data)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

// The entry of a value that was replaced goes, and those of other keys stay.
func TestValuesReplace(t *testing.T) {
	log := NewMemory()
	var mu sync.Mutex
	var changed []string
	v := openTickets(t, log, func(key string, now *ticket) {
		mu.Lock()
		changed = append(changed, fmt.Sprint(key, now != nil))
		mu.Unlock()
	})
	for n := range 5 {
		putTicket(t, v, "a.b", ticket{N: n})
	}
	putTicket(t, v, "a", ticket{N: 9})
	entries := func() (all []string) {
		if err := log.Scan(t.Context(), "", 0, func(e Entry) error { all = append(all, e.Subject); return nil }); err != nil {
			t.Fatal(err)
		}
		return all
	}
	await.Until(t, "what was replaced is removed", func() bool { return slices.Equal(entries(), []string{"ticket.a.b", "ticket.a"}) })
	if got, err := v.Get("a.b"); err != nil || got.V.N != 4 || got.Rev != 5 {
		t.Errorf("the value is %+v, %v", got, err)
	}
	if err := v.Remove(t.Context(), "a.b"); err != nil {
		t.Fatal(err)
	}
	if err := v.Remove(t.Context(), "never"); err != nil {
		t.Errorf("there is nothing to remove: %v", err)
	}
	left := 0
	for key, one := range v.All() {
		if left++; key != "a" || one.V.N != 9 {
			t.Errorf("left is %s: %+v", key, one)
		}
	}
	if left != 1 {
		t.Errorf("%d values are left", left)
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(changed, " "); got != "a.btrue a.btrue a.btrue a.btrue a.btrue atrue a.bfalse" {
		t.Errorf("told of %s", got)
	}
}

// What somebody has changed since is not removed.
func TestValuesRemoveAfter(t *testing.T) {
	log := NewMemory()
	a, b := openTickets(t, log, nil), openTickets(t, log, nil)
	seen := putTicket(t, a, "k", ticket{N: 1})
	now := putTicket(t, b, "k", ticket{N: 2})
	err := a.RemoveAfter(t.Context(), "k", seen)
	if c, ok := errors.AsType[*Conflict](err); !ok || c.Last != now {
		t.Errorf("removed what was changed: %v", err)
	}
	if err := a.RemoveAfter(t.Context(), "k", now); err != nil {
		t.Error(err)
	}
	if _, err := b.Latest(t.Context(), "k"); !errors.Is(err, ErrNotFound) {
		t.Errorf("it is still there: %v", err)
	}
	if err := b.RemoveAfter(t.Context(), "k", now); err != nil {
		t.Errorf("it is gone already: %v", err)
	}
}

// What has expired is not there, for those who ask for it and those who list,
// and is removed, unless it was put anew.
func TestValuesExpire(t *testing.T) {
	log := NewMemory()
	a, b := openTickets(t, log, nil), openTickets(t, log, nil)
	soon := time.Now().Add(time.Hour)
	putTicket(t, a, "old", ticket{N: 1, Ends: soon})
	putTicket(t, a, "new", ticket{N: 1, Ends: soon})
	putTicket(t, a, "over", ticket{N: 1, Ends: time.Now().Add(-time.Second)})
	if _, err := b.Latest(t.Context(), "over"); !errors.Is(err, ErrNotFound) {
		t.Errorf("what is over can be had: %v", err)
	}
	for key := range a.All() {
		if key == "over" {
			t.Error("what is over is listed")
		}
	}
	putTicket(t, b, "new", ticket{N: 2, Ends: soon.Add(time.Hour)})
	a.Expire(t.Context(), soon)
	if _, err := b.Latest(t.Context(), "old"); !errors.Is(err, ErrNotFound) {
		t.Errorf("what has expired is there: %v", err)
	}
	if got, err := a.Latest(t.Context(), "new"); err != nil || got.V.N != 2 {
		t.Errorf("what was put anew is %+v, %v", got, err)
	}
}

// A value that this program cannot read stays in the log, hides the one before
// it, and keeps nobody from the others. One that it could not read is not written.
func TestValuesThatCannotBeRead(t *testing.T) {
	log := NewMemory()
	v := openTickets(t, log, nil)
	rev := putTicket(t, v, "k", ticket{N: 1})
	if _, err := log.Append(t.Context(), "ticket.k", []byte("of the future"), rev); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Latest(t.Context(), "k"); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("it is %v, not that it cannot be read", err)
	}
	for key := range v.All() {
		t.Errorf("%s is listed", key)
	}
	data, at, err := v.Read(t.Context(), "k")
	if err != nil || !bytes.Equal(data, []byte("of the future")) {
		t.Errorf("its data are %q, %v", data, err)
	}
	if _, err := v.Put(t.Context(), "k", []byte("{")); err == nil {
		t.Error("what cannot be read was put")
	}
	if _, err := v.PutAfter(t.Context(), "k", []byte(`{"n":3}`), at); err != nil {
		t.Errorf("it cannot be replaced: %v", err)
	}
}

// lateLog lets the log grow between what Last finds and who asked hearing of it.
type lateLog struct {
	Log
	after func()
}

func (l *lateLog) Last(ctx context.Context, filter string) (Entry, error) {
	e, err := l.Log.Last(ctx, filter)
	if f := l.after; f != nil {
		l.after = nil
		f()
	}
	return e, err
}

// Who asks for the latest while it is written here takes the answer, which was
// overtaken, for no removal.
func TestValueIsOvertaken(t *testing.T) {
	log := &lateLog{Log: NewMemory()}
	var told []string
	v := openTickets(t, log, func(_ string, now *ticket) {
		if now == nil {
			told = append(told, "removed")
			return
		}
		told = append(told, fmt.Sprint(now.N))
	})
	putTicket(t, v, "k", ticket{N: 1})
	log.after = func() { putTicket(t, v, "k", ticket{N: 2}) }
	if got, err := v.Latest(t.Context(), "k"); err != nil || got.V.N != 2 {
		t.Errorf("the latest is %+v, %v", got, err)
	}
	if got := strings.Join(told, " "); got != "1 2" {
		t.Errorf("told %s", got)
	}
}
