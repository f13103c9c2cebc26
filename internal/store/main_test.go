package store_test

import (
	"context"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

func TestMain(m *testing.M) {
	storetest.Child()
	if role := roles[os.Getenv("STOA_STORE_ROLE")]; role != nil {
		role()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// roles are what the test binary does when it is started as a child.
var roles = map[string]func(){"append": roleAppend, "churn": roleChurn, "hold": roleHold, "delete": roleDelete, "disk": roleDisk, "count": roleCount}

// patience is how long a test waits for something that must happen.
const patience = await.Patience

func ctxFor(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func openLog(t testing.TB, s *store.Store, o store.LogOptions) *store.Log {
	t.Helper()
	l, err := s.Log(ctxFor(t, patience), o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func evt(t testing.TB, s *store.Store) *store.Log {
	t.Helper()
	return openLog(t, s, store.LogOptions{Name: "evt", Subjects: []string{"evt.>"}})
}

// entries scans a log and returns subject and data of each entry.
func entries(t testing.TB, l *store.Log, filter string, from uint64) (seqs []uint64, data []string) {
	t.Helper()
	err := l.Scan(ctxFor(t, 30*time.Second), filter, from, func(e store.Entry) error {
		seqs = append(seqs, e.Seq)
		data = append(data, string(e.Data))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return seqs, data
}
