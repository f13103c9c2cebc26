package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSmoke(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	start := time.Now()
	s, err := Open(ctx, Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Log("open", time.Since(start))
	l, err := s.Log(ctx, LogOptions{Name: "evt", Subjects: []string{"evt.>"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Log("log", time.Since(start))
	start = time.Now()
	var last uint64
	for i := range 1000 {
		seq, err := l.Append(ctx, "evt.a", []byte(fmt.Sprint(i)), last)
		if err != nil {
			t.Fatal(err)
		}
		last = seq
	}
	t.Log("1000 appends", time.Since(start))
	_, err = l.Append(ctx, "evt.a", nil, 5)
	if c, ok := errors.AsType[*Conflict](err); !ok || c.Last != 1000 {
		t.Error(err)
	}
	n := 0
	if err := l.Scan(ctx, "", 0, func(e Entry) error {
		n++
		if e.Seq != uint64(n) {
			t.Fatal(e)
		}
		return nil
	}); err != nil || n != 1000 {
		t.Error(err, n)
	}
	if e, err := l.Read(ctx, 7); err != nil || string(e.Data) != "6" {
		t.Error(e, err)
	}
	start = time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	t.Log("close", time.Since(start))
	start = time.Now()
	if s, err = Open(ctx, Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	t.Log("reopen", time.Since(start))
	if d := s.Damage(); len(d) > 0 {
		t.Error(d)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
