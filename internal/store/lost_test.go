package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/proxy"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// An append that was sent, and is sent again over a connection that is not there,
// may have been stored: whoever decides again has to look.
func TestConnectionIsLostAfterAnAppend(t *testing.T) {
	server := storetest.StartServer(t)
	p := proxy.New(t, server.URL)
	ctx := ctxFor(t, 60*time.Second)
	l := evt(t, storetest.Open(t, store.Options{URL: p.URL}))
	there := evt(t, storetest.Open(t, store.Options{URL: server.URL}))
	p.Set(proxy.Pass, proxy.Lose)
	done := make(chan error, 1)
	go func() {
		_, err := l.Append(ctx, "evt.a", []byte("one"), 0)
		done <- err
	}()
	await.NoError(t, "it is stored", func() error { _, err := there.Last(ctx, "evt.a"); return err })
	p.Cut()
	if err := <-done; !errors.Is(err, store.ErrUncertain) {
		t.Errorf("it ended with %v", err)
	}
}

// A connection that is lost and found again in a moment, as where one of several
// servers died, is no failure of what is asked meanwhile.
func TestConnectionIsFoundAgain(t *testing.T) {
	p := proxy.New(t, storetest.StartServer(t).URL)
	ctx := ctxFor(t, 60*time.Second)
	l := evt(t, storetest.Open(t, store.Options{URL: p.URL}))
	for i := range uint64(20) {
		p.Drop()
		if _, err := l.Append(ctx, "evt.a", nil, i); err != nil {
			t.Fatalf("append %d: %v", i, err)
		}
		if _, err := l.Last(ctx, "evt.a"); err != nil {
			t.Fatalf("read %d: %v", i, err)
		}
	}
}
